"""Functions for ONNX operators on images: regions, boxes, columns, affine grids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import INT64
from ..memory import check_table_size
from ..ops import creation, elementwise, indexing, linear, reduction, shaping, slicing
from ..ops.registry import Array, Tensor, require
from .registry import onnx_function
from .shaping import scalar


@onnx_function("RoiAlign", "rois", "batch_indices", symbolic=False)
def roi_align(
    X: Tensor, rois: Any, batch_indices: Any, *, coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg", output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:  # fmt: skip
    """RoiAlign-22 (He et al. 2017): means or maxima of bilinear samples in the bins of each region."""
    require(mode in ("avg", "max"), f"mode must be avg or max, given {mode!r}")
    height, width = X.shape[2:]
    aligned = coordinate_transformation_mode == "half_pixel"
    offset = 0.5 if aligned else 0.0
    pooled = []
    for (x1, y1, x2, y2), batch in zip(rois, batch_indices, strict=True):
        image = slicing.slice(X, starts=(batch,), stops=(batch + 1,), steps=(1,), axes=(0,))
        rows, ny = _samples(y1, y2, height, output_height, sampling_ratio, spatial_scale, offset, aligned)
        columns, nx = _samples(x1, x2, width, output_width, sampling_ratio, spatial_scale, offset, aligned)
        if mode == "avg":
            by_row = rows.reshape(output_height, ny, height).mean(axis=1).astype(X.dtype)
            by_column = columns.reshape(output_width, nx, width).mean(axis=1).astype(X.dtype)
            pooled.append(linear.matmul(linear.matmul(by_row, image), by_column.T))
        else:
            pooled.append(_max_of_bins(image, rows, columns, (output_height, ny, output_width, nx)))
    if not pooled:
        return creation.full_like(X, 0, (0, X.shape[1], output_height, output_width))
    return slicing.concat(*pooled, axis=0)


def _samples(
    start: float, end: float, size: int, bins: int, ratio: int, scale: float, offset: float, aligned: bool
) -> tuple[Array, int]:
    """Return the weights (bins * samples, size) of bilinear samples along an axis, and their number per bin."""
    first, last = start * scale - offset, end * scale - offset
    length = last - first if aligned else max(last - first, 1.0)
    count = ratio if ratio > 0 else max(math.ceil(length / bins), 1)
    check_table_size(bins * count, size)
    step = length / bins
    places = first + (np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count) * step
    places = places.reshape(-1)
    inside = (places >= -1.0) & (places <= size)
    places = np.clip(places, 0, size - 1)
    low = np.floor(places).astype(np.int64)
    high = np.minimum(low + 1, size - 1)
    weights = np.zeros((len(places), size))
    np.add.at(weights, (np.arange(len(places)), low), 1 - (places - low))
    np.add.at(weights, (np.arange(len(places)), high), places - low)
    weights[~inside] = 0.0
    return weights, count


def _max_of_bins(image: Tensor, rows: Array, columns: Array, shape: tuple[int, int, int, int]) -> Any:
    """Return ONNX's maximum of each bin: the largest of the four weighted corners of all its samples."""
    best = None
    for corner_row in _corners(rows):
        for corner_column in _corners(columns):
            part = linear.matmul(
                linear.matmul(corner_row.astype(image.dtype), image), corner_column.T.astype(image.dtype)
            )
            best = part if best is None else elementwise.maximum(best, part)
    assert best is not None, "there are two corners along each axis"
    bins, ny, columns_, nx = shape
    best = shaping.reshape(best, shape=(*image.shape[:2], bins, ny, columns_, nx))
    return reduction.reduce_max(best, axes=(3, 5))


def _corners(weights: Array) -> tuple[Array, Array]:
    """Split the two taps of each sample."""
    first = np.zeros_like(weights)
    index = np.arange(len(weights)), (weights > 0).argmax(axis=1)
    first[index] = weights[index]
    return first, weights - first


@onnx_function(
    "NonMaxSuppression", "boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold",
    symbolic=False,
)  # fmt: skip
def non_max_suppression(
    boxes: Any, scores: Any, max_output_boxes_per_class: Any = None, iou_threshold: Any = None,
    score_threshold: Any = None, *, center_point_box: int = 0,
) -> Any:  # fmt: skip
    """NonMaxSuppression-11: (selected, 3) indices of batch, class and box, best first, without overlapping boxes."""
    most, overlap = scalar(max_output_boxes_per_class, 0), scalar(iou_threshold, 0.0)
    least = scalar(score_threshold)
    selected = []
    for batch, (corners, class_scores) in enumerate(zip(np.array(boxes), np.array(scores), strict=True)):
        areas, edges = _edges(corners, center_point_box)
        for cls, values in enumerate(class_scores):
            order = np.argsort(-values, kind="stable")
            order = order if least is None else order[values[order] > least]
            kept: list[int] = []
            while len(order) and len(kept) < most:
                best, order = order[0], order[1:]
                kept.append(int(best))
                order = order[_overlaps(edges[best], areas[best], edges[order], areas[order]) <= overlap]
            selected += [(batch, cls, box) for box in kept]
    return np.array(selected, np.int64).reshape(-1, 3)


def _edges(boxes: Array, centred: int) -> tuple[Array, Array]:
    """Return areas (n,) and edges (n, 4), as y1, x1, y2, x2, of boxes given by corners or by centre and size."""
    if centred:
        x, y, w, h = boxes.T
        edges = np.stack([y - h / 2, x - w / 2, y + h / 2, x + w / 2], axis=1)
    else:
        pairs = boxes.reshape(-1, 2, 2)
        edges = np.concatenate([pairs.min(axis=1), pairs.max(axis=1)], axis=1)
    return (edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1]), edges


def _overlaps(box: Array, area: Any, others: Array, areas: Array) -> Array:
    """Return the intersection over union of a box with others."""
    sides = np.maximum(np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2]), 0)
    shared = sides.prod(axis=1)
    union = area + areas - shared
    ratio: Array = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return ratio


@onnx_function("Col2Im", "image_shape", "block_shape", symbolic=False)
def col2im(
    input: Tensor, image_shape: Any, block_shape: Any, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Any:
    """Col2Im-18: adds blocks (batch, channels * block, positions) at the positions that they come from."""
    rank = len(block_shape)
    ones = (1,) * rank
    dilations, strides = dilations or ones, strides or ones
    pads = pads or (0,) * (2 * rank)
    padded = [size + pads[i] + pads[i + rank] for i, size in enumerate(image_shape)]
    check_table_size(*padded, *block_shape)
    flat = np.zeros((), np.int64)
    taps, starts = [], []
    for size, block, dilation, stride in zip(padded, block_shape, dilations, strides, strict=True):
        starts.append(np.arange((size - dilation * (block - 1) - 1) // stride + 1) * stride)
        taps.append(np.arange(block) * dilation)
    for axis, size in enumerate(padded):
        along = taps[axis].reshape([-1 if i == axis else 1 for i in range(rank)] + [1] * rank)
        along = along + starts[axis].reshape([1] * rank + [-1 if i == axis else 1 for i in range(rank)])
        flat = flat * size + along
    batch, count = input.shape[0], math.prod(block_shape)
    channels = input.shape[1] // count
    planes = shaping.reshape(input, shape=(batch, channels, flat.size))
    zeros = creation.full_like(input, 0, (batch, channels, math.prod(padded)))
    image = indexing.index_add(zeros, flat.reshape(-1), planes, axis=2)
    image = shaping.reshape(image, shape=(batch, channels, *padded))
    stops = tuple(pads[i] + size for i, size in enumerate(image_shape))
    return slicing.slice(image, starts=tuple(pads[:rank]), stops=stops, steps=ones, axes=tuple(range(2, 2 + rank)))


@onnx_function("AffineGrid", "size", symbolic=False)
def affine_grid(theta: Tensor, size: Any, *, align_corners: int = 0) -> Any:
    """AffineGrid-20: the images of the points of a grid under an affine map (batch, 2, 3) or (batch, 3, 4)."""
    spatial = size[2:]
    check_table_size(*spatial)
    axes = []
    for count in spatial:
        n = np.arange(count)
        axes.append(n * 2 / max(count - 1, 1) - 1 if align_corners else (2 * n + 1) / count - 1)
    if align_corners:
        axes = [np.zeros(1) - 1 if count == 1 else axis for axis, count in zip(axes, spatial, strict=True)]
    mesh = np.meshgrid(*axes, indexing="ij")
    points = np.stack([*mesh[::-1], np.ones(spatial)], axis=-1).reshape(-1, len(spatial) + 1).astype(theta.dtype)
    transposed = shaping.transpose(theta, permutation=(0, 2, 1))
    grid = linear.matmul(points, transposed)
    return shaping.reshape(grid, shape=(theta.shape[0], *spatial, len(spatial)))


@onnx_function("MaxUnpool", "output_shape")
def max_unpool(
    X: Tensor, I: Tensor, output_shape: Any = None, *, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Any:
    """MaxUnpool-22: `I` refers to the shape before pooling; `output_shape` only adds zeros at the ends."""
    rank = len(kernel_shape)
    strides, pads = strides or (1,) * rank, pads or (0,) * (2 * rank)
    sizes = [(X.shape[2 + i] - 1) * strides[i] - pads[i] - pads[i + rank] + kernel_shape[i] for i in range(rank)]
    count, total = math.prod(X.shape), math.prod((*X.shape[:2], *sizes))
    places = shaping.reshape(elementwise.cast(I, dtype=INT64), shape=(count,))
    zeros = creation.full_like(X, 0, (total,))
    flat = indexing.scatter(zeros, places, shaping.reshape(X, shape=(count,)), axis=0)
    whole = shaping.reshape(flat, shape=(*X.shape[:2], *sizes))
    if output_shape is None:
        return whole
    after = tuple(target - size for target, size in zip(output_shape, whole.shape, strict=True))
    return slicing.pad(whole, before=(0,) * len(after), after=after)
