"""ATen operators that assign values to bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL, INT64
from ....runtime.ops import comparison, creation, data_dependent, elementwise, indexing, reduction, shaping, slicing
from ....runtime.ops import sorting as ops
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from ...unsupported import Unsupported
from .data_dependent import is_data_dependent
from .slicing import part
from .table import Context, aten, cast, operands, pass_on, promote

# ---- the position of a value among boundaries ----


@aten("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    context: Context, sorted_sequence: SymbolicTensor, self: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: SymbolicTensor | None = None,
) -> Any:  # fmt: skip
    """searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str?
    side=None, Tensor? sorter=None) -> Tensor
    """
    if sorter is not None:
        sorted_sequence = indexing.gather(sorted_sequence, sorter, axis=sorted_sequence.ndim - 1)
    return _search(context, sorted_sequence, self, right or side == "right")


def _search(context: Context, boundaries: SymbolicTensor, values: Any, right: bool) -> Any:
    boundaries, x = operands(context, promote(boundaries, values), boundaries, values)
    shape = x.shape if x.ndim else (1,) * boundaries.ndim
    bins = ops.searchsorted(boundaries, shaping.reshape(x, shape=shape), right=right)
    return cast(shaping.reshape(bins, shape=context.shape), context.dtype)


# ---- counts ----


@aten("aten.histc.default")
def histc(context: Context, self: SymbolicTensor, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor"""
    x = shaping.reshape(cast(self, context.dtype), shape=(product(self.shape),))
    if x.shape[0] == 0 and min == max:
        return creation.full_like(x, 0, shape=(bins,))
    low, high = _limits(context, x) if min == max else operands(context, x.dtype, min, max)
    bin_indices = _to_int64((x - low) * operands(context, x.dtype, bins)[0] / (high - low))
    return _count(context, x, bin_indices, low, high, bins, None)


def _limits(context: Context, x: SymbolicTensor) -> tuple[Any, Any]:
    """The bounds, or those of the data if equal bounds are given, widened by one on each side if all data are equal."""
    lowest, highest = reduction.reduce_min(x), reduction.reduce_max(x)
    alike = comparison.equal(lowest, highest)
    one, zero = operands(context, x.dtype, 1, 0)
    apart = elementwise.where(alike, one, zero)
    return lowest - apart, highest + apart


def _to_int64(x: SymbolicTensor) -> Any:
    return cast(x, INT64)


def _count(
    context: Context, x: SymbolicTensor, bin_indices: Any, low: Any, high: Any, bins: int, weight: SymbolicTensor | None
) -> Any:
    """The number of elements (or their total weight) in each bin; the last bin includes its right bound."""
    last, nothing = operands(context, INT64, bins - 1, 0)
    inside = comparison.logical_and(comparison.greater_equal(x, low), comparison.less_equal(x, high))
    bin_indices = elementwise.where(
        inside, elementwise.minimum(elementwise.maximum(bin_indices, nothing), last), nothing
    )
    share = cast(inside, x.dtype)
    if weight is not None:
        share = share * shaping.reshape(cast(weight, x.dtype), shape=x.shape)
    return indexing.index_add(creation.full_like(x, 0, shape=(bins,)), bin_indices, share, axis=0)


@aten("aten.histogram.bin_ct")
def histogram(
    context: Context, self: SymbolicTensor, bins: int = 100, *, range: Any = None, weight: SymbolicTensor | None = None,
    density: bool = False,
) -> Any:  # fmt: skip
    """histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False) ->
    (Tensor hist, Tensor bin_edges)
    """
    x = shaping.reshape(self, shape=(product(self.shape),))
    low, high = _bounds(context, x, range)
    return _histogram(context, x, _edges(context, low, high, bins), weight, density)


def _bounds(context: Context, x: SymbolicTensor, range: Any) -> tuple[Any, Any]:
    if range is not None:
        low, high = range
        return tuple(operands(context, x.dtype, *((low - 0.5, high + 0.5) if low == high else (low, high))))
    if x.shape[0] == 0:
        return tuple(operands(context, x.dtype, 0, 1))
    lowest, highest = reduction.reduce_min(x), reduction.reduce_max(x)
    half, zero = operands(context, x.dtype, 0.5, 0)
    apart = elementwise.where(comparison.equal(lowest, highest), half, zero)
    return lowest - apart, highest + apart


def _edges(context: Context, low: Any, high: Any, bins: int) -> Any:
    """`bins + 1` evenly spaced numbers, computed from the nearer end, as in torch's linspace."""
    number = context.builder.constant(np.arange(bins + 1), low.dtype)
    count = context.builder.constant(bins, low.dtype)
    step = (high - low) / count
    nearer = context.builder.constant(np.arange(bins + 1) < (bins + 1) // 2, BOOL)
    return elementwise.where(nearer, low + step * number, high - step * (count - number))


def _histogram(
    context: Context, x: SymbolicTensor, edges: Any, weight: SymbolicTensor | None, density: bool
) -> tuple[Any, Any]:
    bins = edges.shape[0] - 1
    (one,) = operands(context, INT64, 1)
    bin_indices = ops.searchsorted(edges, x, right=True) - one
    low, high = (shaping.reshape(part(edges, 0, i, i + 1), shape=()) for i in (0, bins))
    counts = _count(context, x, bin_indices, low, high, bins, weight)
    if density:
        widths = part(edges, 0, 1, bins + 1) - part(edges, 0, 0, bins)
        counts = counts / reduction.reduce_sum(counts) / widths
    return counts, edges


@aten("aten.histogram.bins_tensor")
def histogram_of_edges(
    context: Context,
    self: SymbolicTensor,
    bins: SymbolicTensor,
    *,
    weight: SymbolicTensor | None = None,
    density: bool = False,
) -> Any:
    """histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False) -> (Tensor hist,
    Tensor bin_edges)
    """
    return _histogram(context, shaping.reshape(self, shape=(product(self.shape),)), bins, weight, density)


@aten("aten._histogramdd_bin_edges.default")
def histogramdd_edges(
    context: Context,
    self: SymbolicTensor,
    bins: Any,
    *,
    range: Any = None,
    weight: SymbolicTensor | None = None,
    density: bool = False,
) -> Any:
    """_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False)
    -> Tensor[]
    """
    columns = _columns(self)
    limits = [None if range is None else range[2 * i : 2 * i + 2] for i, _ in enumerate(columns)]
    bounds = [_bounds(context, x, limit) for x, limit in zip(columns, limits, strict=True)]
    return [_edges(context, *bound, count) for bound, count in zip(bounds, bins, strict=True)]


@aten("aten._histogramdd_from_bin_cts.default")
def histogramdd(
    context: Context,
    self: SymbolicTensor,
    bins: Any,
    *,
    range: Any = None,
    weight: SymbolicTensor | None = None,
    density: bool = False,
) -> Any:
    """_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool
    density=False) -> Tensor
    """
    edges = histogramdd_edges(context, self, bins, range=range)
    return histogramdd_of_edges(context, self, edges, weight=weight, density=density)


@aten("aten._histogramdd_from_bin_tensors.default")
def histogramdd_of_edges(
    context: Context, self: SymbolicTensor, bins: Any, *, weight: SymbolicTensor | None = None, density: bool = False
) -> Any:
    """_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor

    Elements outside all bins don't count; the counts are those of a histogram over flattened bin indices.
    """
    columns = _columns(self)
    (one,) = operands(context, INT64, 1)
    rows = columns[0].shape[0]
    inside = context.builder.create(creation.full, shape=(rows,), value=True, dtype=BOOL)
    bin_indices: Any = context.builder.create(creation.full, shape=(rows,), value=0, dtype=INT64)
    for x, edges in zip(columns, bins, strict=True):
        count = edges.shape[0] - 1
        low, high = (shaping.reshape(part(edges, 0, i, i + 1), shape=()) for i in (0, count))
        is_inside = comparison.logical_and(comparison.greater_equal(x, low), comparison.less_equal(x, high))
        inside = comparison.logical_and(inside, is_inside)
        last, size = operands(context, INT64, count - 1, count)
        along_axis = elementwise.minimum(ops.searchsorted(edges, x, right=True) - one, last)
        bin_indices = bin_indices * size + along_axis
    (nothing,) = operands(context, INT64, 0)
    share = cast(inside, self.dtype)
    if weight is not None:
        share = share * shaping.reshape(cast(weight, self.dtype), shape=(rows,))
    cells = creation.full_like(self, 0, shape=(product(context.shape),))
    counts = indexing.index_add(cells, elementwise.where(inside, bin_indices, nothing), share, axis=0)
    counts = shaping.reshape(counts, shape=context.shape)
    if density:
        counts = counts / reduction.reduce_sum(counts)
        for axis, edges in enumerate(bins):
            widths = part(edges, 0, 1, edges.shape[0]) - part(edges, 0, 0, edges.shape[0] - 1)
            counts = counts / shaping.reshape(widths, shape=(edges.shape[0] - 1, *[1] * (len(bins) - axis - 1)))
    return counts


def _columns(x: SymbolicTensor) -> list[Any]:
    """The coordinates in each dimension, which the last axis enumerates."""
    count = x.shape[-1]
    if not isinstance(count, int):
        raise Unsupported("a symbolic number of dimensions")
    rows = product(x.shape[:-1])
    table = shaping.reshape(x, shape=(rows, count))
    return [shaping.reshape(part(table, 1, i, i + 1), shape=(rows,)) for i, _ in enumerate([None] * count)]


@aten("aten.bincount.default")
def bincount(context: Context, self: SymbolicTensor, weights: SymbolicTensor | None = None, minlength: int = 0) -> Any:
    """bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor"""
    x, count = cast(self, INT64), context.shape[0]
    if is_data_dependent(count):
        least, one = operands(context, INT64, minlength, 1)
        largest = reduction.reduce_max(slicing.concat(x + one, shaping.reshape(least, shape=(1,)), axis=0))
        data_dependent.read_sizes(largest, symbols=(str(count),))
    zeros = context.builder.create(creation.full, shape=(count,), value=0, dtype=context.dtype)
    ones = context.builder.create(creation.full, shape=x.shape, value=1, dtype=context.dtype)
    return indexing.index_add(zeros, x, ones if weights is None else cast(weights, context.dtype), axis=0)


ROWS: dict[str, Row] = {
    "aten.bucketize.Tensor": (_search, "context, boundaries, self, right"),
    "aten.bucketize.Scalar": (_search, "context, boundaries, self, right"),
}
pass_on(ROWS)
