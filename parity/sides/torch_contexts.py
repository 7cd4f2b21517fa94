"""The contexts of a run of a torch module, of which each prepares one thing."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...converter.capture.cell_hooks import input_slots
from ...converter.capture.checkpoints import keep_activations
from ...converter.capture.other_numbers import with_other_numbers
from ...converter.dtypes import is_inexact
from ...converter.structure.program_names import named_parameters
from ..correspondence.same_inputs import Calls, same_tensors
from .parameter_users import ParameterUses
from .precision import DoublePrecision, convert, keeps_all
from .rounded_numbers import perturb_attributes, perturb_weights
from .run import Arguments, Run
from .torch_modes import Draws, JitteredOperators, RecordableCalls
from .torch_recorder import Recorder


@contextlib.contextmanager
def recording(
    run: Run, working: torch.dtype, kept: Any, shares: Mapping[torch.nn.Module, Mapping[str, str]], joined: Calls
) -> Iterator[Recorder]:
    """Yield the recorder of a run, which in float64 is in double precision.

    Args:
        run: the run.
        working: the working dtype.
        kept: what `in_dtype` has kept.
        shares: as for `Recorder`.
        joined: as for `Recorder`.
    """
    double = None
    if run.dtype == "float64":
        double = DoublePrecision(working, kept, perturbed=bool(run.numbers.perturbed))
    with double if double is not None else contextlib.nullcontext():
        recorder = Recorder(run, shares, joined, double)
        try:
            yield recorder
        finally:
            # each of them refers through torch's graph to the recorder, in a cycle that Python's garbage collector
            # can't see
            recorder.leaves.clear()
            recorder.taps.clear()


@contextlib.contextmanager
def other_numbers(
    module: torch.nn.Module, run: Run, rounded: Collection[str], computed: Collection[str], *, at_boundaries: bool
) -> Iterator[None]:
    """Within the context, a module computes with the numbers that a run changes; `in_dtype` puts them back.

    Args:
        module: the module.
        run: the run.
        rounded: buffers that are perturbed.
        computed: parameters that are perturbed.
        at_boundaries: whether there are numbers at boundaries, which are jittered there; else those of operators are.
    """
    if run.numbers.perturbed:
        perturb_attributes(module, rounded)
        perturb_weights(module, computed, run.numbers.perturbed)
    steps, jitter = run.numbers.parameter_steps, run.numbers.jitter
    for name, parameter in named_parameters(module):
        if name in steps:
            parameter.data = parameter.data + torch.from_numpy(np.asarray(steps[name]))
    with JitteredOperators(jitter.seed, jitter.units) if jitter and not at_boundaries else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def observing(module: torch.nn.Module, recorder: Recorder) -> Iterator[Draws]:
    """Within the context, the use of parameters is recorded; yield what replays random draws."""
    run = recorder.run
    with contextlib.ExitStack() as stack:
        if not run.wanted.grads and run.wanted.inner:
            names = {parameter: name for name, parameter in named_parameters(module)}
            uses = stack.enter_context(ParameterUses(names, lambda: recorder.cell()[0]))
            recorder.records.users.elsewhere = uses.elsewhere
        stack.enter_context(keep_activations())
        stack.enter_context(torch.enable_grad())
        stack.enter_context(RecordableCalls())
        yield Draws(run.reference.draws, recorder.cell)


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
