"""Numbers that a network adds to some features of a product, such as 1 to the forget gate of an LSTM."""

from __future__ import annotations

from ....runtime.ir.types import Node, Value
from ...sides.records import Array
from .network import Network
from .pieces import Piece
from .units import Unit

MOST_FOLLOWED = 4
"""The most nodes between a product and what is added to it."""


def number_added(network: Network, unit: Unit, piece: Piece) -> float | None:
    """Return the number that is added to all features of a piece before anything else is done; None if none is."""
    features: dict[Value, Array] = {unit.output: unit.features}
    wanted = set(piece.features.tolist())
    values = [unit.output]
    for _ in range(MOST_FOLLOWED):
        following = [(value, node) for value in values for node in network.consumers.get(value, [])]
        values = []
        for value, node in following:
            present = set(features[value].reshape(-1).tolist())
            number = _number(network, node, value)
            if number is not None and present == wanted:
                return number
            moved = None if present.isdisjoint(wanted) else network.features_behind(node, features[value])
            if moved is not None:
                features[node.outputs[0]] = moved
                values.append(node.outputs[0])
    return None


def _number(network: Network, node: Node, value: Value) -> float | None:
    others = [v for v in node.inputs if v is not None and v is not value]
    if node.op != "add" or len(others) != 1 or others[0] not in network.static or network.names_in.get(others[0]):
        return None
    constant = network.static_array(others[0], {}, {})
    return float(constant.reshape(-1)[0]) if constant.size == 1 else None
