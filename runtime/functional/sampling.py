"""Sampling of images at points between pixels. See also `regions`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.tensor import from_array
from ..ir.dims import product
from ..ops import comparison, elementwise, indexing, linear, rounding, shaping, slicing
from .arguments import integers
from .operands import require_floating, require_one_dtype
from .public_op import Primitive, public_op


@public_op(primitive=Primitive("AffineGrid", init_args=("align_corners",)))
def affine_grid(theta: Any, size: Any, align_corners: bool = False) -> Any:
    """Sampling points for affine transformations of images, like torch's `affine_grid`.

    Args:
        theta: (N, 2, 3), or (N, 3, 4) for volumes.
        size: the shape of the images, (N, C, H, W) or (N, C, D, H, W).
        align_corners: whether -1 and 1 are the centres of the corner pixels, or their outer edges.

    Returns:
        (N, H, W, 2) or (N, D, H, W, 3), x first: coordinates from -1 to 1, as `grid_sample` takes them.

    Raises:
        ValueError: the shapes don't fit.
    """
    maps = require_floating(theta, "theta", of="affine_grid")
    sizes = integers(size, "size", of="affine_grid")
    spatial = sizes[2:]
    if maps.ndim != 3 or len(spatial) not in (2, 3) or maps.shape != (sizes[0], len(spatial), len(spatial) + 1):
        raise ValueError(f"For 'affine_grid', 'theta' {tuple(maps.shape)} doesn't fit 'size' {sizes}")
    lines = []
    for count in spatial:
        line = np.linspace(-1, 1, count) if count > 1 else np.zeros(1)
        lines.append(line if align_corners else line * (count - 1) / count)
    points = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(spatial)], -1)
    base = from_array(points.reshape(-1, len(spatial) + 1).astype(maps.dtype))
    grid = linear.matmul(base, shaping.transpose(maps, permutation=(0, 2, 1)))
    return shaping.reshape(grid, shape=(sizes[0], *spatial, len(spatial)))


@public_op()
def grid_sample(
    input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Any:
    """Sample images at the points of a grid, like torch's `grid_sample`.

    Args:
        input: (N, C, H, W) or (N, C, D, H, W), floating-point.
        grid: (N, *out, 2) or (N, *out, 3): coordinates from -1 to 1, x first. `out` has as many axes as an image.
        mode: "bilinear" (trilinear for volumes) or "nearest".
        padding_mode: the values outside of an image: "zeros", its "border", or its "reflection".
        align_corners: whether -1 and 1 are the centres of the corner pixels, or their outer edges.

    Returns:
        (N, C, *out).

    Raises:
        ValueError: a mode is unknown, or the shapes don't fit.
    """
    of = "grid_sample"
    x, points = require_floating(input, of=of), require_floating(grid, "grid", of=of)
    require_one_dtype(x, points, of=of)
    checks.one_of(mode, "mode", ("bilinear", "nearest"), of=of)
    checks.one_of(padding_mode, "padding_mode", ("zeros", "border", "reflection"), of=of)
    count = x.ndim - 2
    if count not in (2, 3) or points.ndim != x.ndim or points.shape[0] != x.shape[0] or points.shape[-1] != count:
        raise ValueError(f"For '{of}', 'grid' {tuple(points.shape)} doesn't fit 'input' {tuple(x.shape)}")
    sizes = x.shape[2:]
    out = tuple(points.shape[1:-1])
    flat = shaping.reshape(points, shape=(points.shape[0], product(out), count))
    places = []
    for axis, size in enumerate(sizes):
        at = slicing.slice(flat, starts=(count - 1 - axis,), stops=(count - axis,), steps=(1,), axes=(2,))
        at = shaping.reshape(at, shape=tuple(flat.shape[:2]))
        position = (at + 1.0) * ((size - 1) / 2) if align_corners else ((at + 1.0) * float(size) - 1.0) / 2
        if padding_mode == "reflection":
            position = _reflect(position, size, bool(align_corners))
        if padding_mode != "zeros":
            position = elementwise.clamp(position, minimum=0, maximum=size - 1)
        near = comparison.logical_and(comparison.greater(position, -1.0), comparison.less(position, float(size)))
        away = -2.0 if padding_mode == "zeros" else size - 1.0  # for NaN
        position = elementwise.where(near, position, np.asarray(away, position.dtype))
        places.append(rounding.round(position) if mode == "nearest" else position)
    values = interpolate_at(x, places, nearest=mode == "nearest")
    return shaping.reshape(values, shape=(x.shape[0], x.shape[1], *out))


@public_op(primitive=Primitive("GridSampler2D", init_args=("interpolation_mode", "padding_mode", "align_corners")))
def _grid_sampler_2d(
    input_x: Any, grid: Any, interpolation_mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """`grid_sample` of images."""
    return grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)


@public_op(primitive=Primitive("GridSampler3D", init_args=("interpolation_mode", "padding_mode", "align_corners")))
def _grid_sampler_3d(
    input_x: Any, grid: Any, interpolation_mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: bool = False,
) -> Any:  # fmt: skip
    """`grid_sample` of volumes."""
    return grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)


def _reflect(position: Any, size: int, align_corners: bool) -> Any:
    """Reflect positions outside of the image at the corner pixels' centres, or at their outer edges, repeatedly."""
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if span == 0:
        return position * 0.0
    away = elementwise.abs(position - low)
    turns = rounding.floor(away / span)
    rest = away - turns * span
    odd = comparison.equal(rounding.remainder(turns, turns * 0 + 2.0), turns * 0 + 1.0)
    return elementwise.where(odd, span - rest, rest) + low


def interpolate_at(x: Any, places: list[Any], *, nearest: bool) -> Any:
    """Interpolate x (N, C, *sizes) at positions (N, count) for each spatial axis: (N, C, count); zeros outside."""
    sizes = x.shape[2:]
    rows = shaping.reshape(x, shape=(x.shape[0], x.shape[1], product(sizes)))
    lows = [rounding.floor(position) for position in places]
    total = None
    for corner in range(1 if nearest else 2 ** len(places)):
        index: Any = 0
        weight: Any = None
        for axis, (position, low, size) in enumerate(zip(places, lows, sizes, strict=True)):
            step = corner >> axis & 1
            at = position if nearest else low + float(step)
            inside = comparison.logical_and(
                comparison.greater_equal(at, at * 0), comparison.less(at, at * 0 + float(size))
            )
            share = elementwise.cast(inside, dtype=x.dtype)
            if not nearest:
                share = share * (position - low if step else 1.0 - (position - low))
            weight = share if weight is None else weight * share
            usable = elementwise.cast(elementwise.clamp(at, minimum=0, maximum=size - 1), dtype=np.dtype(np.int64))
            index = usable + index * size
        picks = shaping.expand(
            shaping.reshape(index, shape=(index.shape[0], 1, index.shape[1])), shape=(*rows.shape[:2], index.shape[1])
        )
        part = indexing.gather(rows, picks, axis=2) * shaping.reshape(
            weight, shape=(weight.shape[0], 1, weight.shape[1])
        )
        total = part if total is None else total + part
    return total
