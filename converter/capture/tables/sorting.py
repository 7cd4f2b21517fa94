"""ATen operators about the order along an axis: extrema with their indices, sorting, cumulative ones, differences."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL
from ....runtime.ops import comparison, indexing, scanning, shaping, sorting
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import Traced
from ..table import Context, aten, cast
from .slicing import part

# ---- extrema with their indices; the gradient goes to the element at the index ----


@aten("aten.max.dim")
def max_dim(context: Context, self: Traced, dim: int, keepdim: bool = False) -> Any:
    """max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _chosen(context, self, sorting.argmax(self, axis=dim, keepdims=True), dim)


@aten("aten.min.dim")
def min_dim(context: Context, self: Traced, dim: int, keepdim: bool = False) -> Any:
    """min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _chosen(context, self, sorting.argmin(self, axis=dim, keepdims=True), dim)


@aten("aten.median.dim")
def median_dim(context: Context, self: Traced, dim: int, keepdim: bool = False) -> Any:
    """median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    axis = normalize_axis(dim, self.ndim)
    return _kth(context, self, axis, (self.shape[axis] - 1) // 2 if self.ndim else 0)


@aten("aten.median.default")
def median(context: Context, self: Traced) -> Any:
    """median(Tensor self) -> Tensor"""
    flat = shaping.reshape(self, shape=(product(self.shape),))
    return _kth(context, flat, 0, (flat.shape[0] - 1) // 2)[0]


@aten("aten.kthvalue.default")
def kthvalue(context: Context, self: Traced, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)"""
    return _kth(context, self, normalize_axis(dim, self.ndim), k - 1)


def _kth(context: Context, x: Traced, axis: int, k: Any) -> Any:
    order = sorting.sort(x, axis=axis)[1]
    return _chosen(context, x, part(order, axis, k, k + 1) if x.ndim else order, axis)


def _chosen(context: Context, x: Traced, indices: Traced, dim: int) -> tuple[Any, Any]:
    values = indexing.gather(x, indices, axis=normalize_axis(dim, x.ndim))
    return shaping.reshape(values, shape=context.shape), shaping.reshape(indices, shape=context.shape)


@aten("aten.argmax.default")
def argmax(context: Context, self: Traced, dim: int | None = None, keepdim: bool = False) -> Any:
    """argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return sorting.argmax(self, axis=dim, keepdims=keepdim)


@aten("aten.argmin.default")
def argmin(context: Context, self: Traced, dim: int | None = None, keepdim: bool = False) -> Any:
    """argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor"""
    return sorting.argmin(self, axis=dim, keepdims=keepdim)


# ---- sorting ----


@aten("aten.sort.default")
def sort(context: Context, self: Traced, dim: int = -1, descending: bool = False) -> Any:
    """sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"""
    return sorting.sort(self, axis=normalize_axis(dim, self.ndim), descending=descending)


@aten("aten.sort.stable")
def sort_stable(context: Context, self: Traced, *, stable: bool | None, dim: int = -1, descending: bool = False) -> Any:
    """sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor, Tensor)"""
    return sort(context, self, dim, descending)


@aten("aten.argsort.default")
def argsort(context: Context, self: Traced, dim: int = -1, descending: bool = False) -> Any:
    """argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor"""
    return sort(context, self, dim, descending)[1]


@aten("aten.argsort.stable")
def argsort_stable(context: Context, self: Traced, *, stable: bool, dim: int = -1, descending: bool = False) -> Any:
    """argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor"""
    return sort(context, self, dim, descending)[1]


@aten("aten.topk.default")
def topk(context: Context, self: Traced, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor, Tensor)"""
    return sorting.topk(self, k=k, axis=normalize_axis(dim, self.ndim), largest=largest, sorted=sorted)


# ---- cumulative ----


@aten("aten.cumsum.default")
def cumsum(context: Context, self: Traced, dim: int, *, dtype: Any = None) -> Any:
    """cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return scanning.cumsum(cast(self, context.dtype), axis=normalize_axis(dim, self.ndim))


@aten("aten.cumprod.default")
def cumprod(context: Context, self: Traced, dim: int, *, dtype: Any = None) -> Any:
    """cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"""
    return scanning.cumprod(cast(self, context.dtype), axis=normalize_axis(dim, self.ndim))


@aten("aten.logcumsumexp.default")
def logcumsumexp(context: Context, self: Traced, dim: int) -> Any:
    """logcumsumexp(Tensor self, int dim) -> Tensor"""
    return scanning.logcumsumexp(self, axis=normalize_axis(dim, self.ndim))


@aten("aten.cummax.default")
def cummax(context: Context, self: Traced, dim: int) -> Any:
    """cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return scanning.cummax(self, axis=normalize_axis(dim, self.ndim))


@aten("aten.cummin.default")
def cummin(context: Context, self: Traced, dim: int) -> Any:
    """cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)"""
    return scanning.cummin(self, axis=normalize_axis(dim, self.ndim))


@aten("aten.diff.default")
def diff(
    context: Context,
    self: Traced,
    n: int = 1,
    dim: int = -1,
    prepend: Traced | None = None,
    append: Traced | None = None,
) -> Any:
    """diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor"""
    axis = normalize_axis(dim, self.ndim)
    parts = [cast(x, context.dtype) for x in (prepend, self, append) if x is not None]
    x = shaping.concat(*parts, axis=axis) if len(parts) > 1 else parts[0]
    for _ in range(n):
        size = x.shape[axis]
        later, earlier = part(x, axis, 1, size), part(x, axis, 0, size - 1)
        x = comparison.not_equal(later, earlier) if x.dtype == BOOL else later - earlier
    return x
