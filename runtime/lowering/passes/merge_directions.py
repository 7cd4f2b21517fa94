"""`merge_directions`: merges a forward and a reverse recurrent layer on the same sequence into a bidirectional one."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph import Graph
from ..onnx_node import OnnxNode

RECURRENT = ("GRU", "LSTM", "RNN")
MERGEABLE = frozenset({"hidden_size", "direction", "activations", "linear_before_reset"})
"""The only attributes that a layer to be merged may have."""


def merge_directions(graph: Graph, results: set[str]) -> None:
    """Merge pairs of LSTM-14, GRU-14 or RNN-14, one forward and one reverse, with one sequence and stored weights.

    The output is split by direction again, unless the directions are concatenated anyway.
    """
    del results
    waiting: dict[tuple[Any, ...], OnnxNode] = {}
    for node in list(graph.nodes):
        if node.op_type not in RECURRENT or node.attributes.keys() - MERGEABLE:
            continue
        direction = node.attributes["direction"]
        key = node.op_type, node.inputs[0], node.inputs[4:5], len(node.inputs), len(node.outputs), _settings(node)
        other = waiting.get((*key, "reverse" if direction == "forward" else "forward"))
        if other is None or not _can_move(graph, node, other):
            waiting[(*key, direction)] = node
            continue
        graph.nodes.remove(node)
        rest = _truncate(graph, other)
        with graph.at_node(other):
            replacements = _merge(graph, other, node)
        graph.nodes += rest
        graph.replace(replacements)
    _concatenate_directions(graph)


def _settings(node: OnnxNode) -> str:
    return repr(sorted((name, value) for name, value in node.attributes.items() if name != "direction"))


def _can_move(graph: Graph, node: OnnxNode, other: OnnxNode) -> bool:
    """Whether the node can move to the position of the other: its inputs exist there, and both omit the same ones."""
    same_optional = [bool(name) for name in node.inputs] == [bool(name) for name in other.inputs]
    return same_optional and all(not n or n in graph.initializers or n in other.inputs for n in node.inputs)


def _truncate(graph: Graph, node: OnnxNode) -> list[OnnxNode]:
    """Remove a node and all nodes after it, so that others can be emitted in its place; return those after it."""
    position = graph.nodes.index(node)
    rest, graph.nodes = graph.nodes[position + 1 :], graph.nodes[:position]
    return rest


def _merge(graph: Graph, first: OnnxNode, second: OnnxNode) -> dict[str, str]:
    """Emit the bidirectional layer; return the replacements for the outputs of the two layers."""
    forward, reverse = (first, second) if first.attributes["direction"] == "forward" else (second, first)

    def concat(index: int) -> str:
        names = [node.inputs[index] if index < len(node.inputs) else "" for node in (forward, reverse)]
        return str(graph.op("Concat", *names, axis=0)) if all(names) else ""

    inputs = [forward.inputs[0], *map(concat, (1, 2, 3)), *forward.inputs[4:5], *map(concat, (5, 6))]
    attributes = forward.attributes | {"direction": "bidirectional"}
    if "activations" in attributes:
        attributes["activations"] = [*attributes["activations"]] * 2
    results = graph.op(first.op_type, *inputs, outputs=len(first.outputs), **attributes)
    replacements: dict[str, str] = {}
    for index, result in enumerate(results if isinstance(results, tuple) else (results,)):
        halves = graph.op("Split", result, outputs=2, axis=1 if index == 0 else 0, num_outputs=2)
        replacements[forward.outputs[index]], replacements[reverse.outputs[index]] = halves
    return replacements


def _concatenate_directions(graph: Graph) -> None:
    """Replace Concat-13 of the two directions along the feature axis with Transpose-13 and Reshape-14."""
    producers = {output: node for node in graph.nodes for output in node.outputs}

    def direction(name: str) -> tuple[str, int] | None:
        """Return the bidirectional layer's output that a tensor is a slice of, and the index of its direction."""
        squeeze = producers.get(name)
        split = producers.get(squeeze.inputs[0]) if squeeze is not None and squeeze.op_type == "Squeeze" else None
        if split is None or split.op_type != "Split" or split.attributes["axis"] != 1 or squeeze is None:
            return None
        layer = producers.get(split.inputs[0])
        axes = graph.initializers.get(squeeze.inputs[1])
        if layer is None or layer.op_type not in RECURRENT or not isinstance(axes, np.ndarray) or axes.tolist() != [1]:
            return None
        return split.inputs[0], split.outputs.index(squeeze.inputs[0])

    for node in list(graph.nodes):
        if node.op_type != "Concat" or node.attributes["axis"] not in (2, -1) or len(node.inputs) != 2:
            continue
        parts = [direction(name) for name in node.inputs]
        if parts[0] is None or parts[1] is None or parts[0][0] != parts[1][0] or [f[1] for f in parts if f] != [0, 1]:
            continue
        width = 2 * int(producers[parts[0][0]].attributes["hidden_size"])
        rest = _truncate(graph, node)
        with graph.at_node(node):
            transposed = graph.op("Transpose", parts[0][0], perm=[0, 2, 1, 3])
            shape = graph.constant(np.array([0, 0, width], np.int64))
        graph.nodes += [node.with_operator("Reshape", (transposed, shape), {}), *rest]
