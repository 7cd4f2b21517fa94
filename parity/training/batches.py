"""The batches that a network is trained on: the inputs that are given, and others made of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime import tree
from ...runtime.errors import UsageError
from ...runtime.ir.program import Program
from ...runtime.programs.call import as_array
from ...runtime.programs.interpreter import bind
from ..dtypes import cast_floating
from ..sides.precision import is_inexact
from .torch_steps import Batch


def first_batches(example: Batch, more_inputs: Iterable[Batch], count: int) -> tuple[list[Batch], bool]:
    """The inputs that `count` batches take, and whether there are more."""
    others = iter(more_inputs)
    return [example, *itertools.islice(others, count - 1)], next(others, None) is not None


def example_batches(given: Sequence[Batch], count: int, seed: int) -> list[Batch]:
    """The given inputs, and as many made of them in turn as `count` batches need; see `check_training`."""
    generator = torch.Generator().manual_seed(seed)

    def shrunk(tensor: torch.Tensor) -> torch.Tensor:
        if not is_inexact(tensor):
            return tensor
        factor = 0.5 + 0.5 * torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
        return (tensor.detach().cpu() * factor).to(tensor.dtype)

    others = itertools.islice(itertools.cycle(given), count - len(given))
    return [*given, *(pytree.tree_map_only(torch.Tensor, shrunk, batch) for batch in others)]


def arranged(program: Program, example: Batch, batch: Batch, number: int) -> Batch:
    """A batch with its arguments in the order of the example's.

    Raises:
        UsageError: the program that was captured with the example can't take the batch.
    """

    def refused(problem: str) -> UsageError:
        return UsageError(f"input number {number} of the model can't be trained on: {problem}")

    expected, spec = _by_path(example)
    found, _ = _by_path(batch)
    if expected.keys() != found.keys():
        needed, given = (", ".join(paths) or "nothing" for paths in (expected, found))
        raise refused(f"needed {needed}, as in the first input; given {given}")
    for path, leaf in expected.items():
        other = found[path]
        if tree.is_tensor(leaf) != tree.is_tensor(other) or (not tree.is_tensor(leaf) and leaf != other):
            raise refused(f"{path} is {_said(other)}, and {_said(leaf)} in the first input, with which it was captured")
    whole = pytree.tree_unflatten([found[path] for path in expected], spec)
    batch = whole["args"], whole["kwargs"]
    arrays = zip(arrays_of(batch), program.inputs, strict=True)
    try:
        bind(program, [cast_floating(a, v.dtype) for a, v in arrays])
    except UsageError as error:
        raise refused(str(error)) from error
    return batch


def arrays_of(batch: Batch) -> list[Any]:
    """The tensors of a batch, in order."""
    return [as_array(leaf) for leaf in pytree.tree_leaves(batch) if tree.is_tensor(leaf)]


def _by_path(batch: Batch) -> tuple[dict[str, Any], pytree.TreeSpec]:
    """Leaves by where they stand, `['args'][0]` or `['kwargs']['x']`, and their structure."""
    args, kwargs = batch
    leaves, spec = pytree.tree_flatten_with_path({"args": args, "kwargs": kwargs})
    return {pytree.keystr(path): leaf for path, leaf in leaves}, spec


def _said(leaf: Any) -> str:
    return "a tensor" if tree.is_tensor(leaf) else repr(leaf)
