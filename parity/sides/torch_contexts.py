"""The contexts of a run of a torch module, of which each prepares one thing."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ...converter.capture.checkpoints import keep_activations
from ...converter.structure.program_names import named_parameters
from ..correspondence.same_inputs import Calls
from .parameter_uses import ParameterUses
from .precision import DoublePrecision
from .rounded_numbers import perturb_attributes, perturb_weights
from .run import Run
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
