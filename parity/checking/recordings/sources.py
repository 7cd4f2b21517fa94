"""What each value of a network is computed from, as far as the boundaries of its Cells show."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ....runtime.ir.types import CellCall
from ...results.comparison import Comparison
from ...sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Key, Records


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
