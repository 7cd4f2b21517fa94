"""How the weight gradient of a convolution reads in ONNX: products of matrices.

ONNX has no operator for it. A convolution whose batch and channels have changed places computes it (its kernel is as
large as an image), but ONNX Runtime does so at a third of the speed at which it multiplies large matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir.dims import Dim, product
from .registry import OnnxGraph
from .windows import Padding, Sizes, onnx_pads, taps

FEW_CHANNELS = 16
"""With fewer channels to a group, the matrix of one tap is too thin: the taps of the last axis are put into one."""


def onnx_weight_gradient(
    graph: OnnxGraph, x: str, g: str, *,
    kernel_shape: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> str:  # fmt: skip
    """The `onnx` rule of `conv_weight_gradient`: `weight[:, :, tap] = g @ seen(tap).T` for each tap of the kernel.

    `seen(tap)` is what the tap meets in all windows. Images and cotangents are laid out as (channels, *spatial, batch):
    so it is cut out in long runs, and the batch is part of the contracted axis.
    """
    (batch, channels), (out_channels, *counts) = graph.type(x).shape[:2], graph.type(g).shape[1:]
    places = product((batch, *counts))
    axes = list(range(2, 2 + len(counts)))
    inwards = (1, *axes, 0)

    def seen(images: str, tap: Sizes, axes: Sequence[int]) -> str:
        starts = [t * dilation[axis - 2] for t, axis in zip(tap, axes, strict=True)]
        steps = [stride[axis - 2] for axis in axes]
        ends = [s + (counts[axis - 2] - 1) * step + 1 for s, step, axis in zip(starts, steps, axes, strict=True)]
        bounds = _vector(graph, starts), graph.dims(tuple(ends)), _vector(graph, axes), _vector(graph, steps)
        return str(graph.op("Slice", images, *bounds)) if axes else images

    images = _padded(graph, graph.op("Transpose", x, perm=inwards), padding)
    images = graph.op("Unsqueeze", images, _vector(graph, [1]))  # (channels, columns, *spatial, batch)
    per_group, columns = channels // groups, 1
    if isinstance(per_group, int) and per_group < FEW_CHANNELS:
        last, columns = axes.pop(), kernel_shape[-1]
        images = graph.op("Concat", *(seen(images, (tap,), [last]) for tap in range(columns)), axis=1)

    cotangents = graph.op("Transpose", g, perm=inwards)
    cotangents = _reshaped(graph, cotangents, groups, out_channels // groups, places)
    products = []
    for tap in taps(kernel_shape[: len(axes)]):
        matrices = _reshaped(graph, seen(images, tap, axes), groups, per_group * columns, places)
        products.append(graph.op("MatMul", cotangents, graph.op("Transpose", matrices, perm=(0, 2, 1))))

    by_tap = (len(products), out_channels * per_group, *([columns] if columns > 1 else []))
    stacked = _reshaped(graph, graph.op("Concat", *products, axis=0), *by_tap)
    weight = graph.op("Transpose", stacked, perm=(1, 0, 2)[: len(by_tap)])
    return _reshaped(graph, weight, out_channels, per_group, *kernel_shape)


def _padded(graph: OnnxGraph, images: str, padding: Padding) -> str:
    """Images (channels, *spatial, batch) with zeros around them; cut where padding is negative."""
    if not any(map(any, padding)):
        return images
    sides, spatial = onnx_pads(padding), len(padding)
    return str(graph.op("Pad", images, _vector(graph, (0, *sides[:spatial], 0, 0, *sides[spatial:], 0))))


def _reshaped(graph: OnnxGraph, x: str, *shape: Dim) -> str:
    return str(graph.op("Reshape", x, graph.dims(shape), allowzero=1))


def _vector(graph: OnnxGraph, numbers: Sequence[int]) -> str:
    return graph.constant(np.array(numbers, np.int64))
