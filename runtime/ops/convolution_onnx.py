"""Lowering of the weight gradient of a convolution to ONNX, as matrix products.

ONNX has no operator for it. A convolution with batch and channels swapped computes it (with kernels as large as an
image), but ONNX Runtime then takes three times as long as for products of large matrices. The cost of
laying out these matrices depends on the numbers of channels, so there are three forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ..ir.dims import Dim, product
from ..ir.types import INT64
from .registry import OnnxGraph
from .windows import Padding, Sizes, taps

FEW_CHANNELS = 16
"""With fewer channels per group, the matrix of one tap is too narrow, so taps share one."""
MANY_CHANNELS = 128
"""With fewer channels on either side, the product of one tap takes less time than the layout of its matrices."""
WIDE = 128
"""For wider images, most of the product of a depthwise convolution isn't needed."""

TapElements = Callable[[str, Sequence[int], Sequence[int]], str]


def onnx_weight_gradient(
    graph: OnnxGraph, x: str, g: str, *,
    kernel_shape: Sizes, stride: Sizes, padding: Padding, dilation: Sizes, groups: int,
) -> str:  # fmt: skip
    """The `onnx` rule of `conv_weight_gradient`: `weight[:, :, tap] = g @ tap_elements(tap).T` for each tap.

    `tap_elements(tap)` are the elements at the tap in all windows.
    """
    (batch, channels), (out_channels, *counts) = graph.type(x).shape[:2], graph.type(g).shape[1:]
    per_group = channels // groups
    few = isinstance(per_group, int) and per_group < FEW_CHANNELS
    fewest = min((n for n in (channels, out_channels) if isinstance(n, int)), default=MANY_CHANNELS)
    if groups == 1 and not few and fewest < MANY_CHANNELS and all(step == 1 for step in stride):
        return _product_per_row(graph, x, g, kernel_shape, padding, dilation)
    widths = (graph.type(x).shape[-1], counts[-1])
    if (
        groups > 1
        and per_group == 1
        and len(counts) == 2
        and all(isinstance(width, int) and width <= WIDE for width in widths)
    ):
        return _depthwise(graph, x, g, kernel_shape, stride, padding, dilation)

    def tap_elements(images: str, tap: Sequence[int], axes: Sequence[int]) -> str:
        starts = [t * dilation[axis - 2] for t, axis in zip(tap, axes, strict=True)]
        steps = [stride[axis - 2] for axis in axes]
        ends = [s + (counts[axis - 2] - 1) * step + 1 for s, step, axis in zip(starts, steps, axes, strict=True)]
        bounds = _vector(graph, starts), graph.dims(tuple(ends)), _vector(graph, axes), _vector(graph, steps)
        return str(graph.op("Slice", images, *bounds)) if axes else images

    # (channels, columns, *spatial, batch): the elements of a tap are long runs, and one product sums over the batch too
    batch_last = (1, *range(2, 2 + len(counts)), 0)
    images = graph.op("Transpose", x, perm=batch_last)
    images = _pad(graph, images, (0, *(before for before, _ in padding), 0), (0, *(after for _, after in padding), 0))
    images = graph.op("Unsqueeze", images, _vector(graph, [1]))
    cotangents = graph.op("Transpose", g, perm=batch_last)
    shape = (out_channels, per_group, *kernel_shape)
    places = product((batch, *counts))
    if few and groups == 1:
        rows = _window_positions(graph, counts[0], kernel_shape[0], stride[0], dilation[0])
        return _single_product(graph, images, cotangents, shape, kernel_shape, places, tap_elements, rows)
    return _product_per_tap(graph, images, cotangents, shape, kernel_shape, places, tap_elements, groups, few)


def _single_product(
    graph: OnnxGraph, images: str, cotangents: str, shape: tuple[Dim, ...], kernel: Sizes, places: Dim,
    tap_elements: TapElements, rows: str,
) -> str:  # fmt: skip
    """Emit one product for all taps: of their elements, (channels * taps, places), with the cotangents.

    `rows` are the positions of all windows for the taps of the first axis, (taps, counts). The second matrix is the
    smaller one, since ONNX Runtime copies it to another layout.
    """
    out_channels, channels = shape[:2]
    inner = list(range(3, 2 + len(kernel)))
    for axis in reversed(inner):
        images = graph.op("Concat", *(tap_elements(images, (tap,), (axis,)) for tap in range(kernel[axis - 2])), axis=1)
    images = graph.op("Gather", images, rows, axis=2)  # (channels, taps of the other axes, taps of the first axis, ...)
    cotangents = graph.op("Transpose", _reshape(graph, cotangents, out_channels, places), perm=(1, 0))
    weight = graph.op("MatMul", _reshape(graph, images, product((channels, *kernel)), places), cotangents)
    weight = _reshape(graph, weight, channels, prod(kernel[1:]), kernel[0], out_channels)
    return _reshape(graph, graph.op("Transpose", weight, perm=(3, 0, 2, 1)), *shape)


def _product_per_tap(
    graph: OnnxGraph, images: str, cotangents: str, shape: tuple[Dim, ...], kernel: Sizes, places: Dim,
    tap_elements: TapElements, groups: int, few: bool,
) -> str:  # fmt: skip
    """Emit a product for each tap; with few channels per group, for each row of taps."""
    out_channels, per_group = shape[:2]
    axes, columns = list(range(2, 2 + len(kernel))), 1
    if few:
        last, columns, kernel = axes.pop(), kernel[-1], kernel[:-1]
        images = graph.op("Concat", *(tap_elements(images, (tap,), [last]) for tap in range(columns)), axis=1)
    cotangents = _reshape(graph, cotangents, groups, out_channels // groups, places)
    products = []
    for tap in taps(kernel):
        matrices = _reshape(graph, tap_elements(images, tap, axes), groups, per_group * columns, places)
        products.append(graph.op("MatMul", cotangents, graph.op("Transpose", matrices, perm=(0, 2, 1))))

    by_tap = (len(products), out_channels * per_group, *([columns] if columns > 1 else []))
    stacked = _reshape(graph, graph.op("Concat", *products, axis=0), *by_tap)
    return _reshape(graph, graph.op("Transpose", stacked, perm=(1, 0, 2)[: len(by_tap)]), *shape)


def _product_per_row(graph: OnnxGraph, x: str, g: str, kernel_shape: Sizes, padding: Padding, dilation: Sizes) -> str:
    """Emit a product for each row of taps, for stride 1; batch and channels keep their places.

    For each tap of the last axis the images are shifted; along the other axes the cotangents are shifted instead. The
    rows of a shifted image are contiguous, so one product contracts all of them.
    """
    (batch, channels), (out_channels, *counts) = graph.type(x).shape[:2], graph.type(g).shape[1:]
    spans = [step * (size - 1) for step, size in zip(dilation, kernel_shape, strict=True)]
    before, after = zip(*padding, strict=True)
    rows = [count + span for count, span in zip(counts[:-1], spans[:-1], strict=True)]
    places, columns = product((*rows, counts[-1])), kernel_shape[-1]

    shifted = []
    for tap in range(columns):
        by = tap * dilation[-1]
        front, back = (0, 0, *before[:-1], before[-1] - by), (0, 0, *after[:-1], after[-1] - spans[-1] + by)
        shifted.append(_pad(graph, x, front, back))
    images = _reshape(graph, graph.op("Concat", *shifted, axis=1), batch, columns * channels, places)
    products = []
    for tap_of_row in taps(kernel_shape[:-1]):
        by_axis = [t * step for t, step in zip(tap_of_row, dilation[:-1], strict=True)]
        behind = [span - by for span, by in zip(spans[:-1], by_axis, strict=True)]
        cotangents = _pad(graph, g, (0, 0, *by_axis, 0), (0, 0, *behind, 0))
        cotangents = _reshape(graph, cotangents, batch, out_channels, places)
        by_image = graph.op("MatMul", images, graph.op("Transpose", cotangents, perm=(0, 2, 1)))
        summed = graph.op("ReduceSum", by_image, _vector(graph, [0]), keepdims=0)
        products.append(_reshape(graph, summed, 1, columns, channels, out_channels))
    weight = graph.op("Transpose", graph.op("Concat", *products, axis=0), perm=(3, 2, 0, 1))
    return _reshape(graph, weight, out_channels, channels, *kernel_shape)


def _depthwise(
    graph: OnnxGraph, x: str, g: str, kernel: Sizes, stride: Sizes, padding: Padding, dilation: Sizes
) -> str:
    """Emit, for images with one channel per group, a product of all columns of `x` and all of `g` per row of taps.

    It contracts batch and rows. A tap of the last axis is the sum over the pairs of columns that it combines.
    """
    (batch, channels), (out_channels, rows) = graph.type(x).shape[:2], graph.type(g).shape[1:3]
    width, columns = int(graph.type(x).shape[3]), int(graph.type(g).shape[3])
    images = graph.op("Transpose", x, perm=(1, 2, 0, 3))  # (channels, rows, batch, columns)
    (before, after), (cut, _) = padding
    images = _pad(graph, images, (0, before, 0, 0), (0, after, 0, 0))
    windows = _window_positions(graph, rows, kernel[0], stride[0], dilation[0])
    places, multiplier = product((rows, batch)), out_channels // channels
    images = _reshape(graph, graph.op("Gather", images, windows, axis=1), channels, 1, kernel[0], places, width)
    cotangents = graph.op("Transpose", g, perm=(1, 2, 0, 3))
    cotangents = _reshape(graph, cotangents, channels, multiplier, 1, places, columns)
    pairs = graph.op("MatMul", graph.op("Transpose", images, perm=(0, 1, 2, 4, 3)), cotangents)
    pairs = _reshape(graph, pairs, out_channels * kernel[0], product((width, columns)))
    tap_columns = np.arange(columns)[:, None] * stride[1] + np.arange(kernel[1]) * dilation[1] - cut
    is_pair_of_tap = (np.arange(width)[:, None, None] == tap_columns).reshape(-1, kernel[1])
    weight = graph.op("MatMul", pairs, graph.constant(is_pair_of_tap, graph.type(x).dtype))
    return _reshape(graph, weight, out_channels, 1, *kernel)


def _window_positions(graph: OnnxGraph, count: Dim, size: int, stride: int, dilation: int) -> str:
    """Return the positions of the taps of all windows along an axis, (size, count)."""
    zero, step = graph.constant(0, INT64), graph.constant(stride, INT64)
    starts = graph.op("Range", zero, graph.op("Squeeze", graph.dims((count * stride,))), step)
    return str(graph.op("Add", starts, graph.constant(np.arange(size)[:, None] * dilation)))


def _pad(graph: OnnxGraph, x: str, before: Sequence[int], after: Sequence[int]) -> str:
    """Pad a tensor with zeros; negative numbers crop."""
    if not any((*before, *after)):
        return x
    return str(graph.op("Pad", x, _vector(graph, (*before, *after))))


def _reshape(graph: OnnxGraph, x: str, *shape: Dim) -> str:
    return str(graph.op("Reshape", x, graph.dims(shape), allowzero=1))


def _vector(graph: OnnxGraph, numbers: Sequence[int]) -> str:
    return graph.constant(np.array(numbers, np.int64))
