"""Numbers near the ends of the working dtype's range, where float64 shows no overflow and no underflow."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import torch

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import is_floating
from ...sides.abilities import RunsModule, RunsProgram
from ...sides.records import OUTPUT
from ...sides.run import OUTPUTS, Call, Run
from ...sides.side import Side
from ...sides.torch_modes import OperatorNames
from ...verdicts.deviations import error, size
from ...verdicts.judge import MEANING_RELATIVE
from .probe import Change, Probe
from .values import Inputs

DTYPE = "float32"
"""The working dtype whose range is tried; in half precision, the given inputs nearly fill the range."""
SIZES = (300.0, 1e-6, 1e5)
"""Largest magnitudes, at which high powers overflow and underflow."""
FAR = (1e-15, 1e15, 1e-25, 1e25)
"""Others for networks whose outputs are proportional to their inputs: products of few numbers overflow or underflow."""
SHIFTS = (200.0, -200.0, -40.0)
"""Numbers that are added: an exponential overflows, underflows, and is small beside 1."""
SPREAD = 8.0
"""The largest magnitude of what is shifted."""

SUMMING_SQUARES = frozenset({"std", "std_mean", "variance"})
"""Operations whose kernels sum squares in double precision, so that those of numbers near the ends don't overflow."""


def range_end_probes(inputs: Inputs, *, any_size: bool) -> Iterator[Probe]:
    """Yield probes whose numbers are all large, all small, or all far from zero on one side.

    All have about the same size, since small numbers beside large ones show nothing in sums.

    Args:
        inputs: the given inputs.
        any_size: whether the network may be given numbers of any size: its outputs are proportional to its inputs. A
            normalization, or an attention, isn't made for numbers whose squares overflow, nor is a deviation.
    """
    names = inputs.listed(inputs.numbers)
    changes = (_CHANGES | _FAR_CHANGES if any_size else _CHANGES) if inputs.numbers else {}
    for name, change in changes.items():
        yield Probe(f"{names} {name}, in {DTYPE}", inputs.changed(inputs.numbers, change), working=True)


def takes_any_size(side: Side, inputs: Inputs) -> bool:
    """Whether a network may be given numbers of any size: its outputs are proportional to them, and not by a kernel."""
    return is_proportional(side, inputs) and not _sums_squares(side)


def _sums_squares(side: Side) -> bool:
    if isinstance(side, RunsModule):
        return not SUMMING_SQUARES.isdisjoint(side.watch_operators(OperatorNames()).names)
    return isinstance(side, RunsProgram) and any(node.op in SUMMING_SQUARES for node in side.own_program().nodes)


def is_proportional(side: Side, inputs: Inputs) -> bool:
    """Whether twice the numbers give twice the outputs in float64."""
    run = Run("float64", OUTPUTS)
    try:
        once = side.run(run)
        twice = side.run(replace(run, call=Call(inputs.changed(inputs.numbers, lambda x: x * 2))))
    except CellbridgeError:
        return False
    outputs = [key for key in once.root_keys(OUTPUT) if is_floating(once.values[key].dtype)]
    return bool(outputs) and all(
        key in twice.values
        and twice.values[key].shape == once.values[key].shape
        and error(twice.values[key], 2 * once.values[key])[0] <= MEANING_RELATIVE * size(twice.values[key])
        for key in outputs
    )


def _scaled(x: torch.Tensor, to: float) -> torch.Tensor:
    """Return the numbers with this largest magnitude; zeros stay zeros."""
    largest = float(x.double().abs().max()) if x.numel() else 0.0
    return x if largest == 0 else (x.double() * (to / largest)).to(x)


def _shifted(x: torch.Tensor, by: float) -> torch.Tensor:
    return (_scaled(x, SPREAD).double() + by).to(x)


_CHANGES: dict[str, Change] = {
    **{f"around {by:g}": functools.partial(_shifted, by=by) for by in SHIFTS},
    **{f"up to {n:g}": functools.partial(_scaled, to=n) for n in SIZES},
}
_FAR_CHANGES: dict[str, Change] = {f"up to {n:g}": functools.partial(_scaled, to=n) for n in FAR}
