"""The reference's stored tensors, and what a port may compute from them, with a number for each of their elements."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...sides.records import Array
from ...weights.computed import FUNCTIONS, Computed
from .network import Network, Signature, Trace

Source = str | Computed
INVERSES = {"exp": "log"}


class Sources:
    """Numbers of elements: first those of the stored tensors, then those of tensors that are computed from them.

    Args:
        stored: the reference's stored tensors by name.
    """

    def __init__(self, stored: Mapping[str, Array]) -> None:
        self.stored = stored
        self.first: dict[Source, int] = {}
        self.arrays: list[Array] = []
        self.size = 0
        for name, array in stored.items():
            self._add(name, array)

    def _add(self, source: Source, array: Array) -> None:
        self.first[source] = self.size
        self.arrays.append(array)
        self.size += array.size

    def computed(self, source: Computed) -> int:
        """Return the first number of a tensor that is computed."""
        if source not in self.first:
            self._add(source, source.compute({name: np.asarray(self.stored[name], np.float64) for name in source.of}))
        return self.first[source]

    def values(self, numbers: Array) -> Array:
        """Return elements by number."""
        flat = numbers.reshape(-1)
        result = np.empty(flat.shape, np.float64)
        for source, inside in self.used(flat):
            array = self.arrays[self._position(source)].reshape(-1)
            result[inside] = array[flat[inside] - self.first[source]]
        return result.reshape(numbers.shape)

    def used(self, numbers: Array) -> list[tuple[Source, Array | slice]]:
        """Return the sources of elements, in the order in which the numbers have them, and where those of each are."""
        if not numbers.size:
            return []
        first, last = (self.source_of(int(number)) for number in (numbers.min(), numbers.max()))
        if first == last:
            return [(first, slice(None))]
        positions = np.searchsorted(self._firsts(), numbers, side="right") - 1
        present, order = np.unique(positions, return_index=True)
        sources = list(self.first)
        return [(sources[position], positions == position) for position in present[np.argsort(order)].tolist()]

    def _firsts(self) -> Array:
        return np.fromiter(self.first.values(), np.int64)

    def _position(self, source: Source) -> int:
        return list(self.first).index(source)

    def shape(self, source: Source) -> tuple[int, ...]:
        """Return the shape of a source."""
        return tuple(self.arrays[self._position(source)].shape)

    def source_of(self, number: int) -> Source:
        """Return the source of an element."""
        return list(self.first)[int(np.searchsorted(self._firsts(), number, side="right")) - 1]

    def numbers(self, name: Source, places: Array) -> Array:
        """Return the numbers of elements at places of a source; -1 stays."""
        return np.where(places >= 0, self.first[name] + places, -1)

    def moved(self, numbers: Array, by: float) -> Array | None:
        """Return the numbers of elements to which a number is added; None if no form has it."""
        result = np.empty_like(numbers)
        for source, inside in self.used(numbers):
            computed = source if isinstance(source, Computed) else Computed("affine", (source,))
            values = dict(computed.numbers)
            plus = values.get("plus", 0.0)
            if computed.form not in ("affine", "sum") or isinstance(plus, tuple):
                return None
            changed = tuple((values | {"plus": plus + by}).items())
            first = self.computed(Computed(computed.form, computed.of, changed))
            result[inside] = numbers[inside] - self.first[source] + first
        return result


def numbers_of(network: Network, sources: Sources, trace: Trace, port_signature: Signature) -> Array | None:
    """Return the numbers of what a port's tensor must hold, of which more is done on the way than to the reference's.

    Args:
        network: the reference.
        sources: its stored tensors.
        trace: of the value in the reference.
        port_signature: what the port does with each element of its tensor.

    Returns:
        The numbers in the shape of the value; None if no tensor does.
    """
    done, port_signature = _without_summands(trace.signature), _without_summands(port_signature)
    if done == port_signature or kinds(done) == kinds(port_signature):
        return sources.numbers(trace.name, trace.places)
    function = _function(done, port_signature)
    if function is not None:
        computed = Computed(function, (trace.name,))
        sources.computed(computed)
        numbers = sources.numbers(computed, trace.places)
        return numbers if np.all(np.isfinite(sources.values(numbers))) else None
    before, later = _affine(done), _affine(port_signature)
    if before is None or later is None or not later[0]:
        return None
    (times, plus), (later_times, later_plus) = before, later
    change = {"times": times / later_times, "plus": (plus - later_plus) / later_times}
    changed = tuple((key, number) for key, number in change.items() if number != {"times": 1.0, "plus": 0.0}[key])
    computed = Computed("affine", (trace.name,), changed)
    sources.computed(computed)
    return sources.numbers(computed, trace.places)


def _without_summands(signature: Signature) -> Signature:
    """Return steps without sums with other tensors, such as masks: the other side may add those by themselves."""
    return tuple(step for step in signature if not (step[0] in ("add", "sub") and isinstance(step[2], str)))


def _function(done: Signature, port_signature: Signature) -> str | None:
    """Return the function by which a port's tensor differs from a tensor on which one side does that first."""
    forms = {function: function for function in FUNCTIONS}
    for longer, shorter, form_of in ((done, port_signature, forms), (port_signature, done, INVERSES)):
        form = form_of.get(longer[0][0]) if longer else None
        factors = {_factor(longer[1:]), _factor(shorter)}
        if form is not None and len(factors) == 1 and None not in factors:
            return form
    return None


def _factor(signature: Signature) -> float | None:
    """Return the factor that steps amount to, but for a table, such as distances: a loop adds it again and again."""
    steps = [step for step in signature if not (step[0] == "mul" and isinstance(step[2], str))]
    affine = _affine(tuple(steps))
    return None if affine is None else affine[0]


def kinds(signature: Signature) -> tuple[str, ...]:
    """Return the ops alone, without their numbers, if one of them isn't affine: an eps may differ."""
    ops = tuple(str(step[0]) for step in signature)
    return ops if _affine(signature) is None else ("affine", *map(repr, signature))


def _affine(signature: Signature) -> tuple[float, float] | None:
    """Return the factor and the summand that steps with single numbers amount to; None if they are something else."""
    times, plus = 1.0, 0.0
    for op, position, *rest in signature:
        number = rest[0] if rest and isinstance(rest[0], float) else None
        if op == "neg":
            times, plus = -times, -plus
        elif number is None:
            return None
        elif op == "add":
            plus += number
        elif op == "sub":
            times, plus = (times, plus - number) if position == 0 else (-times, number - plus)
        elif op == "mul":
            times, plus = times * number, plus * number
        elif op == "div" and position == 0 and number:
            times, plus = times / number, plus / number
        else:
            return None
    return times, plus
