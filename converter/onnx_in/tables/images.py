"""ONNX operators on images: resizing, sampling, regions, boxes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import product
from ....runtime.ir.types import INT64, Type
from ....runtime.ops import comparison, convolution, creation, elementwise, indexing, resize, rounding, shaping, slicing
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from ..model.values import KnownTensor
from .context import Context
from .convolution import constant_sizes, per_axis, window_padding
from .shaping import unknown_shape
from .table import cast, onnx


@onnx("Upsample", values=("scales",))
def upsample(context: Context, X: SymbolicTensor, scales: Any = None, *, mode: str = "nearest") -> Any:
    """Upsample-7..9(X, scales) -> Y"""
    return resize_(
        context, X, None, scales, mode=mode, coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )


@onnx("Resize", values=("roi", "scales", "sizes"))
def resize_(
    context: Context, X: SymbolicTensor, roi: Any = None, scales: Any = None, sizes: Any = None, **options: Any
) -> Any:
    """Resize-10..19(X, roi?, scales?, sizes?) -> Y"""
    if context.opset < 11 and scales is None:
        roi, scales = None, roi
        options |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales, sizes = (None if x is not None and x.shape == (0,) else x for x in (scales, sizes))
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    if options.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        roi = None
    symbolic = any(not isinstance(size, int) for size in X.shape[2:])
    if symbolic or (isinstance(sizes, KnownTensor) and any(not isinstance(s, int) for s in sizes.contents()[-2:])):
        return _symbolic(X, scales, sizes, options)
    types = () if context.declared()[0] else unknown_shape(context, X, X.ndim)
    return context.runtime_shaped("Resize", X, roi, scales, sizes, types=types, **options)


def _symbolic(x: SymbolicTensor, scales: Any, sizes: Any, options: dict[str, Any]) -> Any:
    """Resize with the op `resize`, which supports symbolic sizes, but only PyTorch's coordinate transformations."""
    mode = options.get("mode", "nearest")
    where = options.get("coordinate_transformation_mode", "half_pixel")
    nearest = options.get("nearest_mode", "round_prefer_floor")
    if options.get("antialias") or options.get("exclude_outside") or options.get("axes", range(2, x.ndim)) == ():
        raise Unsupported("antialias or exclude_outside along an axis of symbolic size")
    axes = options.get("axes") or tuple(range(x.ndim))
    at = [axis % x.ndim for axis in axes]
    if isinstance(sizes, KnownTensor):
        new_sizes = dict(zip(at, sizes.contents(), strict=True))
        factors = None
    elif isinstance(scales, KnownTensor):
        factor_by_axis = dict(zip(at, scales.contents(), strict=True))
        new_sizes = {axis: _scale(x.shape[axis], factor) for axis, factor in factor_by_axis.items()}
        factors = tuple(float(factor_by_axis.get(axis, 1.0)) for axis in range(2, x.ndim))
    else:
        raise Unsupported("sizes that are known only when the program runs, of a tensor of symbolic size")
    if any(new_sizes.get(axis, x.shape[axis]) != x.shape[axis] for axis in (0, 1)):
        raise Unsupported("batch or channels resized, of a tensor of symbolic size")
    target = tuple(new_sizes.get(axis, x.shape[axis]) for axis in range(2, x.ndim))
    names = {("asymmetric", "floor"): "nearest", ("half_pixel", "round_prefer_ceil"): "nearest-exact"}
    if mode == "nearest":
        if (where, nearest) not in names:
            raise Unsupported(f"{where} with {nearest} along an axis of symbolic size")
        return resize.resize(x, size=target, mode=names[where, nearest], scales=factors)
    if where not in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        raise Unsupported(f"{where} along an axis of symbolic size")
    if mode == "cubic" and options.get("cubic_coeff_a", -0.75) != -0.75:
        raise Unsupported("a cubic_coeff_a other than -0.75 along an axis of symbolic size")
    return resize.resize(
        x, size=target, mode="bicubic" if mode == "cubic" else "linear", align_corners=where == "align_corners",
        half_pixel=where != "asymmetric", scales=factors,
    )  # fmt: skip


def _scale(size: Any, factor: float) -> Any:
    numerator, denominator = float(factor).as_integer_ratio()
    return size * numerator // denominator


@onnx("RoiAlign", values=("rois", "batch_indices"))
def roi_align(context: Context, X: SymbolicTensor, rois: Any, batch_indices: Any, **options: Any) -> Any:
    """RoiAlign-10..22(X, rois, batch_indices) -> Y"""
    if context.opset < 16:
        options.setdefault("coordinate_transformation_mode", "output_half_pixel")
    shape = (rois.shape[0], X.shape[1], options.get("output_height", 1), options.get("output_width", 1))
    return context.runtime_shaped("RoiAlign", X, rois, batch_indices, types=(Type(X.dtype, shape),), **options)


@onnx("NonMaxSuppression", values=(
    "boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold",
))  # fmt: skip
def non_max_suppression(
    context: Context, boxes: Any, scores: Any, max_output_boxes_per_class: Any = None, iou_threshold: Any = None,
    score_threshold: Any = None, *, center_point_box: int = 0,
) -> Any:  # fmt: skip
    """NonMaxSuppression-10..11(boxes, scores, max_output_boxes_per_class?, iou_threshold?, score_threshold?) ->
    selected_indices
    """
    operands = (boxes, scores, max_output_boxes_per_class, iou_threshold, score_threshold)
    types = (Type(INT64, (context.new_symbol(), 3)),)
    return context.runtime_shaped("NonMaxSuppression", *operands, types=types, center_point_box=center_point_box)


@onnx("Col2Im", values=("image_shape", "block_shape"))
def col2im(context: Context, input: SymbolicTensor, image_shape: Any, block_shape: Any, **options: Any) -> Any:
    """Col2Im-18(input, image_shape, block_shape) -> output"""
    count = image_shape.shape[0]
    rank = count + 2 if isinstance(count, int) else None
    types = () if context.declared()[0] else unknown_shape(context, input, rank)
    options = {name: tuple(value) for name, value in options.items()}
    return context.runtime_shaped("Col2Im", input, image_shape, block_shape, types=types, **options)


@onnx("AffineGrid", values=("size",))
def affine_grid(context: Context, theta: SymbolicTensor, size: Any, *, align_corners: int = 0) -> Any:
    """AffineGrid-20(theta, size) -> grid"""
    types = () if context.declared()[0] else unknown_shape(context, theta, theta.shape[1] + 2)
    return context.runtime_shaped("AffineGrid", theta, size, types=types, align_corners=align_corners)


# ---- sampling at points ----


@onnx("GridSample")
def grid_sample(
    context: Context, X: SymbolicTensor, grid: SymbolicTensor, *, align_corners: int = 0, mode: str = "linear",
    padding_mode: str = "zeros",
) -> Any:  # fmt: skip
    """GridSample-16..22(X, grid) -> Y"""
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    if mode not in ("linear", "nearest", "cubic") or padding_mode not in ("zeros", "border", "reflection"):
        raise ShapeError(f"mode {mode!r} or padding_mode {padding_mode!r} is unknown")
    rank = X.ndim - 2
    if grid.ndim != X.ndim or grid.shape[-1] != rank:
        raise ShapeError(f"needed a grid (batch, *spatial, {rank}), given {grid.value.type}")
    points = tuple(grid.shape[1:-1])
    count = product(points)
    places = []
    for axis in range(rank):
        at = rank - 1 - axis  # the grid has x, y, z; the axes are z, y, x
        part = slicing.slice(grid, starts=(at,), stops=(at + 1,), steps=(1,), axes=(grid.ndim - 1,))
        part = cast(shaping.reshape(part, shape=(grid.shape[0], count)), X.dtype)
        size = _number(context, X.shape[2 + axis], X.dtype)
        spread = (part + 1.0) * (size - 1.0) * 0.5 if align_corners else ((part + 1.0) * size - 1.0) * 0.5
        places.append(_wrap(context, spread, X.shape[2 + axis], padding_mode, align_corners, mode))
    y = sample(context, X, places, mode, padding_mode, align_corners)
    return shaping.reshape(y, shape=(X.shape[0], X.shape[1], *points))


def _number(context: Context, size: Any, dtype: Any) -> Any:
    return float(size) if isinstance(size, int) else context.full((), size, dtype)


def _wrap(context: Context, x: Any, size: Any, padding_mode: str, align_corners: int, mode: str) -> Any:
    """Move positions into the image by the padding mode; for cubic, `sample` does this for each tap."""
    if mode == "cubic" or padding_mode == "zeros":
        return x
    if padding_mode == "reflection":
        x = _reflect(context, x, size, align_corners)
    return _clip(context, x, size)


def _clip(context: Context, x: Any, size: Any) -> Any:
    if isinstance(size, int):
        return elementwise.clamp(x, minimum=0.0, maximum=float(size - 1))
    last = context.full((), size - 1, x.dtype)
    return elementwise.minimum(elementwise.clamp(x, minimum=0.0), last)


def _reflect(context: Context, x: Any, size: Any, align_corners: int) -> Any:
    """Reflect positions at the centres of the corner elements, or at their outer edges."""
    low = 0.0 if align_corners else -0.5
    span = _number(context, size - 1 if align_corners else size, x.dtype)
    if isinstance(span, float) and span == 0.0:
        return x * 0.0
    away = elementwise.abs(x - low)
    turns = rounding.floor(away / span)
    rest = away - turns * span
    odd = comparison.equal(rounding.remainder(turns, np.asarray(2.0).astype(x.dtype)), np.asarray(1.0).astype(x.dtype))
    return elementwise.where(odd, span - rest, rest) + low


def sample(
    context: Context, x: SymbolicTensor, places: list[Any], mode: str, padding_mode: str, align_corners: int
) -> Any:
    """Sample `x`, (batch, channels, *spatial), at positions (batch, points) per axis: (batch, channels, points)."""
    taps = [_taps(position, mode) for position in places]
    total: Any = None
    for choice in np.ndindex(*(len(t) for t in taps)):
        weight: Any = None
        flat: Any = None
        for axis, number in enumerate(choice):
            position, w = taps[axis][number]
            size = x.shape[2 + axis]
            if padding_mode == "zeros":
                last = _number(context, size - 1, position.dtype)
                bound = np.asarray(last, position.dtype) if isinstance(last, float) else last
                inside = comparison.logical_and(
                    comparison.greater_equal(position, np.zeros((), position.dtype)),
                    comparison.less_equal(position, bound),
                )
                w = (1.0 if w is None else w) * cast(inside, position.dtype)
            elif mode == "cubic" and padding_mode == "reflection":
                position = _reflect(context, position, size, align_corners)
            index = cast(_clip(context, position, size), INT64)
            scale = context.full((), size, INT64) if not isinstance(size, int) else size
            flat = index if flat is None else flat * scale + index
            weight = w if weight is None else weight if w is None else weight * w
        value = _pick(x, flat)
        if weight is not None:
            value = value * shaping.reshape(weight, shape=(weight.shape[0], 1, weight.shape[1]))
        total = value if total is None else total + value
    return total


def _taps(position: Any, mode: str) -> list[tuple[Any, Any]]:
    """The positions next to `position` and their weights (None: 1)."""
    if mode == "nearest":
        return [(rounding.round(position), None)]
    base = rounding.floor(position)
    t = position - base
    if mode == "linear":
        return [(base, 1.0 - t), (base + 1.0, t)]
    a = -0.75  # Keys (1981)

    def near(d: Any) -> Any:
        return ((d * (a + 2) - (a + 3)) * d) * d + 1.0

    def far(d: Any) -> Any:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    return [
        (base - 1.0, far(t + 1.0)), (base, near(t)), (base + 1.0, near(1.0 - t)), (base + 2.0, far(2.0 - t)),
    ]  # fmt: skip


def _pick(x: SymbolicTensor, flat: Any) -> Any:
    """The elements at flat positions (batch, points) of each plane."""
    batch, channels = x.shape[:2]
    planes = shaping.reshape(x, shape=(batch, channels, product(x.shape[2:])))
    index = shaping.reshape(flat, shape=(flat.shape[0], 1, flat.shape[1]))
    return indexing.gather(planes, shaping.expand(index, shape=(batch, channels, flat.shape[1])), axis=2)


@onnx("DeformConv")
def deform_conv(
    context: Context, X: SymbolicTensor, W: SymbolicTensor, offset: SymbolicTensor, B: SymbolicTensor | None = None,
    mask: SymbolicTensor | None = None, *,
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, offset_group: int = 1, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    """DeformConv-19..22(X, W, offset, B?, mask?) -> Y: a convolution whose taps are shifted by offsets"""
    if X.ndim != 4:
        raise Unsupported(f"{X.ndim - 2} spatial dimensions")
    kernel = constant_sizes(W.shape[2:])
    stride, dilation = per_axis(strides, 2, "strides"), per_axis(dilations, 2, "dilations")
    padded = window_padding("NOTSET", pads, tuple(X.shape[2:]), kernel, stride, dilation)
    batch, channels = X.shape[:2]
    rows, columns = offset.shape[2:]
    count, each = kernel[0] * kernel[1], channels // offset_group
    moved = shaping.reshape(offset, shape=(batch * offset_group, count, 2, rows * columns))
    places = []
    for axis, length in ((0, rows), (1, columns)):
        starts = context.builder.create(creation.arange, stop=length, dtype=INT64)
        starts = cast(starts, X.dtype) * float(stride[axis]) - float(padded[axis][0])
        starts = shaping.reshape(starts, shape=(1, 1, *((length, 1) if axis == 0 else (1, length))))
        taps = np.arange(kernel[axis]) * dilation[axis]
        taps = np.repeat(taps, kernel[1]) if axis == 0 else np.tile(taps, kernel[0])
        base = elementwise.add(starts, taps.reshape(1, count, 1, 1).astype(X.dtype))
        base = shaping.expand(base, shape=(1, count, rows, columns))
        part = slicing.slice(moved, starts=(axis,), stops=(axis + 1,), steps=(1,), axes=(2,))
        part = shaping.reshape(part, shape=(batch * offset_group, count, rows, columns))
        places.append(shaping.reshape(base + part, shape=(batch * offset_group, count * rows * columns)))
    grouped = shaping.reshape(X, shape=(batch * offset_group, each, *X.shape[2:]))
    samples = sample(context, grouped, places, "linear", "zeros", 1)
    if mask is not None:
        weights = shaping.reshape(mask, shape=(batch * offset_group, 1, count * rows * columns))
        samples = samples * weights
    # each block has one element per tap, so that a convolution with the kernel's size as stride completes it
    blocks = shaping.reshape(samples, shape=(batch, channels, *kernel, rows, columns))
    blocks = shaping.transpose(blocks, permutation=(0, 1, 4, 2, 5, 3))
    image = shaping.reshape(blocks, shape=(batch, channels, rows * kernel[0], columns * kernel[1]))
    none = ((0, 0), (0, 0))
    return convolution.conv(image, W, B, stride=kernel, padding=none, dilation=(1, 1), groups=group)
