"""Leaves out the inputs of a model that no node uses: OpenVINO's provider shifts the others by one such input."""

from __future__ import annotations

from collections.abc import Iterator

import onnx


def remove_unused_inputs(model: onnx.ModelProto) -> None:
    """Remove the inputs of a model that neither a node nor an output uses."""
    used_names = {*_used(model.graph), *(value.name for value in model.graph.output)}
    kept = [value for value in model.graph.input if value.name in used_names]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _used(graph: onnx.GraphProto) -> Iterator[str]:
    """Yield the names that nodes of a graph use, and those of the graphs in their attributes."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _used(inner)
                yield from (value.name for value in inner.output)
