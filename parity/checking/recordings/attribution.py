"""What each value of a network is computed from, as far as the boundaries of its Cells show, and which Cells are wrong.

Two networks ran end to end on values of their own. A Cell is wrong itself if what it computes differs although all that
it computes it from agrees: its inputs, and what the Cells that it called returned; backward, the gradients that
arrived, too. What agrees up to rounding may still bring the error of another Cell, which shows where roundings average
out. So a value that depends on a Cell that is wrong counts as affected, unless it differs by far more than what it is
computed from.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from ....runtime.ir.types import CellCall
from ...results.comparison import FAIL, PASS, Comparison
from ...sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Key, Records, gradient_key


class Sources:
    """The boundaries of one run, by the calls that compute what crosses them.

    Args:
        truth: the records of the run.
        compared: the boundaries at which another run is compared with it.
    """

    def __init__(self, truth: Records, compared: Collection[Key]) -> None:
        self._compared = compared
        last: dict[int, Key] = {}
        self._crossed: dict[Key, Key] = {}  # the boundary before, of a value that crosses several unchanged
        for key, array in truth.values.items():
            if id(array) in last:
                self._crossed[key] = last[id(array)]
            last[id(array)] = key
        numbers = {(call.path, call.index): number for number, call in enumerate(truth.calls)}
        self._calls = truth.calls
        self._parents = [call.parent for call in truth.calls]
        self._own: dict[int, dict[str, list[Key]]] = {number: {} for number in range(len(truth.calls))}
        self._inside: dict[int, dict[str, list[Key]]] = {number: {} for number in range(len(truth.calls))}
        self._calls_of: dict[str, list[int]] = {}
        for number, call in enumerate(truth.calls):
            self._calls_of.setdefault(call.path, []).append(number)
        self._number: dict[Key, int] = {}
        self._passed: dict[tuple[str, int, str], Key] = {}
        for key in truth.values:
            number = numbers[key.path, key.call]
            self._number[key] = number
            self._own[number].setdefault(key.kind, []).append(key)
            parent = self._parents[number]
            if parent is not None:
                self._inside[parent].setdefault(key.kind, []).append(key)
            if key.kind in (INPUT, OUTPUT_GRADIENT):
                kind = "passed value" if key.kind == INPUT else "passed gradient"
                self._passed[kind, key.call, f"{key.path} {key.slot}"] = key

    def key(self, path: str, c: Comparison) -> Key | None:
        """Return the boundary that a comparison of a Cell is about; None for parameters, buffers and calls."""
        kinds = {"output": OUTPUT, "input gradient": INPUT_GRADIENT}
        if c.kind in kinds:
            key = Key(path, c.call, kinds[c.kind], c.tensor)
            return key if key in self._number else None
        return self._passed.get((c.kind, c.call, c.tensor))

    def of(self, path: str, c: Comparison) -> set[Key]:
        """Return the compared boundaries that the value of a comparison is computed from."""
        key = self.key(path, c)
        return self._closure(self._of_parameter(path, c) if key is None else self._sources(key), key)

    def _closure(self, sources: Iterable[Key], key: Key | None) -> set[Key]:
        waiting = list(sources)
        closure: set[Key] = set()
        visited: set[Key] = set()
        while waiting:  # what isn't compared is computed from something itself
            source = waiting.pop()
            if source in visited or source == key:
                continue
            visited.add(source)
            if source in self._compared:
                closure.add(source)
            else:
                waiting += self._sources(source)
        return closure

    def computing(self, key: Key) -> CellCall | None:
        """Return the call that computes a value: that of the Cell, or the one around it; None for a network's input."""
        number = self._number[key]
        place = self._parents[number] if key.kind in (INPUT, OUTPUT_GRADIENT) else number
        return None if place is None else self._calls[place]

    def before(self, key: Key) -> set[Key]:
        """Return the compared boundaries that a value is computed from."""
        return self._closure(self._sources(key), key)

    def _sources(self, key: Key) -> Iterator[Key]:
        """Yield what a value is computed from."""
        if key in self._crossed:
            yield self._crossed[key]
            return
        number = self._number[key]
        computing = self._parents[number] if key.kind in (INPUT, OUTPUT_GRADIENT) else number
        if computing is not None:
            yield from self._of_call(computing, key)

    def _of_call(self, number: int, key: Key) -> Iterator[Key]:
        """Yield what a value is computed from, of what crosses the boundaries of a call and of those inside."""
        own, inside = self._own[number], self._inside[number]
        yield from own.get(INPUT, ())
        if key.kind in (INPUT, OUTPUT):
            # a call inside that comes later returns nothing that an earlier one gets
            limit = self._number[key] if key.kind == INPUT else len(self._parents)
            yield from (other for other in inside.get(OUTPUT, ()) if self._number[other] < limit)
            return
        yield from own.get(OUTPUT, ())
        yield from own.get(OUTPUT_GRADIENT, ())
        yield from inside.get(INPUT, ())
        yield from inside.get(OUTPUT, ())
        limit = self._number[key] if key.kind == OUTPUT_GRADIENT else -1
        yield from (other for other in inside.get(INPUT_GRADIENT, ()) if self._number[other] > limit)

    def _of_parameter(self, path: str, c: Comparison) -> Iterator[Key]:
        """Yield what the gradient of a parameter, or an updated buffer, is computed from."""
        values, gradients = (INPUT, OUTPUT), (INPUT, OUTPUT, OUTPUT_GRADIENT)
        of_kind = {"buffer update": ((INPUT,), values), "parameter gradient": (gradients, gradients)}
        own, inside = of_kind.get(c.kind, ((), ()))
        for number in self._calls_of.get(path, ()):
            yield from (key for kind in own for key in self._own[number].get(kind, ()))
            yield from (key for kind in inside for key in self._inside[number].get(kind, ()))


DETACHED = "it is detached in the candidate: no gradient passes through it, and one does in the reference"


def missing_gradients(truth: Records, records: Records) -> set[Key]:
    """Return the boundaries of the reference's gradients that the candidate doesn't compute, by its own account."""
    values = (key for key in records.boundaries.untracked if key in truth.values)
    return {gradient_key(key) for key in values if gradient_key(key) in truth.values} - records.values.keys()


def detachments(
    side: str, check: str, feeding: str, truth: Records, missing: set[Key]
) -> Iterator[tuple[str, Comparison]]:
    """Yield a failure, with the path of its Cell, where a value is detached that is computed from others that aren't.

    Args:
        side: name of the candidate.
        check: "meaning" or "rounding".
        feeding: the feeding of the comparisons that judge a Cell itself.
        truth: the reference's records.
        missing: the boundaries of the gradients that the candidate lacks.
    """
    untracked = {key for key in truth.values if key.kind in (INPUT, OUTPUT) and gradient_key(key) in missing}
    sources = Sources(truth, truth.values.keys())
    for key in untracked:
        call = sources.computing(key)
        if call is None or not untracked.isdisjoint(sources.before(key)):
            continue
        kind = "output" if key.kind == OUTPUT else "passed value"
        name = key.slot if key.kind == OUTPUT else f"{key.path} {key.slot}"
        yield call.path, Comparison(side, check, feeding, kind, name, key.call, FAIL, DETACHED)


EQUAL_INPUTS, END_TO_END = "equal inputs", "end to end"
AGREES = 3.0
"""Units of the reference's rounding error up to which a value surely agrees; beyond, it may differ already."""
CLEAR, AMPLIFIED = 10.0, 1e4
"""By how many times more units than what it is computed from a value differs where its Cell is wrong: if all of that
agrees, and if it doesn't, or depends on a Cell that is wrong. Where terms cancel, a difference comes out as more units.
"""


def attribute(
    comparisons: Iterable[tuple[str, Comparison]], whole: Records, compared: Records, detached: Collection[Key]
) -> Iterator[tuple[str, Comparison]]:
    """Yield the comparisons as of "equal inputs" where they judge the Cell itself, and else as "end to end".

    Args:
        comparisons: the comparisons, by path of the Cell.
        whole: the reference's records.
        compared: those of them that were compared.
        detached: boundaries of gradients of the reference that the other side doesn't compute.
    """
    attribution = _Attribution(Sources(whole, compared.values.keys() | detached))
    attribution.affected.update(detached)
    attribution.ratios.update(dict.fromkeys(detached, math.inf))
    at_boundaries: dict[Key, list[tuple[str, Comparison]]] = {key: [] for key in whole.values}
    others: list[tuple[str, Comparison]] = []
    for path, c in comparisons:
        key = attribution.sources.key(path, c)
        (others if key is None else at_boundaries[key]).append((path, c))
    # in the order of the run, in which a value comes after those that it is computed from
    for path, c in [*(pair for several in at_boundaries.values() for pair in several), *others]:
        yield path, replace(c, feeding=EQUAL_INPUTS if attribution.is_own(path, c) else END_TO_END)


@dataclass
class _Attribution:
    """What is known of the values so far."""

    sources: Sources
    ratios: dict[Key, float] = field(default_factory=dict)
    affected: set[Key] = field(default_factory=set)  # values of a Cell that is wrong, and what depends on them

    def is_own(self, path: str, c: Comparison) -> bool:
        """Whether a comparison judges the Cell itself; of a later value than all before."""
        before = self.sources.of(path, c)
        largest = max((self.ratios.get(source, 0.0) for source in before), default=0.0)
        agrees, depends = largest <= AGREES, not self.affected.isdisjoint(before)
        is_number = c.status == PASS or c.index is not None
        own = agrees
        if c.status != PASS and is_number:
            own = c.ratio >= (CLEAR if agrees and not depends else AMPLIFIED) * max(1.0, largest)
        key = self.sources.key(path, c)
        if key is not None:
            self.ratios[key] = max(self.ratios.get(key, 0.0), c.ratio if is_number else math.inf)
            if depends or (own and c.status != PASS):
                self.affected.add(key)
        return own
