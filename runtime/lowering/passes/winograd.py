"""`winograd`: 3x3 convolutions of small images with fewer multiplications.

F(2x2, 3x3) of Lavin and Gray 2016, "Fast algorithms for convolutional neural networks": four elements of the result
take 16 products instead of 36. Tiles d (4x4) and kernels g (3x3) are transformed, multiplied elementwise and summed
over the channels, which takes 16 matrix products, and transformed back:

    y = A.T @ ((G @ g @ G.T) * (B.T @ d @ B)) @ A
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.types import FLOAT32
from ..graph import Graph
from ..onnx_node import OnnxNode

Array = np.ndarray[Any, Any]

INPUT = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], np.float32)  # B.T
KERNEL = np.array([[2, 0, 0], [1, 1, 1], [1, -1, 1], [0, 0, 2]], np.float32) / 2  # G
OUTPUT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], np.float32)  # A.T
FLIPPED_ROWS = [3, 1, 2, 0]  # rows of G for a flipped kernel

WORTHWHILE = 0.75
"""The largest share of multiplications that may remain; beyond it, moving data costs the time saved."""
KERNEL_COST = 300
"""Cost of the transform of one kernel in multiplications: it is mostly the time to move 25 numbers."""


@dataclass(frozen=True, slots=True)
class _Convolution:
    """A 3x3 convolution of stride 1, or the transposed one (`transposed`), on images of known sizes.

    `pads` are those of the convolution, per spatial axis; `weight` is as the node has it.
    """

    images: tuple[int, ...]
    weight: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    transposed: bool

    @property
    def counts(self) -> tuple[int, ...]:
        """Spatial sizes of the result."""
        return tuple(size + sum(pads) - 2 for size, pads in zip(self.images[2:], self.pads, strict=True))

    @property
    def channels(self) -> tuple[int, int]:
        """Numbers of input and output channels."""
        out_channels, channels = self.weight[:2]
        return (out_channels, channels) if self.transposed else (channels, out_channels)

    def matrices(self) -> tuple[Array, Array]:
        """`(16 * tiles, places)`: images into transformed tiles; `(places of the result, 16 * tiles)`: back."""
        axes = [_along(*axis) for axis in zip(self.images[2:], self.counts, self.pads, strict=True)]
        order = FLIPPED_ROWS if self.transposed else [0, 1, 2, 3]
        (into, back), (into_2, back_2) = ((i[order], b[:, order]) for i, b in axes)
        tiles = np.einsum("itr,juc->ijturc", into, into_2).reshape(-1, np.prod(self.images[2:]))
        return tiles, np.einsum("rit,cju->rcijtu", back, back_2).reshape(np.prod(self.counts), -1)

    def is_worthwhile(self) -> bool:
        """Whether enough multiplications are saved."""
        (channels, out_channels), batch = self.channels, self.images[0]
        places, results = np.prod(self.images[2:]), np.prod(self.counts)
        tiles = np.prod([-(-count // 2) for count in self.counts])
        kernels = channels * out_channels
        needed = batch * 16 * tiles * (places * channels + kernels + results * out_channels) + KERNEL_COST * kernels
        return bool(needed < WORTHWHILE * batch * 9 * results * kernels)


def winograd(graph: Graph, results: set[str]) -> None:
    """Replace Conv, and ConvTranspose of stride 1, by matrix products if that saves enough multiplications.

    This is done only in float32, for known sizes, and if the weight is computed or an input: stored weights are left
    alone. An infinity or NaN in an image spreads to the whole result, as each tile is a sum over the whole image.
    """
    del results  # the outputs keep their names
    constants: dict[bytes, str] = {}

    def constant(matrix: Array) -> str:
        key = matrix.tobytes()
        if key not in constants:
            constants[key] = graph.constant(matrix)
        return constants[key]

    nodes, graph.nodes = graph.nodes, []
    for node in nodes:
        convolution = _convolution(graph, node)
        if convolution is None or not convolution.is_worthwhile():
            graph.nodes.append(node)
            continue
        (channels, out_channels), batch = convolution.channels, convolution.images[0]
        tiles, back = convolution.matrices()

        def reshape(name: str, *shape: int) -> str:
            return str(graph.op("Reshape", name, graph.constant(np.array(shape, np.int64))))

        with graph.at_node(node):
            # the same form in forward and backward pass, so that they share the transformed kernels
            kernels = graph.op("Transpose", reshape(node.inputs[1], channels * out_channels, 9), perm=(1, 0))
            kernels = graph.op("MatMul", constant(np.kron(KERNEL, KERNEL)), kernels)
            kernels = reshape(kernels, 16, *convolution.weight[:2])
            if not convolution.transposed:
                kernels = graph.op("Transpose", kernels, perm=(0, 2, 1))
            images = graph.op("Transpose", node.inputs[0], perm=(2, 3, 0, 1))
            images = graph.op("MatMul", constant(tiles), reshape(images, tiles.shape[1], batch * channels))
            products = graph.op("MatMul", reshape(images, 16, -1, channels), kernels)
            y = graph.op("MatMul", constant(back), reshape(products, back.shape[1], batch * out_channels))
            y = reshape(y, *convolution.counts, batch, out_channels)
            for bias in node.inputs[2:]:
                y = graph.op("Add", y, bias)
        graph.nodes.append(node.with_operator("Transpose", (y,), {"perm": (2, 3, 0, 1)}))


def _convolution(graph: Graph, node: OnnxNode) -> _Convolution | None:
    """Return the convolution that the node computes; None if it isn't a suitable one."""
    if node.op_type not in ("Conv", "ConvTranspose") or node.inputs[1] in graph.initializers:
        return None
    types = [graph.types.get(name) for name in node.inputs[:2]]
    images, weight = (None if type is None or type.dtype != FLOAT32 else type.sizes for type in types)
    attributes = node.attributes
    if images is None or weight is None or weight[2:] != (3, 3) or attributes["group"] != 1:
        return None
    if any(step != 1 for step in (*attributes["strides"], *attributes["dilations"])):
        return None
    if any(attributes.get("output_padding", ())):
        return None
    transposed = node.op_type == "ConvTranspose"
    sides = [2 - pad if transposed else pad for pad in attributes.get("pads", (0, 0, 0, 0))]
    return _Convolution(images, weight, ((sides[0], sides[2]), (sides[1], sides[3])), transposed)


def _along(size: int, count: int, pads: tuple[int, int]) -> tuple[Array, Array]:
    """Return the transforms along one axis: `(4, tiles, size)` and `(count, 4, tiles)`."""
    tiles = -(-count // 2)
    into, back = np.zeros((4, tiles, size), np.float32), np.zeros((count, 4, tiles), np.float32)
    for tile in range(tiles):
        for tap in range(4):
            index = 2 * tile + tap - pads[0]
            if 0 <= index < size:
                into[:, tile, index] = INPUT[:, tap]
        for index in range(2 * tile, min(2 * tile + 2, count)):
            back[index, :, tile] = OUTPUT[index - 2 * tile]
    return into, back
