"""Resizing images and other signals by interpolation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..checks import one_of
from ..common.tensor import from_array
from ..ops import adaptive_pooling, indexing, resize
from .arguments import integers, known_size
from .operands import require_floating
from .public_op import Primitive, public_op

_RANKS = {
    "nearest": (3, 4, 5),
    "nearest-exact": (3, 4, 5),
    "linear": (3,),
    "bilinear": (4,),
    "trilinear": (5,),
    "bicubic": (4,),
    "area": (3, 4, 5),
}
"""The ranks of the operands of each mode: batch, channels and one to three spatial dimensions."""

_ALIGNABLE = ("linear", "bilinear", "trilinear", "bicubic")


@public_op(alias="upsample")
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
) -> Any:
    """Resize `input` by interpolation along its spatial axes, like torch's `interpolate`.

    Args:
        input: (batch, channels, *spatial), floating-point.
        size: the new spatial sizes, or one for all.
        scale_factor: the factor of the sizes, instead of `size`: a number, or one for each spatial axis.
        mode: "nearest", "nearest-exact" or "area" for one to three spatial dimensions, "linear" for one, "bilinear" or
            "bicubic" for two, "trilinear" for three.
        align_corners: for the linear and cubic modes, whether the centres of the corner elements stay at the same
            positions; otherwise the outer edges do.
        recompute_scale_factor: whether to compute positions from the new sizes rather than from `scale_factor`.

    Raises:
        ValueError: both or neither of `size` and `scale_factor` are given, they don't fit the dimensions, `mode` is
            unknown or doesn't fit the dimensions, or `align_corners` is given for a mode without it.
    """
    x = require_floating(input, of="interpolate")
    one_of(mode, "mode", tuple(_RANKS), of="interpolate")
    if x.ndim not in _RANKS[mode]:
        raise ValueError(f"For 'interpolate', 'mode' {mode!r} needs {_RANKS[mode]} dimensions, but got {x.ndim}")
    if align_corners is not None and mode not in _ALIGNABLE:
        raise ValueError(f"For 'interpolate', 'align_corners' can't be set for mode {mode!r}, but got {align_corners}")
    spatial = x.ndim - 2
    if (size is None) == (scale_factor is None):
        which = "neither" if size is None else "both"
        raise ValueError(f"For 'interpolate', one of 'size' and 'scale_factor' must be given, but got {which}")
    scales: tuple[float, ...] | None = None
    if size is not None:
        if recompute_scale_factor:
            raise ValueError("For 'interpolate', 'recompute_scale_factor' needs 'scale_factor', but got 'size'")
        sizes = integers(size, "size", of="interpolate")
        sizes = sizes * spatial if len(sizes) == 1 else sizes
    else:
        factors = scale_factor if isinstance(scale_factor, (tuple, list)) else (scale_factor,) * spatial
        scales = tuple(float(factor) for factor in factors)
        olds = (known_size(n, "For 'interpolate', a spatial size to be scaled") for n in x.shape[2:])
        sizes = tuple(math.floor(n * factor) for n, factor in zip(olds, scales, strict=False))
        if recompute_scale_factor:
            scales = None
    if len(sizes) != spatial or (scales is not None and len(scales) != spatial):
        raise ValueError(
            f"For 'interpolate', needed {spatial} spatial sizes or factors, but got {size or scale_factor}"
        )
    if mode == "area":
        return adaptive_pooling.adaptive_avg_pool(x, output_size=sizes)
    kind = "linear" if mode == "trilinear" else mode
    return resize.resize(x, size=sizes, mode=kind, align_corners=bool(align_corners), scales=scales)


# ---- operator objects ----


def _image(image: Any, of: str) -> Any:
    x = require_floating(image, "image", of=of)
    if x.ndim != 4:
        raise ValueError(f"For '{of}', the image must have 4 dimensions (batch, channels, h, w), but got {x.ndim}")
    return x


def _two_sizes(size: Any, of: str) -> tuple[Any, ...]:
    sizes = integers(size, "size", of=of)
    if len(sizes) != 2:
        raise ValueError(f"For '{of}', 'size' must be (height, width), but got {size}")
    return sizes


def _check_flags(align_corners: bool, half_pixel_centers: bool, of: str) -> None:
    if align_corners and half_pixel_centers:
        raise ValueError(f"For '{of}', 'align_corners' and 'half_pixel_centers' can't both be True")


@public_op(primitive=Primitive("ResizeBilinearV2", init_args=("align_corners", "half_pixel_centers")))
def resize_bilinear(image: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
    """Resize images (batch, channels, h, w) by bilinear interpolation.

    Position j of the result corresponds to position j * old / new of the image; with `half_pixel_centers`, to
    (j + 0.5) * old / new - 0.5, as in `interpolate`; with `align_corners`, to j * (old - 1) / (new - 1).

    Raises:
        ValueError: both flags are set, or the dimensions don't fit.
    """
    return _resize(image, size, "bilinear", align_corners, half_pixel_centers, of="ResizeBilinearV2")


@public_op(primitive=Primitive("ResizeBicubic", init_args=("align_corners", "half_pixel_centers")))
def resize_bicubic(image: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
    """Resize images (batch, channels, h, w) by bicubic interpolation; flags are those of `resize_bilinear`."""
    return _resize(image, size, "bicubic", align_corners, half_pixel_centers, of="ResizeBicubic")


def _resize(image: Any, size: Any, mode: str, align_corners: bool, half_pixel_centers: bool, *, of: str) -> Any:
    _check_flags(align_corners, half_pixel_centers, of)
    return resize.resize(
        _image(image, of),
        size=_two_sizes(size, of),
        mode=mode,
        align_corners=align_corners,
        half_pixel=half_pixel_centers,
    )


@public_op(
    primitive=(
        Primitive("ResizeNearestNeighborV2", init_args=("align_corners", "half_pixel_centers")),
        Primitive("ResizeNearestNeighbor", init_args=("size", "align_corners", "half_pixel_centers")),
    )
)
def resize_nearest(image: Any, size: Any, align_corners: bool = False, half_pixel_centers: bool = False) -> Any:
    """Resize images (batch, channels, h, w) by nearest-neighbour interpolation.

    Positions are those of `resize_bilinear`, rounded down. With `half_pixel_centers` they are (j + 0.5) * old / new;
    with `align_corners` they are rounded to the nearest integer instead.
    """
    of = "ResizeNearestNeighbor"
    _check_flags(align_corners, half_pixel_centers, of)
    x, sizes = _image(image, of), _two_sizes(size, of)
    if not align_corners:
        return resize.resize(x, size=sizes, mode="nearest-exact" if half_pixel_centers else "nearest")
    for axis, new in zip((2, 3), sizes, strict=True):
        old = known_size(x.shape[axis], f"For '{of}', a spatial size")
        ratio = np.float32((old - 1) / (new - 1) if new > 1 else 0)
        nearest = np.floor(np.arange(new, dtype=np.float32) * ratio + np.float32(0.5)).astype(np.int64)
        x = indexing.take(x, from_array(np.minimum(nearest, old - 1)), axis=axis)
    return x
