"""Finds the Cells of two torch modules that can't be compared one by one, because they are called differently.

Both modules are run forward in float64, the candidate on the values that the reference recorded. A Cell is set apart if
the candidate calls it more or less often, from another Cell, or with other tensors. Its work then belongs to the Cell
around it on both sides. This is repeated until all remaining Cells are called alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ....runtime.ir.types import is_floating
from ...correspondence.same_inputs import Calls, inputs_to_join
from ...results.cell_report import is_inside
from ...results.structure import ADDITIONAL_CELL, CALLED_DIFFERENTLY, NOT_CALLED
from ...sides.records import INPUT, Array, Key, Records
from ...sides.run import FORWARD, ReferenceRun, Run
from ...sides.torch_side import TorchSide

CAUTIOUS_ROUNDS = 8
"""Rounds in which a Cell's calls with other tensors are set apart one by one: the first may explain the others."""

Sides = Callable[[Collection[str]], tuple[TorchSide, TorchSide]]
"""Makes the reference and the candidate without the Cells at these paths."""


@dataclass(frozen=True)
class Apart:
    """Why a Cell is set apart.

    Attributes:
        kind: a kind of `StructureDifference`.
        reason: the difference, in words that follow "is".
    """

    kind: str
    reason: str


@dataclass(frozen=True)
class Alignment:
    """The result.

    Attributes:
        apart: the Cells that are set apart, by path.
        used_elsewhere: parameters that a Cell uses on either side which doesn't hold them.
        joined: inputs of the reference's and of the candidate's calls that count as one, since they are one tensor.
    """

    apart: Mapping[str, Apart]
    used_elsewhere: set[str]
    joined: tuple[Calls, Calls]


def align(sides: Sides) -> Alignment:
    """Compare the calls of both sides until no further Cell has to be set apart."""
    apart: dict[str, Apart] = {}
    joined: tuple[Calls, Calls] = {}, {}
    rounds = 0
    while True:
        reference, candidate = joining(sides(apart), joined)
        truth = reference.run(Run("float64", FORWARD))
        run = Run("float64", FORWARD, ReferenceRun.of(truth), truth)
        records = candidate.run(run)
        calls = _Calls(truth, records)
        new = calls.counted_differently() or calls.made_elsewhere()
        more = (
            ({}, {})
            if new
            else inputs_to_join(truth.slots, truth.boundaries.same, records.slots, records.boundaries.same)
        )
        if any(more):
            joined = {**joined[0], **more[0]}, {**joined[1], **more[1]}
            continue
        new = new or calls.given_others(rounds < CAUTIOUS_ROUNDS)
        if not new:
            return Alignment(apart, truth.users.elsewhere | records.users.elsewhere, joined)
        apart |= new
        rounds += 1


def joining(sides: tuple[TorchSide, TorchSide], joined: tuple[Calls, Calls]) -> tuple[TorchSide, TorchSide]:
    """Return both sides with inputs that count as one."""
    return replace(sides[0], joined=joined[0]), replace(sides[1], joined=joined[1])


class _Calls:
    """The calls of both sides in one run."""

    def __init__(self, truth: Records, records: Records) -> None:
        self.truth = truth
        self.records = records

    def counted_differently(self) -> dict[str, Apart]:
        """Return the Cells that are called more or less often."""
        there, here = _counts(self.truth), _counts(self.records)
        apart: dict[str, Apart] = {}
        for path in dict.fromkeys([*there, *here]):
            old, new = there.get(path, 0), here.get(path, 0)
            if new == old or (new < old and self._is_skipped(path)):
                continue
            kind = NOT_CALLED if not new else ADDITIONAL_CELL if not old else CALLED_DIFFERENTLY
            how = (
                f"called {_times(new)} in the candidate, {_times(old)} in the reference"
                if new
                else f"never called in the candidate, {_times(old)} in the reference"
            )
            apart[path] = Apart(kind, how)
        return apart

    def made_elsewhere(self) -> dict[str, Apart]:
        """Return the Cells that another Cell calls."""
        there, here = _callers(self.truth), _callers(self.records)
        return {
            path: Apart(
                CALLED_DIFFERENTLY,
                f"called by {_name(here[path, call])} in the candidate, by {_name(caller)} in the reference",
            )
            for (path, call), caller in there.items()
            if here.get((path, call), caller) != caller
        }

    def given_others(self, cautious: bool) -> dict[str, Apart]:
        """Return the Cells that are called with other tensors; with `cautious`, only the first that each Cell calls."""
        apart: dict[str, Apart] = {}
        callers = set()
        for call in self.records.calls:
            if call.parent is None or call.path in apart:
                continue
            reason = next(self._differences(call.path, call.index), "")
            caller = self.records.calls[call.parent].path
            if reason and not (cautious and caller in callers):
                apart[call.path] = Apart(CALLED_DIFFERENTLY, reason)
                callers.add(caller)
        return apart

    def _differences(self, path: str, call: int) -> Iterator[str]:
        """Yield how the tensors of a call differ other than in numbers."""
        there, here = (records.slots.get((path, call, INPUT), []) for records in (self.truth, self.records))
        if len(there) != len(here):
            yield f"given {_list(here)} in the candidate, {_list(there)} in the reference"
        own = dict(zip(there, here, strict=False))
        for slot in there:
            key = Key(path, call, INPUT, slot)
            value, other = self.truth.values[key], self.records.values.get(key)
            if other is not None and value.shape != other.shape:
                shapes = f"{list(other.shape)} in the candidate, {list(value.shape)} in the reference"
                yield f"given {own.get(slot, slot)} of shape {shapes}"
            if other is not None and _kind(value) != _kind(other):
                dtypes = f"{other.dtype.name} in the candidate, {value.dtype.name} in the reference"
                yield f"given {own.get(slot, slot)} of dtype {dtypes}"

    def _is_skipped(self, path: str) -> bool:
        """Whether the candidate may not have come to a Cell because the Cell around it raised."""
        raising = self.records.faults.raising
        return any(is_inside(path, other) for other in raising)


def _counts(records: Records) -> dict[str, int]:
    counts: dict[str, int] = {}
    for call in records.calls:
        counts[call.path] = counts.get(call.path, 0) + 1
    return counts


def _callers(records: Records) -> dict[tuple[str, int], str]:
    calls = records.calls
    return {(call.path, call.index): calls[call.parent].path for call in calls if call.parent is not None}


def _kind(array: Array) -> str:
    if is_floating(array.dtype):
        return "floating"
    return "bool" if array.dtype == np.bool_ else "integer"


def _list(slots: list[str]) -> str:
    return f"{len(slots)} tensor{'s' if len(slots) > 1 else ''} ({', '.join(slots)})" if slots else "no tensor"


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def _name(path: str) -> str:
    return path or "(root)"
