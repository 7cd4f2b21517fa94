"""ATen upsampling and the shuffles between channels and pixels."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim
from ....runtime.ops import resize as ops
from ....runtime.ops import shaping
from ....runtime.tracing import Traced
from ..table import Context, Unsupported, aten


def _enter(name: str, mode: str, *, has_corners: bool) -> None:
    """Enter both overloads of an upsampling: scales in a list (`vec`) or one by one (`default`); None: by the sizes."""

    def default(context: Context, self: Traced, output_size: Any, *options: Any) -> Any:
        """upsample_bilinear2d(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float?
        scales_w=None) -> Tensor
        """
        align_corners = options[0] if has_corners else False
        return _resize(context, self, align_corners, options[1:] if has_corners else options)

    def vec(context: Context, input: Traced, output_size: Any, *options: Any) -> Any:
        """upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
        Tensor
        """
        align_corners = options[0] if has_corners else False
        return _resize(context, input, align_corners, options[-1] or ())

    def _resize(context: Context, x: Traced, align_corners: bool, scales: Any) -> Any:
        size = context.shape[2:]
        if name == "upsample_nearest2d":
            scales = [_used_by_nearest2d(*of_axis) for of_axis in zip(x.shape[2:], size, scales, strict=False)]
        known = tuple(scales) if any(scale is not None for scale in scales) else None
        return ops.resize(x, size=size, mode=mode, align_corners=align_corners, scales=known)

    aten(f"aten.{name}.default")(default)
    aten(f"aten.{name}.vec")(vec)


def _used_by_nearest2d(old: Dim, new: Dim, scale: float | None) -> float | None:
    """The scale along an axis: ATen's kernel for images ignores the given one where the size stays or doubles."""
    if scale is None or new not in (old, old * 2):
        return scale
    return 1.0 if new == old else 2.0


for _dimensions in (1, 2, 3):
    _enter(f"upsample_nearest{_dimensions}d", "nearest", has_corners=False)
    _enter(f"_upsample_nearest_exact{_dimensions}d", "nearest-exact", has_corners=False)
_enter("upsample_linear1d", "linear", has_corners=True)
_enter("upsample_bilinear2d", "bilinear", has_corners=True)
_enter("upsample_trilinear3d", "linear", has_corners=True)
_enter("upsample_bicubic2d", "bicubic", has_corners=True)


@aten("aten._upsample_bilinear2d_aa.vec", "aten._upsample_bicubic2d_aa.vec")
def upsample_antialiased(context: Context, *operands: Any) -> Any:
    """_upsample_bilinear2d_aa.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) ->
    Tensor
    """
    raise Unsupported("antialias=True")


@aten("aten.pixel_shuffle.default")
def pixel_shuffle(context: Context, self: Traced, upscale_factor: int) -> Any:
    """pixel_shuffle(Tensor self, int upscale_factor) -> Tensor"""
    *batch, channels, height, width = self.shape
    r, n = upscale_factor, len(batch)
    split = shaping.reshape(self, shape=(*batch, channels // (r * r), r, r, height, width))
    interleaved = shaping.transpose(split, permutation=(*range(n + 1), n + 3, n + 1, n + 4, n + 2))
    return shaping.reshape(interleaved, shape=context.shape)


@aten("aten.pixel_unshuffle.default")
def pixel_unshuffle(context: Context, self: Traced, downscale_factor: int) -> Any:
    """pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor"""
    *batch, channels, height, width = self.shape
    r, n = downscale_factor, len(batch)
    split = shaping.reshape(self, shape=(*batch, channels, height // r, r, width // r, r))
    gathered = shaping.transpose(split, permutation=(*range(n + 1), n + 2, n + 4, n + 1, n + 3))
    return shaping.reshape(gathered, shape=context.shape)


@aten("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(context: Context, self: Traced, groups: int) -> Any:
    """channel_shuffle(Tensor self, SymInt groups) -> Tensor"""
    batch, channels, *spatial = self.shape
    split = shaping.reshape(self, shape=(batch, groups, channels // groups, *spatial))
    swapped = shaping.transpose(split, permutation=(0, 2, 1, *range(3, 3 + len(spatial))))
    return shaping.reshape(swapped, shape=context.shape)
