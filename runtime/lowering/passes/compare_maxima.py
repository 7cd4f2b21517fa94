"""`compare_maxima`: computes the positions of the maxima of a max pool, for its gradient, by comparisons."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from ...ir.types import FLOAT32, INT64
from ..graph import Graph
from ..onnx_node import OnnxNode

FEW_TAPS = 4
"""With more taps, MaxPool computes positions faster than comparisons do."""
EXACT = 2**24
"""float32 represents all integers up to this one."""


def compare_maxima(graph: Graph, results: set[str]) -> None:
    """Let MaxPool return only values, which takes a tenth of the time, and find their positions by comparisons.

    This is done in float32, for windows of few taps that tile images of known size, if only MaxUnpool uses the
    positions. Among equal taps the first one counts, as in MaxPool.
    """
    uses = graph.uses()
    positions = {node.inputs[1] for node in graph.nodes if node.op_type == "MaxUnpool" and uses[node.inputs[1]] == 1}
    nodes, graph.nodes = graph.nodes, []
    places: dict[str, str] = {}
    for node in nodes:
        graph.nodes.append(node.with_inputs(places))
        if node.op_type == "MaxPool" and len(node.outputs) == 2 and node.outputs[1] in positions - results:
            sizes = _filled_image_sizes(graph, node)
            if sizes is not None:
                places[node.outputs[1]] = _positions(graph, node, sizes)


def _filled_image_sizes(graph: Graph, pools: OnnxNode) -> tuple[int, ...] | None:
    """Return the sizes of the images if they are known and windows of few taps fill them, else None."""
    type, attributes = graph.types.get(pools.inputs[0]), pools.attributes
    if type is None or type.dtype != FLOAT32 or type.sizes is None:
        return None
    kernel, spatial = tuple(attributes["kernel_shape"]), type.sizes[2:]
    plain = (
        tuple(attributes["strides"]) == kernel and not any(attributes["pads"]) and set(attributes["dilations"]) == {1}
    )
    divides = all(size % taps == 0 for size, taps in zip(spatial, kernel, strict=True))
    return type.sizes if plain and divides and 1 < prod(kernel) <= FEW_TAPS and prod(spatial) < EXACT else None


def _positions(graph: Graph, pools: OnnxNode, sizes: tuple[int, ...]) -> str:
    """Return positions in the whole tensor, as MaxPool counts them."""
    kernel = tuple(pools.attributes["kernel_shape"])
    counts = tuple(size // taps for size, taps in zip(sizes[2:], kernel, strict=True))
    steps = [int(np.ravel_multi_index(tap, sizes[2:])) for tap in product(*map(range, kernel))]
    starts = np.ravel_multi_index(
        np.ogrid[tuple(slice(0, size, taps) for size, taps in zip(sizes[2:], kernel, strict=True))], sizes[2:]
    )
    planes = np.arange(prod(sizes[:2])).reshape(*sizes[:2], *(1 for _ in counts)) * prod(sizes[2:])
    with graph.at_node(pools):
        taps = _taps(graph, pools.inputs[0], sizes, kernel)
        # from the last tap to the first: 0 where this one is the maximum, else the step to the next plus its offset
        position = ""
        for tap, step in reversed(list(zip(taps[:-1], np.diff(steps), strict=True))):
            missed = graph.op("Cast", graph.op("Not", graph.op("Equal", tap, pools.outputs[0])), to=FLOAT32)
            onward = graph.constant(step, FLOAT32)
            position = graph.op("Mul", missed, graph.op("Add", position, onward) if position else onward)
        position = graph.op("Add", graph.op("Cast", position, to=INT64), graph.constant(starts))
        return str(graph.op("Add", position, graph.constant(planes)))


def _taps(graph: Graph, x: str, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> list[str]:
    """Return the elements of all windows at each tap, in row-major order, each `(batch, channels, *counts)`.

    It proceeds axis by axis: slicing out each tap is several times faster than one transposition of all.
    """
    counts = tuple(size // taps for size, taps in zip(sizes[2:], kernel, strict=True))
    parts, shape = [x], list(sizes[:2])
    for axis, (count, taps) in enumerate(zip(counts, kernel, strict=True)):
        rest = sizes[3 + axis :]
        split: list[str] = []
        for part in parts:
            apart = graph.op(
                "Reshape", part, graph.constant(np.array([prod(shape) * count, taps, prod(rest)], np.int64))
            )
            split += graph.op("Split", apart, outputs=taps, axis=1, num_outputs=taps) if taps > 1 else [apart]
        parts, shape = split, [*shape, count]
    return [graph.op("Reshape", part, graph.constant(np.array(shape, np.int64))) for part in parts]
