"""Resizing of images by interpolation, one axis after the other, and its gradient, which is its transpose.

Along an axis, every result is a weighted sum of a few source positions, its taps; see `_taps`.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ..errors import ConversionError
from ..ir.dims import Dim
from ..ir.types import FLOAT64, is_floating
from ..traits import Traits
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

MODES = ("nearest", "nearest-exact", "linear", "bilinear", "bicubic")
CUBIC_A = -0.75  # ATen's and ONNX's default coefficient of the cubic convolution kernel

Scales = tuple[float | None, ...] | None
MAX_MATRIX = 512
"""Sizes of a cotangent up to which its product with a matrix, mostly of zeros, is the fastest form."""
Taps = tuple[Array, Array]
"""Source positions and their weights, both `(taps, results)`; along each row the positions don't decrease."""


@operator
def resize(
    x: Tensor,
    *,
    size: tuple[Dim, ...],
    mode: str = "nearest",
    align_corners: bool = False,
    half_pixel: bool = True,
    scales: Scales = None,
) -> Tensor:
    """Interpolate to other spatial sizes: ATen `upsample_{nearest*d,linear1d,bilinear2d,trilinear3d,bicubic2d}`.

    Without antialiasing. Positions are computed in the dtype of `x` (float32 for half precision), as in ATen. ONNX
    Resize-18.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions; floating-point.
        size: the new spatial sizes.
        mode: "nearest", "nearest-exact", "linear" (any number of dimensions), "bilinear" or "bicubic" (two).
        align_corners: whether the centres of the corner elements keep their positions; otherwise the corners do.
        half_pixel: except for the nearest modes, whether elements are at the centres of their pixels (j + 0.5), as in
            ATen, or at their corners (j).
        scales: new size / old size per dimension; None to compute it from the sizes.

    Returns:
        `(batch, channels, *size)`.
    """


resize.traits = Traits(costly=True)


@resize.infer
def _(x: Type, *, size: tuple[Dim, ...], mode: str, align_corners: bool, half_pixel: bool, scales: Scales) -> Type:
    _check(x, size, mode, align_corners, scales)
    return x.with_shape((*x.shape[:2], *size))


@resize.kernel
def _(x: Array, *, size: tuple[int, ...], mode: str, align_corners: bool, half_pixel: bool, scales: Scales) -> Array:
    for axis, old, new, scale in _axes(x.shape[2:], size, scales, mode):
        x = interpolate(x, axis, *_taps(old, new, scale, mode, align_corners, half_pixel, x.dtype))
    return x


@resize.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, size: tuple[Dim, ...], **attributes: Any) -> Any:
    return resize_gradient(g, size=x.shape[2:], **attributes)


@resize.onnx
def _(
    graph: OnnxGraph,
    x: str,
    *,
    size: tuple[Dim, ...],
    mode: str,
    align_corners: bool,
    half_pixel: bool,
    scales: Scales,
) -> str:
    dtype, sizes = graph.type(x).dtype, graph.type(x).shape[2:]
    static = all(isinstance(d, int) for d in (*sizes, *size))
    if static:
        axes = list(_axes(sizes, size, scales, mode))
        exact = all(new % old == 0 and scale in (None, new // old) for _, old, new, scale in axes)
        keeps = any(old == new and scale not in (None, 1.0) for _, old, new, scale in axes)
        double = dtype == FLOAT64  # ONNX Runtime's Resize has no float64 kernel on the CPU
        if mode.startswith("nearest") and (double or (keeps if mode == "nearest-exact" else not exact)):
            # ONNX Runtime divides by the rounded scale where ATen multiplies, and may select a neighbour
            for axis, old, new, scale in axes:
                indices, _ = _taps(old, new, scale, mode, align_corners, half_pixel, dtype)
                x = graph.op("Gather", x, graph.constant(indices[0], np.int64), axis=axis)
            return x
        # ONNX Runtime copies if no size changes, whatever the scale
        if double or (mode == "bicubic" and keeps and not align_corners):
            for axis, old, new, scale in axes:
                taps = _taps(old, new, scale, mode, align_corners, half_pixel, dtype)
                x = onnx_product_along(graph, x, axis, len(axes) + 2, interpolation_matrix(*taps, size=old), dtype)
            return x
    # without the attribute `axes` of opset 18: after a Transpose, ONNX Runtime's optimizer would apply the scales or
    # sizes to all axes
    lead = graph.type(x).shape[:2]
    attributes: dict[str, Any] = {}
    if mode == "nearest":
        attributes |= {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    elif mode == "nearest-exact":
        attributes |= {
            "mode": "nearest",
            "coordinate_transformation_mode": "half_pixel",
            "nearest_mode": "round_prefer_ceil",
        }
    else:
        attributes |= {
            "mode": "cubic" if mode == "bicubic" else "linear",
            "coordinate_transformation_mode": (
                "align_corners" if align_corners else "half_pixel" if half_pixel else "asymmetric"
            ),
        }
        if mode == "bicubic":
            attributes["cubic_coeff_a"] = CUBIC_A
    if scales is not None and not align_corners:
        factors = [_onnx_scale(old, new, scale) for _, old, new, scale in _axes(sizes, size, scales, mode)]
        result: str = graph.op("Resize", x, "", graph.constant([1.0, 1.0, *factors], np.float32), **attributes)
    else:
        result = graph.op("Resize", x, "", "", graph.dims((*lead, *size)), **attributes)
    return result


@operator
def resize_gradient(
    g: Tensor,
    *,
    size: tuple[Dim, ...],
    mode: str = "nearest",
    align_corners: bool = False,
    half_pixel: bool = True,
    scales: Scales = None,
) -> Tensor:
    """The gradient of `resize`: its transpose. ATen `upsample_*_backward`.

    Args:
        g: `(batch, channels, *resized)`, cotangent of the result.
        size: spatial sizes of the input of `resize`.
        mode: see `resize`.
        align_corners: whether the centres of the corner elements keep their positions.
        half_pixel: whether elements are at the centres of their pixels.
        scales: resized / size per dimension; None to compute it from the sizes.

    Returns:
        `(batch, channels, *size)`.
    """


resize_gradient.traits = Traits(costly=True)


@resize_gradient.infer
def _(g: Type, *, size: tuple[Dim, ...], mode: str, align_corners: bool, half_pixel: bool, scales: Scales) -> Type:
    _check(g, size, mode, align_corners, scales)
    return g.with_shape((*g.shape[:2], *size))


@resize_gradient.kernel
def _(g: Array, *, size: tuple[int, ...], mode: str, align_corners: bool, half_pixel: bool, scales: Scales) -> Array:
    for axis, old, new, scale in _axes(size, g.shape[2:], scales, mode):
        g = interpolate_transpose(g, axis, *_taps(old, new, scale, mode, align_corners, half_pixel, g.dtype), size=old)
    return g


@resize_gradient.vjp
def _(h: Tensor, y: Tensor, g: Tensor, *, size: tuple[Dim, ...], **attributes: Any) -> Any:
    return resize(h, size=g.shape[2:], **attributes)


@resize_gradient.onnx
def _(
    graph: OnnxGraph,
    g: str,
    *,
    size: tuple[Dim, ...],
    mode: str,
    align_corners: bool,
    half_pixel: bool,
    scales: Scales,
) -> str:
    kind = graph.type(g)
    for axis, old, new, scale in _axes(size, kind.shape[2:], scales, mode):
        if not (isinstance(old, int) and isinstance(new, int)):
            raise ConversionError(f"resize_gradient has an ONNX form only for fixed sizes, given {new} and {old}")
        taps = _taps(old, new, scale, mode, align_corners, half_pixel, kind.dtype)
        g = onnx_product_along(graph, g, axis, kind.rank, interpolation_matrix(*taps, size=old).T, kind.dtype)
    return g


def interpolate(x: Array, axis: int, indices: Array, weights: Array) -> Array:
    """Return along `axis`, for each j, the sum over taps t of `x[indices[t, j]] * weights[t, j]`."""
    result: Array = x.take(indices[0], axis)
    if len(indices) == 1 and (weights == 1).all():
        return result
    shape = [1] * x.ndim
    shape[axis] = -1
    result *= weights[0].reshape(shape)
    for positions, factors in zip(indices[1:], weights[1:], strict=True):
        term = x.take(positions, axis)
        term *= factors.reshape(shape)
        result += term
    return result


def interpolate_transpose(g: Array, axis: int, indices: Array, weights: Array, size: int) -> Array:
    """Apply the transpose of `interpolate` from an axis of `size`."""
    if g.shape[axis] <= MAX_MATRIX:
        rows = g.reshape(prod(g.shape[:axis]), g.shape[axis], prod(g.shape[axis + 1 :]))
        matrix = interpolation_matrix(indices, weights, size)
        product = rows[..., 0] @ matrix.T if rows.shape[2] == 1 else matrix @ rows
        if np.isfinite(product).all():  # an infinity would spread: times 0, it is NaN
            return product.reshape(*g.shape[:axis], size, *g.shape[axis + 1 :]).astype(g.dtype, copy=False)
    g = np.moveaxis(g, axis, 0)
    result = np.zeros((size, *g.shape[1:]), g.dtype)
    for positions, factors in zip(indices, weights, strict=True):
        targets, starts = np.unique(positions, return_index=True)
        result[targets] += np.add.reduceat(g * factors.reshape(-1, *[1] * (g.ndim - 1)), starts, axis=0)
    return np.moveaxis(result, 0, axis)


def interpolation_matrix(indices: Array, weights: Array, size: int) -> Array:
    """Return the matrix `(size, results)` of `interpolate` along an axis of `size`."""
    matrix = np.zeros((size, indices.shape[1]), weights.dtype)
    np.add.at(matrix, (indices, np.arange(indices.shape[1])), weights)
    return matrix


def onnx_product_along(graph: OnnxGraph, x: str, axis: int, rank: int, matrix: Array, dtype: Any) -> str:
    """Emit the product of `axis` of `x`, of this rank, with a constant matrix `(old size, new size)`."""
    swap = list(range(rank))
    swap[axis], swap[-1] = swap[-1], swap[axis]
    is_last = axis == rank - 1
    columns = x if is_last else graph.op("Transpose", x, perm=swap)
    product: str = graph.op("MatMul", columns, graph.constant(matrix, dtype))
    return product if is_last else str(graph.op("Transpose", product, perm=swap))


def _onnx_scale(old: Dim, new: Dim, scale: float | None) -> Array:
    """Return `scale` as a float32 for which ONNX's `floor(old * scale)` is the new size, if needed its neighbour."""
    if scale is None:
        if not (isinstance(old, int) and isinstance(new, int)):
            raise ConversionError(f"resize from {old} to {new} has no ONNX form if another axis has its own scale")
        scale = new / old
    factor = np.asarray(scale, np.float32)
    if not (isinstance(old, int) and isinstance(new, int)) or int(factor * np.float32(old)) == new:
        return factor
    neighbour: Array = np.nextafter(factor, np.float32(np.inf if int(factor * np.float32(old)) < new else 0))
    if int(neighbour * np.float32(old)) != new:
        raise ConversionError(
            f"resize from {old} to {new} with a scale of {scale} has no ONNX form: scale and sizes disagree"
        )
    return neighbour


def _taps(
    old: Any, new: Any, scale: float | None, mode: str, align_corners: bool, half_pixel: bool, dtype: np.dtype[Any]
) -> Taps:
    """Return the taps along one axis as in ATen/native/UpSample.h, in its precision: the dtype, at least float32."""
    real: Any = np.float64 if dtype == FLOAT64 else np.float32
    ratio = real(1.0 / scale) if scale else real(old) / real(new)
    places = np.arange(new, dtype=real)
    if mode == "nearest":
        # ATen floors in float32 whatever the dtype is
        nearest = np.minimum((places * ratio).astype(np.float32).astype(np.int64), old - 1)
        return nearest[None], np.ones((1, new), real)
    if mode == "nearest-exact":
        nearest = np.minimum(((places + real(0.5)) * ratio).astype(np.float32).astype(np.int64), old - 1)
        return nearest[None], np.ones((1, new), real)
    if align_corners:
        source = places * (real(old - 1) / real(new - 1) if new > 1 else real(0))
    else:
        source = (places + real(0.5)) * ratio - real(0.5) if half_pixel else places * ratio
    if mode == "bicubic":
        first = np.floor(source).astype(np.int64)
        indices = first + np.arange(-1, 3)[:, None]
        return indices.clip(0, old - 1), _cubic_weights(source - first.astype(real))
    source = np.maximum(source, real(0))
    first = np.minimum(source.astype(np.int64), old - 1)
    fraction = np.clip(source - first.astype(real), real(0), real(1))
    return np.stack([first, np.minimum(first + 1, old - 1)]), np.stack([1 - fraction, fraction])


def _cubic_weights(t: Array) -> Array:
    """Return the weights of the taps at distances 1 + t, t, 1 - t, 2 - t: cubic convolution (Keys, 1981)."""

    def near(d: Array) -> Array:
        return ((CUBIC_A + 2) * d - (CUBIC_A + 3)) * d * d + 1

    def far(d: Array) -> Array:
        return ((CUBIC_A * d - 5 * CUBIC_A) * d + 8 * CUBIC_A) * d - 4 * CUBIC_A

    return np.stack([far(t + 1), near(t), near(1 - t), far(2 - t)])


def _axes(old: Any, new: Any, scales: Scales, mode: str) -> Iterator[tuple[int, Any, Any, Any]]:
    """Yield for each spatial axis the axis, its old and new size, and the scale (None: computed from the sizes)."""
    for i, (before, after) in enumerate(zip(old, new, strict=True)):
        # ATen's linear modes copy along an axis that keeps its size, whatever the scale
        keeps = mode in ("linear", "bilinear") and before == after
        yield i + 2, before, after, None if scales is None else 1.0 if keeps else scales[i]


def _check(x: Type, size: tuple[Dim, ...], mode: str, align_corners: bool, scales: Scales) -> None:
    require(is_floating(x.dtype), f"needed a floating-point tensor, given {x.dtype.name}")
    require(3 <= x.rank <= 5, f"needed one to three spatial dimensions after (batch, channels), x has rank {x.rank}")
    require(len(size) == x.rank - 2, f"size {size} must have {x.rank - 2} entries")
    require(scales is None or len(scales) == len(size), f"scales {scales} must have {len(size)} entries")
    require(mode in MODES, f"mode {mode!r} must be one of {', '.join(MODES)}")
    require(mode not in ("bilinear", "bicubic") or len(size) == 2, f"mode {mode!r} needs two spatial dimensions")
    require(not (align_corners and mode.startswith("nearest")), f"mode {mode!r} has no align_corners")
    require(all(not isinstance(s, int) or s > 0 for s in (*x.shape[2:], *size)), "spatial sizes must be positive")
