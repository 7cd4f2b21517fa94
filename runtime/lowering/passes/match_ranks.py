"""`match_ranks`: gives a scalar operand as many axes as the other operand if that has a last axis of size 1."""

from __future__ import annotations

from math import prod

import numpy as np

from ...ir.types import Type
from ..graph import Graph

BROADCASTING = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
SHORT = 64
"""Length of runs below which ONNX Runtime's loop over the runs of a broadcast costs more than their elements."""


def match_ranks(graph: Graph, results: set[str]) -> None:
    """Replace a scalar times a tensor of shape (512, 256, 1, 1) by a (1, 1, 1, 1) tensor times that tensor.

    If one operand has fewer axes, ONNX Runtime ends a run of elements at each axis of size 1. It then processes the
    weight of a 1x1 convolution element by element, at 20 ns each, which is fifty times too slow.
    """
    del results  # the outputs keep their names
    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        if node.op_type in BROADCASTING and len(node.inputs) == 2:
            types = [graph.types.get(name) for name in node.inputs]
            inputs = tuple(
                _with_axes(graph, name, other.rank) if other is not None and _is_slow(type, other) else name
                for name, type, other in zip(node.inputs, types, types[::-1], strict=True)
            )
            if inputs != node.inputs:
                node = node.with_operator(node.op_type, inputs, node.attributes)
        graph.nodes.append(node)


def _is_slow(number: Type | None, tensor: Type) -> bool:
    """Whether `number` has one element and fewer axes, and `tensor` an axis of size 1 with few elements after it."""
    if number is None or number.rank >= tensor.rank or any(dim != 1 for dim in number.shape):
        return False
    ones = [axis for axis, dim in enumerate(tensor.shape) if axis and dim == 1]
    run = tensor.shape[ones[-1] + 1 :] if ones else None
    return run is not None and all(isinstance(dim, int) for dim in run) and prod(map(int, run)) < SHORT


def _with_axes(graph: Graph, number: str, rank: int) -> str:
    data = graph.initializers.get(number)
    if isinstance(data, np.ndarray) and number not in graph.sources:
        return graph.constant(data.reshape((1,) * rank))
    return str(graph.op("Reshape", number, graph.constant(np.ones(rank, np.int64))))
