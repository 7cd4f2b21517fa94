"""ATen's sampling of volumes at computed coordinates; for images, torch's own decomposition is used."""

from __future__ import annotations

import itertools
from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, elementwise, indexing, rounding, shaping
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .slicing import part
from .table import Context, aten, cast, operands

BILINEAR, NEAREST = 0, 1
ZEROS, BORDER, REFLECTION = 0, 1, 2


@aten("aten.grid_sampler_3d.default")
def grid_sampler_3d(
    context: Context,
    input: SymbolicTensor,
    grid: SymbolicTensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Any:
    """grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)

    `input` is (batch, channels, depth, height, width); `grid` (batch, *places, 3) has coordinates between -1 and 1,
    the width first.
    """
    sizes = [size for size in input.shape[2:] if isinstance(size, int)]
    if len(sizes) < 3:
        raise Unsupported("symbolic sizes")
    if interpolation_mode not in (BILINEAR, NEAREST):
        raise Unsupported("the mode bicubic")
    places = (grid.shape[0], product(grid.shape[1:4]))
    axes = [
        _position(
            context, shaping.reshape(part(grid, 4, 2 - i, 3 - i), shape=places), size, padding_mode, align_corners
        )
        for i, size in enumerate(sizes)
    ]
    flat = shaping.reshape(input, shape=(*input.shape[:2], product(sizes)))
    if interpolation_mode == NEAREST:
        total = _read(flat, [rounding.round(x) for x in axes], sizes, padding_mode)
    else:
        low = [rounding.floor(x) for x in axes]
        total = None
        for corner in itertools.product((0, 1), repeat=3):
            at = [x + float(step) for x, step in zip(low, corner, strict=True)]
            weight: Any = 1.0
            for x, floor, step in zip(axes, low, corner, strict=True):
                share = x - floor
                weight = (share if step else 1.0 - share) * weight
            term = _read(flat, at, sizes, padding_mode) * shaping.reshape(weight, shape=(places[0], 1, places[1]))
            total = term if total is None else total + term
    return shaping.reshape(total, shape=context.shape)


def _position(context: Context, x: Any, size: int, padding_mode: int, align_corners: bool) -> Any:
    """A coordinate between -1 and 1 in units of elements, moved into the volume if the padding mode requires it."""
    x = (x + 1.0) * (0.5 * (size - 1)) if align_corners else ((x + 1.0) * float(size) - 1.0) * 0.5
    if padding_mode == REFLECTION:
        low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
        x = _reflect(x, low, span) if span else x * 0.0
    if padding_mode != ZEROS:
        return _clip(context, x, float(size - 1))
    near = comparison.logical_and(comparison.greater(x, -1.0), comparison.less(x, float(size)))
    return elementwise.where(near, x, *operands(context, x.dtype, -2.0))  # NaN and infinities too


def _clip(context: Context, x: Any, last: float) -> Any:
    """Clip to 0 and `last`, with the gradient 0 at these; NaN becomes `last`: ATen clip_coordinates_set_grad."""
    low, high = operands(context, x.dtype, 0.0, last)
    above = elementwise.where(comparison.less_equal(x, low), low, x)
    return elementwise.where(comparison.less(above, high), above, high)


def _reflect(x: Any, low: float, span: float) -> Any:
    """Reflect, repeatedly, at both ends of the interval from `low` to `low + span`."""
    distance = elementwise.abs(x - low)
    turns = rounding.floor(distance / span)
    rest = distance - turns * span
    odd = comparison.greater(turns - rounding.floor(turns * 0.5) * 2.0, 0.5)
    return elementwise.where(odd, span - rest, rest) + low


def _read(flat: Any, at: list[Any], sizes: Any, padding_mode: int) -> Any:
    """The elements at integer coordinates, 0 outside: (batch, channels, places)."""
    index: Any = None
    inside: Any = None
    for x, size in zip(at, sizes, strict=True):
        clamped = elementwise.clamp(x, minimum=0.0, maximum=float(size - 1))
        is_inside = comparison.equal(clamped, x)
        inside = is_inside if inside is None else comparison.logical_and(inside, is_inside)
        place = cast(clamped, INT64)
        index = place if index is None else index * size + place
    batch, channels, _ = flat.shape
    shape = (batch, channels, index.shape[1])
    index = shaping.expand(shaping.reshape(index, shape=(batch, 1, index.shape[1])), shape=shape)
    found = indexing.gather(flat, index, axis=2)
    mask = cast(shaping.reshape(inside, shape=(batch, 1, inside.shape[1])), found.dtype)
    return found * mask
