"""The two biases of a recurrent layer, of which a port written out has the sum, and its gates in another order.

torch adds a bias to the product with the input and one to the product with the state. Where both are only added up, a
port has one, which is computed from the module's here: then its gradient is that of both.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import INT64, Constant, Node, Type, Value
from ....runtime.ops.registry import get
from ....runtime.programs.interpreter import execute
from ...correspondence.distances import ROUNDED, distance
from ...sides.records import Array
from .affine_parts import AffinePart, AffineParts
from .splicing import Pair

LAYERS = ("lstm", "rnn")
"""Layers that add up their biases; a GRU multiplies one of them by a gate."""
GATES = 4
"""The gates of an LSTM."""


def with_summed_biases(program: Program) -> Program:
    """Return a program in which recurrent layers get the sum of their biases as one."""
    names = program.new_names()
    nodes: list[Node] = []
    for node in program.nodes:
        inputs = list(node.inputs)
        if node.op in LAYERS:
            order = get(node.op).input_names
            first, second = (order.index(name) for name in ("bias_ih", "bias_hh"))
            if len(inputs) > second and (bias := inputs[first]) is not None and inputs[second] is not None:
                total = Value(names.unique(f"{bias.name}_sum"), bias.type)
                nodes.append(Node("add", (bias, inputs[second]), {}, (total,), node.cell, node.source))
                inputs[first], inputs[second] = total, None
        nodes.append(Node(node.op, tuple(inputs), node.attributes, node.outputs, node.cell, node.source))
    return program.replace(nodes=tuple(nodes))


@dataclass(frozen=True)
class Gates:
    """Weights of a file that have the gates of computed ones in another order, or one or more of them.

    Attributes:
        pairs: what the module computes for each, and the file's weight.
        places: the order of the elements in each, constants that the module's program needs for it.
    """

    pairs: list[Pair]
    places: list[Constant]


def gates_in_another_order(module: AffineParts, free: Mapping[Value, Array], parameters: AbstractSet[Value]) -> Gates:
    """Return the weights that have the gates of a vector which the module computes from its parameters alone.

    All of the vector's gates must be there once: only then its gradient is known.

    Args:
        module: the parts of the module's program.
        free: weights of the file with their numbers.
        parameters: parameters of the module, of which one must be used.
    """
    gates = Gates([], [])
    taken: set[Value] = set()
    for part in module.using(parameters):
        if part.source is not None or len(part.result.shape) != 1 or not part.nodes:
            continue
        (vector,) = execute(part.program(module.program).astype("float64"), [])
        others = {value: _places(data.astype(np.float64), vector) for value, data in free.items() if value not in taken}
        places = {value: own for value, own in others.items() if own is not None}
        if places and np.array_equal(np.sort(np.concatenate(list(places.values()))), np.arange(vector.size)):
            taken |= places.keys()
            for weight, own in places.items():
                order = Value(f"{weight.name} places", Type(INT64, own.shape))
                result = Value(f"{weight.name} in order", weight.type)
                take = Node("take", (part.result, order), {"axis": 0}, (result,))
                arranged = AffinePart(None, result, (*part.nodes, take), part.stored | {order})
                gates.pairs.append(Pair(arranged, AffinePart(None, weight, (), frozenset({weight}))))
                gates.places.append(Constant(order, own))
    return gates


def _places(data: Array, vector: Array) -> Array | None:
    """Return the places in a vector of the gates that a weight consists of; None if it has other numbers."""
    size, rest = divmod(vector.size, GATES)
    if rest or data.ndim != 1 or not data.size or data.size % size:
        return None
    gates = vector.reshape(GATES, size)
    numbers: list[int] = []
    for gate in data.reshape(-1, size):
        same = next((number for number in range(GATES) if distance([gate], [gates[number]]) <= ROUNDED), None)
        if same is None:
            return None
        numbers.append(same)
    return np.concatenate([np.arange(number * size, (number + 1) * size) for number in numbers])
