"""Biases that are added to the result of another product: a port may have one in place of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ....runtime.ir.types import Node, Value
from ...sides.records import Array
from .network import Network
from .rewriting import shape_of
from .units import MATRIX, Unit, without_copies

Features = dict[Value, Array]
"""Values that have the features of a unit in other places, with the number of the feature of each element."""
MOST_MOVES = 4


class AddedBiases:
    """Finds them.

    Args:
        network: the network.
        units: its units.
    """

    def __init__(self, network: Network, units: Sequence[Unit]) -> None:
        self.network = network
        self.units = units

    def of(self, unit: Unit) -> list[str]:
        """Return the names of the vectors that are added to a unit's result, each feature's element to the feature."""
        names: dict[str, None] = {}
        for value, features in self._moved(unit).items():
            for node in self.network.consumers.get(value, []):
                operand = next((v for v in node.inputs if v is not value), None)
                if node.op == "add" and operand is not None and node.outputs[0].shape == features.shape:
                    names.update(dict.fromkeys(self._added(operand, features)))
        return list(names)

    def _added(self, operand: Value, features: Array) -> Iterator[str]:
        """Yield the bias that an operand has, if each feature has its element."""
        if operand in self.network.static:
            trace = self.network.trace(operand)
            if trace is not None and not trace.signature and trace.places.shape:
                of_features = np.broadcast_to(trace.places, features.shape)
                if np.array_equal(of_features, features):
                    yield trace.name
            return
        for unit, of_unit in self._by_value.get(operand, []):
            trace = self.network.trace(unit.bias_operand) if unit.bias_operand is not None else None
            if trace is None or trace.signature or not np.array_equal(of_unit, features):
                continue
            if np.array_equal(without_copies(trace.places), np.arange(unit.size)):
                yield trace.name

    @cached_property
    def _by_value(self) -> dict[Value, list[tuple[Unit, Array]]]:
        """The units with a bias whose features each value has."""
        units_by_value: dict[Value, list[tuple[Unit, Array]]] = {}
        for unit in self.units:
            if unit.kind == MATRIX and unit.bias is not None:
                for value, features in self._moved(unit).items():
                    units_by_value.setdefault(value, []).append((unit, features))
        return units_by_value

    def _through(self, node: Node, features: Array) -> Array | None:
        """Return the features in a node's result, also of one that gathers rows; None if it does anything else."""
        if node.op == "take" and node.attributes["axis"] % features.ndim < features.ndim - 1:
            shape = shape_of(node.outputs[0])
            first = features.take([0], node.attributes["axis"])
            is_same = len(shape) == features.ndim and np.array_equal(np.broadcast_to(first, features.shape), features)
            return np.broadcast_to(first, shape) if is_same else None
        return self.network.features_behind(node, features)

    def _moved(self, unit: Unit) -> Features:
        features: Features = {unit.output: unit.features}
        values = [unit.output]
        for _ in range(MOST_MOVES):
            following = [node for value in values for node in self.network.consumers.get(value, [])]
            values = []
            for node in following:
                value = next(v for v in node.inputs if v in features)
                moved = self._through(node, features[value])
                if moved is not None:
                    features[node.outputs[0]] = moved
                    values.append(node.outputs[0])
        return features
