"""Places that trials have shown in one layer, tried first in the others.

A fault in the code of a layer is in all layers. What a line of the file computes in place of a tensor of the first is
likely to be in the place of the same tensor of the next.
"""

from __future__ import annotations

from collections.abc import Hashable

from ....runtime.ir.types import Value
from ...correspondence.name_patterns import without_numbers
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
