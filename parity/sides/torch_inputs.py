"""The inputs of a run of a torch module: new tensors in the dtype of the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.cell_hooks import input_slots
from ...converter.capture.other_numbers import with_other_numbers
from ...converter.dtypes import is_inexact
from ..correspondence.same_inputs import Calls, same_tensors
from .precision import convert, keeps_all
from .run import Arguments


@dataclass(frozen=True)
class TorchInputs:
    """Arguments of a call, and the leaf tensors among them, whose gradients are computed."""

    args: Any
    kwargs: Any
    leaves: list[torch.Tensor]


def inputs_in(
    module: torch.nn.Module, arguments: Arguments, dtype: torch.dtype, working: torch.dtype, *, grads: bool
) -> TorchInputs:
    """Return arguments with new tensors in `dtype`, rounded to the working dtype first, for a module that is in it."""
    leaves: list[torch.Tensor] = []

    def fresh(tensor: torch.Tensor) -> torch.Tensor:
        copy = tensor.detach().clone()
        if is_inexact(copy):
            # rounded to the working dtype first, so that every precision starts from the same numbers
            as_given = dtype != torch.float64 and keeps_all(module, working)
            copy = copy if as_given else convert(convert(copy, working), dtype)
            copy.requires_grad_(grads)
            leaves.append(copy)
            if grads:
                return copy.clone()  # torch forbids changing a leaf in place, which a first layer may do
        return copy

    args, kwargs = pytree.tree_map_only(torch.Tensor, fresh, arguments)
    return TorchInputs(args, kwargs, leaves)


def other_arguments(arguments: Arguments, working: torch.dtype) -> Arguments:
    """Return arguments with other numbers; those of float64 are rounded to float32 first, as on other sides."""

    def rounded(tensor: torch.Tensor) -> torch.Tensor:
        is_double = tensor.dtype in (torch.float64, torch.complex128)
        return convert(tensor, torch.float32) if is_double and working != torch.float64 else tensor

    args, kwargs = with_other_numbers(pytree.tree_map_only(torch.Tensor, rounded, arguments))
    return args, kwargs


def same_arguments(
    module: torch.nn.Module, arguments: Arguments, joined: Calls
) -> dict[tuple[str, int], dict[int, int]]:
    """Return the arguments that are one tensor, of which a run has several copies; none that are joined."""
    leaves = pytree.tree_leaves(arguments)
    same = same_tensors([leaves[position] for position, _ in input_slots(module, *arguments)])
    return {("", 0): same} if same and ("", 0) not in joined else {}
