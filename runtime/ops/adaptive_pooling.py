"""Pooling over a given number of bins (adaptive pooling) in one to three spatial dimensions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from ..errors import ConversionError
from ..ir.dims import Dim, product
from ..ir.types import FLOAT64, INT64, is_floating
from ..traits import Traits
from . import max_pooling
from .reduction_onnx import MANY, reduce_onnx
from .registry import Array, OnnxGraph, Tensor, Type, operator, require
from .resize import interpolate_transpose, interpolation_matrix, onnx_product_along
from .windows import Sizes


@operator
def adaptive_avg_pool(x: Tensor, *, output_size: tuple[Dim, ...]) -> Tensor:
    """The means of a given number of bins: ATen `adaptive_avg_pool*d`.

    Bin i of n along an axis covers positions from `floor(i * size / n)` to `ceil((i + 1) * size / n)`, exclusive. ONNX
    GlobalAveragePool-1 for one bin, AveragePool-11 for equal ones, else a product with a matrix per axis.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions; floating-point.
        output_size: number of bins per spatial dimension.

    Returns:
        `(batch, channels, *output_size)`.
    """


adaptive_avg_pool.traits = Traits(costly=True)


@adaptive_avg_pool.infer
def _(x: Type, *, output_size: tuple[Dim, ...]) -> Type:
    _check_adaptive(x, output_size)
    require(is_floating(x.dtype), f"needed a floating-point tensor, given {x.dtype.name}")
    return x.with_shape((*x.shape[:2], *output_size))


@adaptive_avg_pool.kernel
def _(x: Array, *, output_size: Sizes) -> Array:
    for axis, bins in enumerate(output_size, start=2):
        starts, ends = _bins(x.shape[axis], bins)
        indices = _bin_positions(starts, ends)
        inside = starts[:, None] + np.arange(indices.shape[1]) < ends[:, None]
        after = (1,) * (x.ndim - axis - 1)
        total = np.sum(x.take(indices, axis), axis=axis + 1, where=inside.reshape(*inside.shape, *after))
        x = total / (ends - starts).astype(x.dtype).reshape(-1, *after)
    return x


@adaptive_avg_pool.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, output_size: tuple[Dim, ...]) -> Any:
    return adaptive_avg_pool_gradient(g, size=x.shape[2:])


@adaptive_avg_pool.onnx
def _(graph: OnnxGraph, x: str, *, output_size: tuple[Dim, ...]) -> str:
    kind = graph.type(x)
    if all(bins == 1 for bins in output_size):
        count = product(kind.shape[2:])
        many = isinstance(count, int) and count >= MANY  # GlobalAveragePool adds them one by one
        if many or kind.dtype == FLOAT64:  # ONNX Runtime's has no float64 kernel on the CPU
            return reduce_onnx(graph, "ReduceMean", x, tuple(range(2, kind.rank)), True)
        return str(graph.op("GlobalAveragePool", x))
    sizes, bins = _require_fixed_sizes("adaptive_avg_pool", kind.shape[2:], output_size)
    if kind.dtype != FLOAT64 and all(size % n == 0 for size, n in zip(sizes, bins, strict=True)):
        kernel = tuple(size // n for size, n in zip(sizes, bins, strict=True))
        return str(graph.op("AveragePool", x, kernel_shape=kernel, strides=kernel))
    for axis, (size, n) in enumerate(zip(sizes, bins, strict=True), start=2):
        x = onnx_product_along(
            graph, x, axis, kind.rank, interpolation_matrix(*_averaging_taps(size, n), size=size), kind.dtype
        )
    return x


@operator
def adaptive_avg_pool_gradient(g: Tensor, *, size: tuple[Dim, ...]) -> Tensor:
    """The gradient of `adaptive_avg_pool`: its transpose. ATen `_adaptive_avg_pool*d_backward`.

    Args:
        g: `(batch, channels, *bins)`, cotangent of the means.
        size: spatial sizes of the input of the pooling.

    Returns:
        `(batch, channels, *size)`.
    """


adaptive_avg_pool_gradient.traits = Traits(costly=True)


@adaptive_avg_pool_gradient.infer
def _(g: Type, *, size: tuple[Dim, ...]) -> Type:
    _check_adaptive(g, size)
    return g.with_shape((*g.shape[:2], *size))


@adaptive_avg_pool_gradient.kernel
def _(g: Array, *, size: Sizes) -> Array:
    counts = g.shape[2:]
    if all(n % count == 0 for n, count in zip(size, counts, strict=True)):  # bins are apart
        widths = [n // count for n, count in zip(size, counts, strict=True)]
        shares = (g / g.dtype.type(prod(widths))).reshape(*g.shape[:2], *_in_pairs(counts, [1] * len(counts)))
        result = np.broadcast_to(shares, (*g.shape[:2], *_in_pairs(counts, widths)))
        return result.reshape(*g.shape[:2], *size)
    for axis, n in enumerate(size, start=2):
        indices, weights = _averaging_taps(n, g.shape[axis])
        g = interpolate_transpose(g, axis, indices, weights.astype(g.dtype), size=n)
    return g


@adaptive_avg_pool_gradient.vjp
def _(h: Tensor, y: Tensor, g: Tensor, *, size: tuple[Dim, ...]) -> Any:
    return adaptive_avg_pool(h, output_size=g.shape[2:])


@adaptive_avg_pool_gradient.onnx
def _(graph: OnnxGraph, g: str, *, size: tuple[Dim, ...]) -> str:
    kind = graph.type(g)
    if all(bins == 1 for bins in kind.shape[2:]):
        elements = graph.cast(graph.dims((product(size),)), kind.dtype)
        return str(graph.op("Expand", graph.op("Div", g, elements), graph.dims((*kind.shape[:2], *size))))
    sizes, bins = _require_fixed_sizes("adaptive_avg_pool_gradient", size, kind.shape[2:])
    for axis, (n, count) in enumerate(zip(sizes, bins, strict=True), start=2):
        g = onnx_product_along(
            graph, g, axis, kind.rank, interpolation_matrix(*_averaging_taps(n, count), size=n).T, kind.dtype
        )
    return g


@operator
def adaptive_max_pool(x: Tensor, *, output_size: tuple[Dim, ...]) -> tuple[Tensor, Tensor]:
    """The largest element of each of a given number of bins, and its position: ATen `adaptive_max_pool*d`.

    Bins are those of `adaptive_avg_pool`; ties and NaN are as in `max_pool`.

    Args:
        x: `(batch, channels, *spatial)`, one to three spatial dimensions.
        output_size: number of bins per spatial dimension.

    Returns:
        `(batch, channels, *output_size)`, and int64 positions in the flattened spatial dimensions of `x`.
    """


adaptive_max_pool.traits = Traits(ties="defined", exact=True, costly=True)


@adaptive_max_pool.infer
def _(x: Type, *, output_size: tuple[Dim, ...]) -> tuple[Type, Type]:
    _check_adaptive(x, output_size)
    values = x.with_shape((*x.shape[:2], *output_size))
    return values, values.with_dtype(INT64)


@adaptive_max_pool.kernel
def _(x: Array, *, output_size: Sizes) -> tuple[Array, Array]:
    members = _plane_bin_positions(x.shape[2:], output_size)
    candidates = x.reshape(*x.shape[:2], prod(x.shape[2:])).take(members, axis=2)
    chosen = candidates.argmax(axis=3)
    if is_floating(x.dtype):
        invalid = np.isnan(candidates)
        last = members.shape[1] - 1 - invalid[..., ::-1].argmax(axis=3)
        chosen = np.where(invalid.any(axis=3), last, chosen)
    values = np.take_along_axis(candidates, chosen[..., None], axis=3)
    indices = members[np.arange(len(members)), chosen]
    shape = (*x.shape[:2], *output_size)
    return values.reshape(shape), indices.reshape(shape)


@adaptive_max_pool.vjp
def _(g: tuple[Tensor, None], y: tuple[Tensor, Tensor], x: Tensor, **_: Any) -> Any:
    return max_pooling.max_pool_gradient(g[0], y[1], size=x.shape[2:])


@adaptive_max_pool.onnx
def _(graph: OnnxGraph, x: str, *, output_size: tuple[Dim, ...]) -> tuple[str, str]:
    kind = graph.type(x)
    sizes, bins = _require_fixed_sizes("adaptive_max_pool", kind.shape[2:], output_size)
    members = _plane_bin_positions(sizes, bins)
    planes = graph.op("Reshape", x, graph.dims((*kind.shape[:2], prod(sizes))))
    candidates = graph.op("Gather", planes, graph.constant(members, INT64), axis=2)
    chosen = graph.op("ArgMax", candidates, axis=3, keepdims=0)
    row_starts = graph.constant(np.arange(len(members)) * members.shape[1], INT64)
    positions = graph.op("Gather", graph.constant(members.reshape(-1), INT64), graph.op("Add", chosen, row_starts))
    values = graph.op("ReduceMax", candidates, graph.constant(np.array([3]), INT64), keepdims=0)
    shape = graph.dims((*kind.shape[:2], *bins))
    return graph.op("Reshape", values, shape), graph.op("Reshape", positions, shape)


def _check_adaptive(x: Type, output_size: tuple[Dim, ...]) -> None:
    require(3 <= x.rank <= 5, f"needed one to three spatial dimensions after (batch, channels), x has rank {x.rank}")
    require(len(output_size) == x.rank - 2, f"{len(output_size)} sizes given, x has {x.rank - 2} spatial dimensions")
    positive = all(not isinstance(size, int) or size > 0 for size in (*x.shape[2:], *output_size))
    require(positive, "spatial sizes must be positive")


def _bins(size: int, count: int) -> tuple[Array, Array]:
    """Return the start and the end (exclusive) of each of `count` bins of an axis."""
    places = np.arange(count)
    return places * size // count, -(-(places + 1) * size // count)


def _in_pairs(counts: Sequence[int], widths: Sequence[int]) -> Iterator[int]:
    """Return the sizes of an image with two axes for each of its own: bins, and places within them."""
    return itertools.chain.from_iterable(zip(counts, widths, strict=True))


def _bin_positions(starts: Array, ends: Array) -> Array:
    """Return the positions in each bin, `(bins, width)`; shorter bins repeat their last position."""
    width = int((ends - starts).max())
    members: Array = np.minimum(starts[:, None] + np.arange(width), ends[:, None] - 1)
    return members


def _plane_bin_positions(sizes: Sizes, bins: Sizes) -> Array:
    """Return the flattened positions in each bin of a plane, `(bins, width)`, in row-major order; some repeat."""
    along = [_bin_positions(*_bins(size, n)) for size, n in zip(sizes, bins, strict=True)]
    rank = len(sizes)
    flat = np.zeros((), np.int64)
    for axis, (members, size) in enumerate(zip(along, sizes, strict=True)):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = members.shape
        flat = flat * size + members.reshape(shape)
    return flat.reshape(prod(bins), -1)


def _averaging_taps(size: int, count: int) -> tuple[Array, Array]:
    """Return positions and weights `(width, bins)` that average bins along an axis; repeated positions weigh zero."""
    starts, ends = _bins(size, count)
    indices = _bin_positions(starts, ends)
    inside = starts[:, None] + np.arange(indices.shape[1]) < ends[:, None]
    return indices.T, (inside / (ends - starts)[:, None]).T


def _require_fixed_sizes(op: str, sizes: Any, bins: Any) -> tuple[Sizes, Sizes]:
    if not all(isinstance(n, int) for n in (*sizes, *bins)):
        raise ConversionError(f"{op} has an ONNX form only for fixed sizes, given {sizes} with {bins} bins")
    return tuple(sizes), tuple(bins)
