"""`join_directions`: joins a forward and a reverse recurrent layer on the same sequence into a bidirectional one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode

RECURRENT = ("GRU", "LSTM", "RNN")
BOTH_WAYS = frozenset({"hidden_size", "direction", "activations", "linear_before_reset"})
"""Attributes that layers to be joined may have."""


def join_directions(graph: Graph, results: set[str]) -> None:
    """Join LSTM-14, GRU-14 or RNN-14 forward and in reverse, on one sequence and with stored weights.

    The outputs of each direction are split off again, unless they are concatenated anyway.
    """
    del results
    waiting: dict[tuple[Any, ...], OnnxNode] = {}
    for node in list(graph.nodes):
        if node.op_type not in RECURRENT or node.attributes.keys() - BOTH_WAYS:
            continue
        direction = node.attributes["direction"]
        key = node.op_type, node.inputs[0], node.inputs[4:5], len(node.inputs), len(node.outputs), _settings(node)
        other = waiting.get((*key, "reverse" if direction == "forward" else "forward"))
        if other is None or not _can_move(graph, node, other):
            waiting[(*key, direction)] = node
            continue
        graph.nodes.remove(node)
        rest = _cut_out(graph, other)
        with graph.at_node(other):
            replaced = _join(graph, other, node)
        graph.nodes += rest
        graph.replace(replaced)
    _concatenate_directions(graph)


def _settings(node: OnnxNode) -> str:
    return repr(sorted((name, value) for name, value in node.attributes.items() if name != "direction"))


def _can_move(graph: Graph, node: OnnxNode, other: OnnxNode) -> bool:
    """Whether all inputs of the node are available at the place of the other, and both have the same kinds of input."""
    given = [bool(name) for name in node.inputs] == [bool(name) for name in other.inputs]
    return given and all(not n or n in graph.initializers or n in other.inputs for n in node.inputs)


def _cut_out(graph: Graph, node: OnnxNode) -> list[OnnxNode]:
    """Remove a node and those after it from the graph, so that others can be emitted in its place; return the rest."""
    position = graph.nodes.index(node)
    rest, graph.nodes = graph.nodes[position + 1 :], graph.nodes[:position]
    return rest


def _join(graph: Graph, one: OnnxNode, two: OnnxNode) -> dict[str, str]:
    """Emit the bidirectional layer; return the replacements of the outputs of the two layers."""
    forward, reverse = (one, two) if one.attributes["direction"] == "forward" else (two, one)

    def together(place: int) -> str:
        names = [node.inputs[place] if place < len(node.inputs) else "" for node in (forward, reverse)]
        return str(graph.op("Concat", *names, axis=0)) if all(names) else ""

    inputs = [forward.inputs[0], *map(together, (1, 2, 3)), *forward.inputs[4:5], *map(together, (5, 6))]
    attributes = forward.attributes | {"direction": "bidirectional"}
    if "activations" in attributes:
        attributes["activations"] = [*attributes["activations"]] * 2
    results = graph.op(one.op_type, *inputs, outputs=len(one.outputs), **attributes)
    replaced: dict[str, str] = {}
    for place, joined in enumerate(results if isinstance(results, tuple) else (results,)):
        parts = graph.op("Split", joined, outputs=2, axis=1 if place == 0 else 0, num_outputs=2)
        replaced[forward.outputs[place]], replaced[reverse.outputs[place]] = parts
    return replaced


def _concatenate_directions(graph: Graph) -> None:
    """Replace Concat-13 of the outputs of both directions along the features by a Transpose-13 and a Reshape-14."""
    producers = {output: node for node in graph.nodes for output in node.outputs}

    def direction(name: str) -> tuple[str, int] | None:
        """Return the output of a bidirectional layer that a tensor is part of, and the index of its direction."""
        squeezed = producers.get(name)
        split = producers.get(squeezed.inputs[0]) if squeezed is not None and squeezed.op_type == "Squeeze" else None
        if split is None or split.op_type != "Split" or split.attributes["axis"] != 1 or squeezed is None:
            return None
        layer = producers.get(split.inputs[0])
        axes = graph.initializers.get(squeezed.inputs[1])
        if layer is None or layer.op_type not in RECURRENT or not isinstance(axes, np.ndarray) or axes.tolist() != [1]:
            return None
        return split.inputs[0], split.outputs.index(squeezed.inputs[0])

    for node in list(graph.nodes):
        if node.op_type != "Concat" or node.attributes["axis"] not in (2, -1) or len(node.inputs) != 2:
            continue
        parts = [direction(name) for name in node.inputs]
        if parts[0] is None or parts[1] is None or parts[0][0] != parts[1][0] or [f[1] for f in parts if f] != [0, 1]:
            continue
        width = 2 * int(producers[parts[0][0]].attributes["hidden_size"])
        rest = _cut_out(graph, node)
        with graph.at_node(node):
            beside = graph.op("Transpose", parts[0][0], perm=[0, 2, 1, 3])
            shape = graph.constant(np.array([0, 0, width], np.int64))
        graph.nodes += [node.with_operator("Reshape", (beside, shape), {}), *rest]
