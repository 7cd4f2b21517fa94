"""ATen upsampling, and shuffles between channels and pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import FLOAT64, INT64, at_least_float32, is_floating
from ....runtime.ops import comparison, creation, elementwise, linear, reduction, shaping
from ....runtime.ops import resize as ops
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .table import Context, aten, cast, operands


def _register(name: str, mode: str, *, has_corners: bool) -> None:
    """Register both overloads of an upsampling, with scales in a list (`vec`) or one by one (`default`).

    A scale of None is the ratio of the sizes.
    """

    def default(context: Context, self: SymbolicTensor, output_size: Any, *options: Any) -> Any:
        """upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
        scales_w=None) -> Tensor
        """
        align_corners = options[0] if has_corners else False
        return _resize(context, self, align_corners, options[1:] if has_corners else options)

    def vec(context: Context, input: SymbolicTensor, output_size: Any, *options: Any) -> Any:
        """upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
        Tensor
        """
        align_corners = options[0] if has_corners else False
        return _resize(context, input, align_corners, options[-1] or ())

    def _resize(context: Context, x: SymbolicTensor, align_corners: bool, scales: Any) -> Any:
        size = context.shape[2:]
        if name == "upsample_nearest2d":
            scales = [_effective_scale(*of_axis) for of_axis in zip(x.shape[2:], size, scales, strict=False)]
        given_scales = tuple(scales) if any(scale is not None for scale in scales) else None
        return ops.resize(x, size=size, mode=mode, align_corners=align_corners, scales=given_scales)

    aten(f"aten.{name}.default")(default)
    aten(f"aten.{name}.vec")(vec)


def _effective_scale(old: Dim, new: Dim, scale: float | None) -> float | None:
    """The scale along an axis: ATen's kernel for images ignores a scale if the size stays the same or doubles."""
    if scale is None or new not in (old, old * 2):
        return scale
    return 1.0 if new == old else 2.0


for _dimensions in (1, 2, 3):
    _register(f"upsample_nearest{_dimensions}d", "nearest", has_corners=False)
    _register(f"_upsample_nearest_exact{_dimensions}d", "nearest-exact", has_corners=False)
_register("upsample_linear1d", "linear", has_corners=True)
_register("upsample_bilinear2d", "bilinear", has_corners=True)
_register("upsample_trilinear3d", "linear", has_corners=True)
_register("upsample_bicubic2d", "bicubic", has_corners=True)


# ---- antialiasing: the interpolation kernel is stretched where the image shrinks ----


def _register_antialiased(name: str, kernel: Callable[[Any], Any]) -> None:
    """Register both overloads of an antialiased upsampling; `kernel` returns the weights at non-negative distances."""

    def default(
        context: Context, self: SymbolicTensor, output_size: Any, align_corners: bool, scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Any:  # fmt: skip
        """_upsample_bilinear2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
        scales_w=None) -> Tensor
        """
        return _resize_antialiased(context, self, align_corners, (scales_h, scales_w), kernel)

    def vec(context: Context, input: SymbolicTensor, output_size: Any, align_corners: bool, scale_factors: Any) -> Any:
        """_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors)
        -> Tensor
        """
        return _resize_antialiased(context, input, align_corners, scale_factors or (None, None), kernel)

    aten(f"aten.{name}.default")(default)
    aten(f"aten.{name}.vec")(vec)


def _resize_antialiased(
    context: Context, x: SymbolicTensor, align_corners: bool, scales: Any, kernel: Callable[[Any], Any]
) -> Any:
    """Multiply each image by a matrix of weights for its rows and one for its columns."""
    if not is_floating(x.dtype):
        raise Unsupported(f"antialias=True of {x.dtype.name}, which ATen computes with integers")
    dtype, whole = at_least_float32(x.dtype), align_corners
    rows, columns = (
        None if new == old and (whole or scale in (None, 1.0)) else _weights(context, old, new, scale, whole, kernel)
        for old, new, scale in zip(x.shape[2:], context.shape[2:], scales, strict=True)
    )
    result = cast(x, dtype)
    if columns is not None:
        result = linear.matmul(result, cast(shaping.transpose(columns, permutation=(1, 0)), dtype))
    if rows is not None:
        result = linear.matmul(cast(rows, dtype), result)
    return cast(result, context.dtype)


def _weights(
    context: Context, old: Dim, new: Dim, scale: float | None, align_corners: bool, kernel: Callable[[Any], Any]
) -> Any:
    """The weights (new, old) of ATen's `_compute_indices_weights_aa` in float64; each row has the sum 1."""
    before, after = operands(context, FLOAT64, old, new)
    if align_corners:  # the only element of a size of 1 is at the start
        step = (before - 1.0) / elementwise.maximum(after - 1.0, 1.0) * elementwise.minimum(after - 1.0, 1.0)
    else:
        step = before / after if scale is None else operands(context, FLOAT64, 1.0 / scale)[0]
    to, of = (
        cast(context.builder.create(creation.arange, stop=size, dtype=INT64), FLOAT64) + 0.5 for size in (new, old)
    )
    centers = shaping.reshape(to * step, shape=(new, 1))
    weights = kernel(elementwise.abs(shaping.reshape(of, shape=(1, old)) - centers) / elementwise.maximum(step, 1.0))
    return weights / reduction.reduce_sum(weights, axes=(1,), keepdims=True)


def _triangle(distance: Any) -> Any:
    return elementwise.maximum(1.0 - distance, 0.0)


def _cubic(distance: Any) -> Any:
    """R. Keys, "Cubic convolution interpolation for digital image processing" (1981), with a = -1/2."""
    near = (1.5 * distance - 2.5) * distance * distance + 1.0
    far = ((-0.5 * distance + 2.5) * distance - 4.0) * distance + 2.0
    outside = elementwise.where(comparison.less(distance, 2.0), far, distance * 0.0)
    return elementwise.where(comparison.less(distance, 1.0), near, outside)


_register_antialiased("_upsample_bilinear2d_aa", _triangle)
_register_antialiased("_upsample_bicubic2d_aa", _cubic)


# ---- shuffles between channels and pixels ----


@aten("aten.pixel_shuffle.default")
def pixel_shuffle(context: Context, self: SymbolicTensor, upscale_factor: int) -> Any:
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    *batch, channels, height, width = self.shape
    r, n = upscale_factor, len(batch)
    split = shaping.reshape(self, shape=(*batch, channels // (r * r), r, r, height, width))
    interleaved = shaping.transpose(split, permutation=(*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return shaping.reshape(interleaved, shape=context.shape)


@aten("aten.pixel_unshuffle.default")
def pixel_unshuffle(context: Context, self: SymbolicTensor, downscale_factor: int) -> Any:
    """pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    *batch, channels, height, width = self.shape
    r, n = downscale_factor, len(batch)
    split = shaping.reshape(self, shape=(*batch, channels, height // r, r, width // r, r))
    permuted = shaping.transpose(split, permutation=(*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return shaping.reshape(permuted, shape=context.shape)


@aten("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(context: Context, self: SymbolicTensor, groups: int) -> Any:
    """channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    batch, channels, *spatial = self.shape
    split = shaping.reshape(self, shape=(batch, groups, channels // groups, *spatial))
    swapped = shaping.transpose(split, permutation=(0, 2, 1, *range(3, 3 + len(spatial))))
    return shaping.reshape(swapped, shape=context.shape)
