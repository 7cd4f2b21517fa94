"""Matrices that a port multiplies in another association: `(a @ w) @ b.T` is `a @ (b @ w.T).T`.

Attention on latents may multiply queries with the matrix of the keys, and what is attended to with that of the values,
where the reference computes keys and values from the latents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from .features import Arrays
from .network import Network
from .reference import Reference
from .units import MATRIX, Unit


class Absorbed:
    """Finds them.

    Args:
        reference: the reference.
        network: the candidate.
    """

    def __init__(self, reference: Reference, network: Network) -> None:
        self._reference = reference
        self._network = network

    def before(self, unit: Unit, values: Mapping[Value, Arrays]) -> list[Unit]:
        """Return the units that a factor of the product which enters a unit enters in the reference.

        Args:
            unit: a unit of the candidate.
            values: the candidate's values on each sample, as far as they are computed.
        """
        node = None if unit.data is None else self._network.program.producers.get(self._source(unit.data))
        factors = () if node is None or not self._is_of_data(node) else node.inputs
        return self._entered(factors, values)

    def behind(self, unit: Unit, values: Mapping[Value, Arrays]) -> list[Unit]:
        """Return the units that what a unit's result is multiplied with enters in the reference; arguments as above."""
        reached = {unit.output}
        for node in self._network.program.nodes[self._network.rank[unit.output] + 1 :]:
            if reached.isdisjoint(node.inputs):
                continue
            if self._moves(node) or node.op == "concat":
                reached.update(node.outputs)
            elif self._is_of_data(node):
                return self._entered([value for value in node.inputs if value not in reached], values)
        return []

    def _entered(self, factors: Iterable[Value | None], values: Mapping[Value, Arrays]) -> list[Unit]:
        units: dict[Unit, None] = {}
        for value in factors:
            source = None if value is None else self._source(value)
            if source is not None and source in values:
                units.update(dict.fromkeys(self._reference.units_of_data(values[source])))
        return [unit for unit in units if unit.kind == MATRIX and unit.bias is None]

    def _source(self, value: Value) -> Value:
        """Return the value that a value has the elements of, in another layout."""
        node = self._network.program.producers.get(value)
        while node is not None and self._moves(node) and node.inputs[0] is not None:
            value = node.inputs[0]
            node = self._network.program.producers.get(value)
        return value

    def _moves(self, node: Node) -> bool:
        return get(node.op).traits.moves == "first"

    def _is_of_data(self, node: Node) -> bool:
        return node.op == "matmul" and not any(value in self._network.static for value in node.inputs)
