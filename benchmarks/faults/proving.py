"""Proof that the cases are what they claim: a fault changes something, in float64, and a sound pair changes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from .cases import Case
from .pairs import Pair
from .running import all_values, difference

LARGEST_OF_SOUND = 1e-9


def problems(case: Case) -> Iterator[str]:
    """Yield what a case claims and isn't true."""
    pair = case.pair()
    try:
        yield from _unknown_cells(case, pair)
        distance = strongest(pair)
        if case.is_fault and not case.hidden and not distance > LARGEST_OF_SOUND:
            yield f"{case.kind} {case.name}: changes nothing, {distance:.2g}"
        if not case.is_fault and not distance <= LARGEST_OF_SOUND:
            yield f"{case.kind} {case.name}: differs by {distance:.2g}"
    finally:
        pair.cleanup()


def strongest(pair: Pair) -> float:
    """The largest relative difference of the two sides in float64; infinite if the candidate raises.

    All outputs, gradients and buffer updates that have a partner of the same name are compared.
    """
    if "difference" in pair.options:
        return float(pair.options["difference"](pair))
    there = all_values(pair.reference, pair.args, pair.train)
    try:
        here = all_values(pair.candidate, pair.args, pair.train)
    except (RuntimeError, IndexError):
        return float("inf")
    return max(difference(there[name], here[name]) for name in there.keys() & here.keys())


def _unknown_cells(case: Case, pair: Pair) -> Iterator[str]:
    if isinstance(pair.reference, nn.Module) and pair.scripts is None:
        known = {path for path, _ in pair.reference.named_modules(remove_duplicate=False)}
        for path in case.cells:
            if path not in known:
                yield f"{case.kind} {case.name}: no Cell {path!r}"
