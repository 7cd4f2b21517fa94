"""ATen operators that depend on the order along an axis: extrema with indices, sorting, cumulative operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL, INT64, is_floating
from ....runtime.ops import (
    comparison,
    creation,
    elementwise,
    indexing,
    reduction,
    rounding,
    scanning,
    shaping,
    slicing,
    sorting,
)
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from .slicing import part
from .table import Context, aten, cast, operands, pass_on


def _number(x: SymbolicTensor) -> SymbolicTensor:
    """Cast booleans to 0 and 1, which have an order."""
    return cast(x, INT64) if x.dtype == BOOL else x


# ---- extrema with their indices; the gradient goes to the element at the index ----


@aten("aten.max.dim")
def max_dim(context: Context, self: SymbolicTensor, dim: int, keepdim: bool = False) -> Any:
    """max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _select_sorted(context, self, sorting.argmax(_number(self), axis=dim, keepdims=True), dim)


@aten("aten.min.dim")
def min_dim(context: Context, self: SymbolicTensor, dim: int, keepdim: bool = False) -> Any:
    """min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _select_sorted(context, self, sorting.argmin(_number(self), axis=dim, keepdims=True), dim)


@aten("aten.median.dim")
def median_dim(context: Context, self: SymbolicTensor, dim: int, keepdim: bool = False) -> Any:
    """median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = normalize_axis(dim, self.ndim)
    return _kth(context, self, axis, (self.shape[axis] - 1) // 2 if self.ndim else 0)


@aten("aten.median.default")
def median(context: Context, self: SymbolicTensor) -> Any:
    """median(Tensor self) -> Tensor"""
    flat = shaping.reshape(self, shape=(product(self.shape),))
    return _of_all(context, flat, lambda: _kth(context, flat, 0, (flat.shape[0] - 1) // 2)[0])


@aten("aten.nanmedian.dim")
def nanmedian_dim(context: Context, self: SymbolicTensor, dim: int, keepdim: bool = False) -> Any:
    """nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = normalize_axis(dim, self.ndim)
    if self.ndim == 0 or not is_floating(self.dtype):
        return median_dim(context, self, dim, keepdim)
    numbers = cast(comparison.equal(self, self), INT64)
    infinity = operands(context, self.dtype, float("inf"))[0]
    order = sorting.sort(elementwise.where(comparison.isnan(self), infinity, self), axis=axis)[1]
    # NaN comes last, even after infinities
    apart = sorting.sort(indexing.gather(numbers, order, axis=axis), axis=axis, descending=True)[1]
    order = indexing.gather(order, apart, axis=axis)
    count = reduction.reduce_sum(numbers, axes=(axis,), keepdims=True)
    one, two, zero = operands(context, INT64, 1, 2, 0)
    middle = elementwise.maximum(rounding.floor_divide(count - one, two), zero)
    return _select_sorted(context, self, indexing.gather(order, middle, axis=axis), axis)


@aten("aten.nanmedian.default")
def nanmedian(context: Context, self: SymbolicTensor) -> Any:
    """nanmedian(Tensor self) -> Tensor"""
    flat = shaping.reshape(self, shape=(product(self.shape),))
    return _of_all(context, flat, lambda: nanmedian_dim(context, flat, 0)[0])


def _of_all(context: Context, x: SymbolicTensor, median: Callable[[], Any]) -> Any:
    """The median of a vector; NaN if it is empty."""
    if x.shape[0] == 0:
        return context.builder.constant(float("nan"), context.dtype)
    return median()


@aten("aten.mode.default")
def mode(context: Context, self: SymbolicTensor, dim: int = -1, keepdim: bool = False) -> Any:
    """mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)

    The smallest of the most frequent elements, and its last index.
    """
    if self.ndim == 0:
        return self, context.builder.constant(0, INT64)
    axis = normalize_axis(dim, self.ndim)
    values, order = sorting.sort(_number(self), axis=axis)
    size = self.shape[axis]
    places = context.builder.create(creation.arange, stop=size, dtype=INT64)
    places = shaping.reshape(places, shape=(size, *[1] * (self.ndim - axis - 1)))
    differs = comparison.not_equal(part(values, axis, 1, size), part(values, axis, 0, size - 1))
    none = [0] * self.ndim
    before = tuple(1 if i == axis else 0 for i in range(self.ndim))
    begins = slicing.pad(cast(differs, INT64), before=before, after=tuple(none), value=0.0) * places
    count = places - scanning.cummax(begins, axis=axis)[0]  # the number of equal elements before each
    chosen = indexing.gather(order, sorting.argmax(count, axis=axis, keepdims=True), axis=axis)
    return _select_sorted(context, self, chosen, axis)


@aten("aten.kthvalue.default")
def kthvalue(context: Context, self: SymbolicTensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _kth(context, self, normalize_axis(dim, self.ndim), k - 1)


def _kth(context: Context, x: SymbolicTensor, axis: int, k: Any) -> Any:
    order = sorting.sort(x, axis=axis)[1]
    return _select_sorted(context, x, part(order, axis, k, k + 1) if x.ndim else order, axis)


def _select_sorted(context: Context, x: SymbolicTensor, indices: SymbolicTensor, dim: int) -> tuple[Any, Any]:
    values = indexing.gather(x, indices, axis=normalize_axis(dim, x.ndim))
    return shaping.reshape(values, shape=context.shape), shaping.reshape(indices, shape=context.shape)


# ---- sorting ----


@aten("aten.sort.default")
def sort(context: Context, self: SymbolicTensor, dim: int = -1, descending: bool = False) -> Any:
    """sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    values, order = sorting.sort(_number(self), axis=normalize_axis(dim, self.ndim), descending=descending)
    return cast(values, self.dtype), order


@aten("aten.sort.stable")
def sort_stable(
    context: Context, self: SymbolicTensor, *, stable: bool | None, dim: int = -1, descending: bool = False
) -> Any:
    """sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor, Tensor)"""
    return sort(context, self, dim, descending)


@aten("aten.argsort.default")
def argsort(context: Context, self: SymbolicTensor, dim: int = -1, descending: bool = False) -> Any:
    """argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor"""
    return sort(context, self, dim, descending)[1]


@aten("aten.argsort.stable")
def argsort_stable(
    context: Context, self: SymbolicTensor, *, stable: bool, dim: int = -1, descending: bool = False
) -> Any:
    """argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    return sort(context, self, dim, descending)[1]


@aten("aten.topk.default")
def topk(
    context: Context, self: SymbolicTensor, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor, Tensor)"""
    return sorting.topk(self, k=k, axis=normalize_axis(dim, self.ndim), largest=largest, sorted=sorted)


# ---- cumulative ----


@aten("aten.cumsum.default")
def cumsum(context: Context, self: SymbolicTensor, dim: int, *, dtype: Any = None) -> Any:
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return scanning.cumsum(cast(self, context.dtype), axis=normalize_axis(dim, self.ndim))


@aten("aten.cumprod.default")
def cumprod(context: Context, self: SymbolicTensor, dim: int, *, dtype: Any = None) -> Any:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return scanning.cumprod(cast(self, context.dtype), axis=normalize_axis(dim, self.ndim))


@aten("aten.logcumsumexp.default")
def logcumsumexp(context: Context, self: SymbolicTensor, dim: int) -> Any:
    """logcumsumexp(Tensor self, int dim) -> Tensor"""
    return scanning.logcumsumexp(self, axis=normalize_axis(dim, self.ndim))


@aten("aten.cummax.default")
def cummax(context: Context, self: SymbolicTensor, dim: int) -> Any:
    """cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    values, indices = scanning.cummax(_number(self), axis=normalize_axis(dim, self.ndim))
    return cast(values, self.dtype), indices


@aten("aten.cummin.default")
def cummin(context: Context, self: SymbolicTensor, dim: int) -> Any:
    """cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    values, indices = scanning.cummin(_number(self), axis=normalize_axis(dim, self.ndim))
    return cast(values, self.dtype), indices


@aten("aten.diff.default")
def diff(
    context: Context,
    self: SymbolicTensor,
    n: int = 1,
    dim: int = -1,
    prepend: SymbolicTensor | None = None,
    append: SymbolicTensor | None = None,
) -> Any:
    """diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"""
    axis = normalize_axis(dim, self.ndim)
    if n == 0:
        return self
    parts = [cast(x, context.dtype) for x in (prepend, self, append) if x is not None]
    x = slicing.concat(*parts, axis=axis) if len(parts) > 1 else parts[0]
    for _ in range(n):
        size = x.shape[axis]
        if size == 0:
            break
        later, earlier = part(x, axis, 1, size), part(x, axis, 0, size - 1)
        x = comparison.not_equal(later, earlier) if x.dtype == BOOL else later - earlier
    return x


ROWS: dict[str, Row] = {
    "aten.argmax.default": (sorting.argmax, "self, axis=dim, keepdims=keepdim"),
    "aten.argmin.default": (sorting.argmin, "self, axis=dim, keepdims=keepdim"),
}
pass_on(ROWS)
