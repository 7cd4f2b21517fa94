"""Proof that the cases are what they claim: a fault changes something, in float64, and a sound pair changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from .cases import Case
from .pairs import Pair
from .running import all_values, difference, largest

LARGEST_OF_SOUND = 1e-9
LEAST_SIZE = 1e-6  # of a gradient, as a share of the largest of all gradients


def problems(case: Case) -> Iterator[str]:
    """Yield what a case claims and isn't true."""
    pair = case.pair()
    try:
        yield from _unknown_cells(case, pair)
        distance = strongest(pair)
        if "shows" in pair.options:
            shown = float(pair.options["shows"](pair))
            if not shown > LARGEST_OF_SOUND:
                yield f"{case.kind} {case.name}: changes nothing where it should show, {shown:.2g}"
        elif case.is_fault and not case.same_in_float64 and not distance > LARGEST_OF_SOUND:
            yield f"{case.kind} {case.name}: changes nothing, {distance:.2g}"
        if (not case.is_fault or "shows" in pair.options) and not distance <= pair.options.get(
            "rounding", LARGEST_OF_SOUND
        ):
            yield f"{case.kind} {case.name}: differs by {distance:.2g}"
    finally:
        pair.cleanup()


def strongest(pair: Pair) -> float:
    """The largest relative difference of the two sides in float64; infinite if the candidate raises.

    All outputs, gradients and buffer updates that have a partner of the same name are compared.
    """
    if "difference" in pair.options:
        return float(pair.options["difference"](pair))
    return strongest_of_modules(pair.reference, pair.candidate, pair.args, pair.train)


def strongest_of_modules(reference: nn.Module, candidate: nn.Module, args: tuple[Any, ...], train: bool) -> float:
    """`strongest` of two modules on some inputs, in a mode."""
    there = all_values(reference, args, train)
    try:
        here = all_values(candidate, args, train)
    except (RuntimeError, IndexError):
        return float("inf")
    sizes: dict[str, float] = {}
    for name, value in there.items():
        sizes[name.split()[0]] = max(sizes.get(name.split()[0], 0.0), largest(value))
    both = there.keys() & here.keys()
    return max(difference(there[name], here[name], LEAST_SIZE * sizes[name.split()[0]]) for name in both)


def _unknown_cells(case: Case, pair: Pair) -> Iterator[str]:
    if isinstance(pair.reference, nn.Module) and pair.scripts is None:
        known = {path for path, _ in pair.reference.named_modules(remove_duplicate=False)}
        for path in case.cells:
            if path not in known:
                yield f"{case.kind} {case.name}: no Cell {path!r}"
