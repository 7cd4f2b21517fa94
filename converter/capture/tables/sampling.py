"""ATen's sampling of images and volumes at computed coordinates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim, product
from ....runtime.ir.types import INT64, at_least_float32
from ....runtime.ops import comparison, elementwise, indexing, rounding, shaping
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .slicing import part
from .table import Context, aten, cast, operands

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
INTERPOLATIONS = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
"""The names that `torch.nn.functional.grid_sample` has for these numbers."""
COEFFICIENT = -0.75
"""The number of ATen's cubic kernel: Keys, "Cubic convolution interpolation for digital image processing" (1981)."""

Number = Callable[[Dim], Any]
"""A size as a number that tensors of the computation can be combined with."""


@aten("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sampler(
    context: Context,
    input: SymbolicTensor,
    grid: SymbolicTensor,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
) -> Any:
    """grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners)

    `grid_sampler_3d` is the same for volumes.
    """
    if interpolation_mode == BICUBIC and input.ndim > 4:
        raise Unsupported("the mode bicubic")
    dtype = at_least_float32(input.dtype)

    def number(size: Dim) -> Any:
        return float(size) if isinstance(size, int) else operands(context, dtype, size)[0]

    samples = grid_sample(
        cast(input, dtype), cast(grid, dtype), interpolation_mode, padding_mode, align_corners, number=number
    )
    return cast(samples, context.dtype)


def grid_sample(
    input: SymbolicTensor, grid: SymbolicTensor, interpolation: int, padding: int, align_corners: bool, *,
    number: Number = float,
) -> Any:  # fmt: skip
    """Sample images or volumes at the points of a grid, as ATen's GridSampler.cpp does.

    Args:
        input: (batch, channels, *sizes), of 2 or 3 sizes.
        grid: (batch, *places, 2 or 3): coordinates between -1 and 1, the width first.
        interpolation: `BILINEAR`, `NEAREST`, or `BICUBIC` for images.
        padding: what is outside: `ZEROS`, the `BORDER`, or a `REFLECTION`.
        align_corners: whether -1 and 1 are the centres of the corner elements, or their outer edges.
        number: returns a size as a number.

    Returns:
        (batch, channels, *places).
    """
    rank, (batch, *places, _) = input.ndim - 2, grid.shape
    points, sizes = (batch, product(places)), input.shape[2:]
    axes = []
    for i, size in enumerate(sizes):
        x = shaping.reshape(part(grid, grid.ndim - 1, rank - 1 - i, rank - i), shape=points)
        x = _spread(x, number(size), align_corners)
        axes.append(x if interpolation == BICUBIC else _bounded(x, number(size), padding, align_corners))
    flat = shaping.reshape(input, shape=(*input.shape[:2], product(sizes)))
    total = None
    for taps in itertools.product(*(list(_taps(x, interpolation)) for x in axes)):
        weight: Any = None
        at = []
        for (coordinate, share), size in zip(taps, sizes, strict=True):
            at.append(
                _bounded(coordinate, number(size), padding, align_corners) if interpolation == BICUBIC else coordinate
            )
            weight = share if weight is None else weight * share
        term = _read(flat, at, sizes, number)
        term = term if weight is None else term * shaping.reshape(weight, shape=(points[0], 1, points[1]))
        total = term if total is None else total + term
    return shaping.reshape(total, shape=(*input.shape[:2], *places))


def _taps(x: Any, interpolation: int) -> Iterator[tuple[Any, Any]]:
    """Yield the integer coordinates around a coordinate, with their weights; None for the weight 1."""
    if interpolation == NEAREST:
        yield rounding.round(x), None
        return
    low = rounding.floor(x)
    share = x - low
    if interpolation == BILINEAR:
        yield low, 1.0 - share
        yield low + 1.0, share
        return
    a = COEFFICIENT
    for step in (-1, 0, 1, 2):
        d = share + 1.0 if step == -1 else share if step == 0 else 1.0 - share if step == 1 else 2.0 - share
        near = ((a + 2) * d - (a + 3)) * d * d + 1.0
        yield low + float(step), near if step in (0, 1) else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a


def _spread(x: Any, size: Any, align_corners: bool) -> Any:
    """A coordinate between -1 and 1 in units of elements."""
    return (x + 1.0) * ((size - 1.0) * 0.5) if align_corners else ((x + 1.0) * size - 1.0) * 0.5


def _bounded(x: Any, size: Any, padding: int, align_corners: bool) -> Any:
    """A coordinate in units of elements, moved into the image if the padding requires it."""
    if padding == REFLECTION:
        low, span = (0.0, size - 1.0) if align_corners else (-0.5, size)
        x = x * 0.0 if isinstance(span, float) and span == 0.0 else _reflect(x, low, span)
    if padding != ZEROS:
        return _clip(x, size - 1.0)
    near = comparison.logical_and(comparison.greater(x, -1.0), comparison.less(x, size))
    return elementwise.where(near, x, _number_like(x, -2.0))  # NaN and infinities too


def _number_like(x: Any, value: Any) -> Any:
    return value if isinstance(value, SymbolicTensor) else np.asarray(value, x.dtype)


def _clip(x: Any, last: Any) -> Any:
    """Clip to 0 and `last`, with the gradient 0 at these; NaN becomes `last`: ATen clip_coordinates_set_grad."""
    low, high = _number_like(x, 0.0), _number_like(x, last)
    above = elementwise.where(comparison.less_equal(x, low), low, x)
    return elementwise.where(comparison.less(above, high), above, high)


def _reflect(x: Any, low: float, span: Any) -> Any:
    """Reflect, repeatedly, at both ends of the interval from `low` to `low + span`."""
    distance = elementwise.abs(x - low)
    turns = rounding.floor(distance / span)
    rest = distance - turns * span
    odd = comparison.greater(turns - rounding.floor(turns * 0.5) * 2.0, 0.5)
    return elementwise.where(odd, span - rest, rest) + low


def _read(flat: Any, at: list[Any], sizes: Any, number: Number) -> Any:
    """The elements at integer coordinates, 0 outside: (batch, channels, places)."""
    index: Any = None
    inside: Any = None
    for x, size in zip(at, sizes, strict=True):
        clamped = elementwise.maximum(elementwise.minimum(x, _number_like(x, number(size) - 1.0)), _number_like(x, 0.0))
        is_inside = comparison.equal(clamped, x)
        inside = is_inside if inside is None else comparison.logical_and(inside, is_inside)
        coordinate = cast(clamped, INT64)
        scale = size if isinstance(size, int) else cast(number(size), INT64)
        index = coordinate if index is None else index * scale + coordinate
    batch, channels, _ = flat.shape
    shape = (batch, channels, index.shape[1])
    index = shaping.expand(shaping.reshape(index, shape=(batch, 1, index.shape[1])), shape=shape)
    elements = indexing.gather(flat, index, axis=2)
    mask = cast(shaping.reshape(inside, shape=(batch, 1, inside.shape[1])), elements.dtype)
    return elements * mask
