"""How the calls of two torch modules differ in one run, in which the candidate was fed the reference's values."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.types import is_floating
from ...correspondence.half_digits import alike
from ...results.cell_report import is_inside
from ...results.structure import ADDITIONAL_CELL, CALLED_DIFFERENTLY, NOT_CALLED
from ...sides.records import INPUT, OUTPUT, Array, Key, Records
from ...support.messages import times_in_words


@dataclass(frozen=True)
class Apart:
    """Why a Cell is set apart.

    Attributes:
        kind: a kind of `StructureDifference`.
        reason: the difference, in words that follow "is".
        has_other_tensors: whether the candidate's Cell takes or returns other tensors, or is never called.
    """

    kind: str
    reason: str
    has_other_tensors: bool = False


class CallDifferences:
    """The calls of both sides in one run."""

    def __init__(self, truth: Records, records: Records) -> None:
        self.truth = truth
        self.records = records

    def counted_differently(self) -> dict[str, Apart]:
        """Return the Cells that are called more or less often."""
        reference_counts, candidate_counts = _counts(self.truth), _counts(self.records)
        apart: dict[str, Apart] = {}
        for path in dict.fromkeys([*reference_counts, *candidate_counts]):
            old, new = reference_counts.get(path, 0), candidate_counts.get(path, 0)
            if new == old or (new < old and self._is_skipped(path)):
                continue
            kind = NOT_CALLED if not new else ADDITIONAL_CELL if not old else CALLED_DIFFERENTLY
            how = (
                f"called {times_in_words(new)} in the candidate, {times_in_words(old)} in the reference"
                if new
                else f"never called in the candidate, {times_in_words(old)} in the reference"
            )
            apart[path] = Apart(kind, how, has_other_tensors=not new)
        return apart

    def made_elsewhere(self) -> dict[str, Apart]:
        """Return for Cells that another Cell calls what contains them on one side alone.

        If all of that returns the same on both sides, or the Cell returns what it is given, it is that Cell itself;
        but those are returned only if there are no others, which may explain them.
        """
        reference_around, candidate_around = _around(self.truth), _around(self.records)
        apart: dict[str, Apart] = {}
        moved: dict[str, Apart] = {}
        for (path, call), outer in reference_around.items():
            other = candidate_around.get((path, call), outer)
            if other[0] == outer[0]:
                continue
            around = {container: "reference" for container in outer if container not in other}
            around |= {container: "candidate" for container in other if container not in outer}
            divided = [container for container in around if not self.returns_the_same(container)]
            if divided and not self._is_passed_on(path, call):
                for container in divided:
                    reason = f"divided differently: {path} is inside it in the {around[container]} alone"
                    apart.setdefault(container, Apart(CALLED_DIFFERENTLY, reason))
            else:
                reason = f"called by {_name(other[0])} in the candidate, by {_name(outer[0])} in the reference"
                moved[path] = Apart(CALLED_DIFFERENTLY, reason)
        return apart or moved

    def returns_the_same(self, path: str) -> bool:
        """Whether a Cell returns the reference's values, or what it returns isn't known, since it raises."""
        if self.raises(path) or self._is_skipped(path):
            return True
        return all(map(self._is_the_same, (k for k in self.truth.values if k.kind == OUTPUT and k.path == path)))

    def passes_on_the_same(self, path: str) -> bool:
        """Whether a Cell gives the reference's values to those that it calls."""
        calls = self.truth.calls
        called = {(c.path, c.index) for c in calls if c.parent is not None and calls[c.parent].path == path}
        given = (key for key in self.truth.values if key.kind == INPUT and (key.path, key.call) in called)
        return all(map(self._is_the_same, given))

    def _is_the_same(self, key: Key) -> bool:
        other = self.records.values.get(key)
        return other is not None and alike(self.truth.values[key], other)

    def _is_passed_on(self, path: str, call: int) -> bool:
        """Whether the reference's Cell returns a tensor that it is given, as a dropout in eval mode does."""
        inputs, outputs = (self.truth.slots.get((path, call, kind), []) for kind in (INPUT, OUTPUT))
        if len(outputs) != 1:
            return False
        result = self.truth.values[Key(path, call, OUTPUT, outputs[0])]
        return any(np.array_equal(result, self.truth.values[Key(path, call, INPUT, slot)]) for slot in inputs)

    def returned_in_other_shapes(self) -> dict[str, tuple[str, Apart]]:
        """Return the Cells that return a tensor of another shape, each with a caller."""
        apart: dict[str, tuple[str, Apart]] = {}
        for call in self.records.calls:
            for slot in self.truth.slots.get((call.path, call.index, OUTPUT), []) if call.parent is not None else []:
                key = Key(call.path, call.index, OUTPUT, slot)
                value, other = self.truth.values[key], self.records.values.get(key)
                if other is not None and other.shape != value.shape:
                    shapes = f"{list(other.shape)} in the candidate, {list(value.shape)} in the reference"
                    why = Apart(CALLED_DIFFERENTLY, f"returning {slot} of shape {shapes}", has_other_tensors=True)
                    apart.setdefault(call.path, (self.records.calls[call.parent or 0].path, why))
        return apart

    def raises(self, path: str) -> bool:
        """Whether the candidate's Cell raised."""
        return path in self.records.faults.raising

    def unreturned(self) -> set[tuple[str, str]]:
        """Return the results of inner Cells that the candidate doesn't return, as paths and slots."""
        raising = self.records.faults.raising
        ran = {(call.path, call.index) for call in self.records.calls if not self._is_skipped(call.path)}
        return {
            (key.path, key.slot)
            for key in self.truth.values
            if key.kind == OUTPUT and key.path and (key.path, key.call) in ran and key.path not in raising
            if key not in self.records.values and self.records.slots.get((key.path, key.call, OUTPUT))
        }

    def returned_fewer(self, places: Collection[tuple[str, str]]) -> dict[str, Apart]:
        """Return the Cells of results that the candidate doesn't return."""
        return {
            path: Apart(CALLED_DIFFERENTLY, f"returning {slot} in the reference alone, which is used there")
            for path, slot in places
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
                apart[call.path] = Apart(CALLED_DIFFERENTLY, reason, has_other_tensors=True)
                callers.add(caller)
        return apart

    def _differences(self, path: str, call: int) -> Iterator[str]:
        """Yield how the tensors of a call differ other than in numbers."""
        reference_slots, candidate_slots = (
            records.slots.get((path, call, INPUT), []) for records in (self.truth, self.records)
        )
        if len(reference_slots) != len(candidate_slots):
            yield f"given {_list(candidate_slots)} in the candidate, {_list(reference_slots)} in the reference"
        own = dict(zip(reference_slots, candidate_slots, strict=False))
        for slot in reference_slots:
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


def _around(records: Records) -> dict[tuple[str, int], list[str]]:
    """Return the paths of the Cells that contain each call, the nearest first."""
    around: dict[tuple[str, int], list[str]] = {}
    for call in records.calls:
        if call.parent is not None:
            parent = records.calls[call.parent]
            around[call.path, call.index] = [parent.path, *around.get((parent.path, parent.index), [])]
    return around


def _kind(array: Array) -> str:
    if is_floating(array.dtype):
        return "floating"
    return "bool" if array.dtype == np.bool_ else "integer"


def _list(slots: list[str]) -> str:
    return f"{len(slots)} tensor{'s' if len(slots) > 1 else ''} ({', '.join(slots)})" if slots else "no tensor"


def _name(path: str) -> str:
    return path or "(root)"
