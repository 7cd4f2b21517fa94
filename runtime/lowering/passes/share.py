"""`share`: eliminates common sub-expressions such as shapes, masks and tables."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ...ops.boundary import STOP_GRADIENT
from ..graph import Graph
from ..onnx_node import OnnxNode, Subgraph

# each random node draws its own numbers
RANDOM = frozenset(
    {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def share(graph: Graph, results: set[str]) -> None:
    """Merge nodes with the same operator, inputs and attributes into one, which belongs to the Cell of the first."""
    del results  # a returned tensor may be shared too
    first: dict[Hashable, OnnxNode] = {}
    replaced: dict[str, str] = {}
    kept: list[OnnxNode] = []
    for node in graph.nodes:
        node = node.with_inputs(replaced)
        if node.op_type in RANDOM or any(isinstance(value, Subgraph) for value in node.attributes.values()):
            kept.append(node)
            continue
        attributes = tuple((name, hashable(value)) for name, value in sorted(node.attributes.items()))
        stops = STOP_GRADIENT in node.metadata
        same = first.setdefault((node.op_type, node.inputs, len(node.outputs), attributes, stops), node)
        if same is node:
            kept.append(node)
        else:
            replaced.update(zip(node.outputs, same.outputs, strict=True))
    graph.nodes = kept
    graph.replace(replaced)


def hashable(value: Any) -> Hashable:
    """Return what is equal for two attributes of a node if and only if these are the same."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, (list, tuple)):
        return tuple(map(hashable, value))
    return type(value).__name__, repr(value) if isinstance(value, float) else value  # 0.0 and -0.0 are equal
