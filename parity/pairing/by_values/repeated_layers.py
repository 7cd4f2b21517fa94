"""Places that trials have shown in one layer, tried first in the others.

A fault in the code of a layer is in all layers. What a line of the file computes in place of a tensor of the first is
likely to be in the place of the same tensor of the next.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from ....runtime.ir.types import Value
from ...correspondence.name_patterns import without_numbers
from ...sides.records import INPUT, OUTPUT
from .crossings import Crossing
from .flat import FlatProgram

MOST_ALIKE = 4
"""The most values that are tried for a tensor."""


class RepeatedLayers:
    """The places known from some layers of a network.

    Args:
        flat: the file's program.
    """

    def __init__(self, flat: FlatProgram) -> None:
        self._flat = flat
        self._alike: dict[Hashable, list[Value]] = {}
        for node in flat.program.nodes:
            for number, value in enumerate(node.outputs):
                origin = self._origin(value, number)
                if origin is not None:
                    self._alike.setdefault(origin, []).append(value)
        self._origins: dict[Hashable, list[Hashable]] = {}

    def add(self, tensor: Crossing, value: Value) -> None:
        """Note the place of a tensor."""
        node = self._flat.program.producers.get(value)
        origin = None if node is None else self._origin(value, node.outputs.index(value))
        for name in self._names(tensor):
            if origin is not None and origin not in self._origins.setdefault(name, []):
                self._origins[name].append(origin)

    def values_for(self, tensor: Crossing) -> list[Value]:
        """Return the values that the same code computes as the places of this tensor in other layers."""
        origins = (origin for name in self._names(tensor) for origin in self._origins.get(name, []))
        return [value for origin in dict.fromkeys(origins) for value in self._alike[origin]]

    def series(self, place: Value, number: int, count: int, kind: str) -> Iterator[list[Value]]:
        """Yield the values that are in each turn of a loop what a place is in one of them, by the code there.

        Args:
            place: the place of what a Cell is given or returns in that turn.
            number: the number of the turn.
            count: the number of turns.
            kind: `INPUT` or `OUTPUT`.
        """
        if kind == OUTPUT:
            turns = self._turns(place, number, count)
            if turns:
                yield turns
            return
        for node in self._flat.consumers.get(place, []):
            using = [self._flat.program.producers[value] for value in self._turns(node.outputs[0], number, count)]
            at = node.inputs.index(place)
            operands = [value for other in using for value in other.inputs[at : at + 1] if value is not None]
            if using and len(operands) == count:
                yield operands

    def _turns(self, value: Value, number: int, count: int) -> list[Value]:
        """Return what the same code computes as a value in each turn, each from the turn before; else nothing."""
        node = self._flat.program.producers.get(value)
        origin = None if node is None else self._origin(value, node.outputs.index(value))
        values = self._alike.get(origin, [])
        period, rest = divmod(len(values), count)  # a line may multiply twice
        if rest or value not in values:
            return []
        turns = values[values.index(value) % period :: period]
        is_loop = all(later in self._flat.after(earlier) for earlier, later in pairwise(turns))
        return turns if turns[number] is value and is_loop else []

    def _origin(self, value: Value, number: int) -> Hashable | None:
        """Return the code that computes a value, the same in all layers; None if the file doesn't say."""
        node = self._flat.program.producers[value]
        path = without_numbers(self._flat.path_of(node))
        if node.source is None and not path:
            return None
        return node.op, number, node.source, path

    def _names(self, tensor: Crossing) -> list[Hashable]:
        """Return what a tensor is in each layer."""
        return [(without_numbers(key.path), key.kind, key.slot) for key in tensor.keys if key.path]


def turns_of_cells(tensors: Sequence[Crossing]) -> list[tuple[str, str, list[Crossing]]]:
    """Return the Cells that are called several times, by path, with each of their boundaries in all calls, by kind."""
    by_call: dict[tuple[str, str, str], dict[int, Crossing]] = {}
    for tensor in tensors:
        for key in tensor.keys:
            if key.kind in (INPUT, OUTPUT) and key.path:
                by_call.setdefault((key.path, key.kind, key.slot), {})[key.call] = tensor
    turns = [(path, kind, [calls[n] for n in sorted(calls)]) for (path, kind, _), calls in by_call.items()]
    return [turn for turn in turns if len(turn[2]) > 1 and len(set(turn[2])) == len(turn[2])]
