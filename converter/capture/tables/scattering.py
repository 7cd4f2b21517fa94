"""ATen operators that write at computed indices along one axis."""

from __future__ import annotations

from typing import Any

import torch

from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL, INT64, is_floating
from ....runtime.ops import creation, elementwise, indexing, rounding, scanning, shaping
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ...dtypes import torch_dtype
from ...rows import Row
from .slicing import part
from .table import Context, aten, cast, operands, pass_on


@aten("aten.scatter.value")
def scatter_value(context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, value: Any) -> Any:
    """scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    return _scatter(self, dim, index, creation.full_like(self, value, shape=index.shape), "none")


@aten("aten.scatter.reduce")
def scatter_with(
    context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, src: SymbolicTensor, *, reduce: str
) -> Any:
    """scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor"""
    return _scatter(self, dim, index, src, {"add": "add", "multiply": "mul"}[reduce])


@aten("aten.scatter.value_reduce")
def scatter_value_with(
    context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, value: Any, *, reduce: str
) -> Any:
    """scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"""
    src = creation.full_like(self, value, shape=index.shape)
    return _scatter(self, dim, index, src, {"add": "add", "multiply": "mul"}[reduce])


# the IR's names of ATen's reductions
REDUCTIONS = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


@aten("aten.scatter_reduce.two")
def scatter_reduce(
    context: Context,
    self: SymbolicTensor,
    dim: int,
    index: SymbolicTensor,
    src: SymbolicTensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True)"""
    x, values = self, _trim(src, index)
    count = creation.full_like(x, 1)
    if not include_self:  # the reduction starts from the neutral element
        x = _scatter(x, dim, index, creation.full_like(values, _neutral(self, reduce)), "none")
        count = _scatter(count, dim, index, creation.full_like(values, 0), "none")
    reduced = _scatter(x, dim, index, values, REDUCTIONS[reduce])
    if reduce != "mean":
        return reduced
    count = _scatter(count, dim, index, creation.full_like(values, 1), "add")
    return reduced / count if is_floating(x.dtype) else rounding.floor_divide(reduced, count)


def _neutral(x: SymbolicTensor, reduce: str) -> Any:
    """The neutral element of a reduction in the dtype of `x`."""
    if reduce in ("sum", "mean") or (x.dtype == BOOL and reduce == "amax"):
        return 0
    if reduce == "prod" or (x.dtype == BOOL and reduce == "amin"):
        return 1
    if is_floating(x.dtype):
        return float("-inf") if reduce == "amax" else float("inf")
    limits = torch.iinfo(torch_dtype(x.dtype))
    return limits.min if reduce == "amax" else limits.max


def _scatter(x: SymbolicTensor, dim: int, index: SymbolicTensor, src: SymbolicTensor, reduction: str) -> Any:
    if 0 in index.shape:  # an empty index may have any rank
        return x
    if x.dtype == BOOL and reduction != "none":  # a sum is "or", a product "and"
        return cast(_scatter(cast(x, INT64), dim, index, cast(src, INT64), reduction), BOOL)
    if x.ndim == 0 or index.ndim == 0:  # a tensor of rank 0 counts as a vector of one element
        flat = (shaping.reshape(t, shape=(product(t.shape),)) for t in (x, index, src))
        lying, places, updates = flat
        result = indexing.scatter(lying, places, _trim(updates, places), axis=0, reduction=reduction)
        return shaping.reshape(result, shape=x.shape)
    return indexing.scatter(x, index, _trim(src, index), axis=normalize_axis(dim, x.ndim), reduction=reduction)


def _trim(src: SymbolicTensor, index: SymbolicTensor) -> Any:
    """The part of `src` that has an index."""
    for axis, size in enumerate(index.shape):
        src = part(src, axis, 0, size)
    return src


# ---- whole slices ----


@aten("aten.index_add.default")
def index_add(
    context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, source: SymbolicTensor, *, alpha: Any = 1
) -> Any:
    """index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor"""
    x, axis, rows, updates = _slices(self, dim, index, source)
    result = indexing.index_add(x, rows, updates if alpha == 1 else updates * alpha, axis=axis)
    return shaping.reshape(result, shape=self.shape) if self.ndim == 0 else result


@aten("aten.index_copy.default")
def index_copy(context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, source: SymbolicTensor) -> Any:
    """index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor"""
    x, axis, rows, updates = _slices(self, dim, index, source)
    lines = shaping.reshape(rows, shape=(*[1] * axis, rows.shape[0], *[1] * (x.ndim - axis - 1)))
    result = indexing.scatter(x, shaping.expand(lines, shape=updates.shape), updates, axis=axis)
    return shaping.reshape(result, shape=self.shape) if self.ndim == 0 else result


@aten("aten.index_fill.int_Scalar")
def index_fill(context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, value: float) -> Any:
    """index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor"""
    axis = normalize_axis(dim, self.ndim)
    shape = (*self.shape[:axis], product(index.shape), *self.shape[axis + 1 :]) if self.ndim else ()
    return index_copy(context, self, dim, index, creation.full_like(self, value, shape=shape))


@aten("aten.index_fill.int_Tensor")
def index_fill_tensor(
    context: Context, self: SymbolicTensor, dim: int, index: SymbolicTensor, value: SymbolicTensor
) -> Any:
    """index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"""
    # an index that occurs twice is filled once: it counts once in the gradient of `value`
    axis = normalize_axis(dim, self.ndim)
    lines = self.shape[axis : axis + 1]
    filled = index_fill(context, creation.full_like(index, 0, shape=lines), 0, index, 1)
    along = shaping.reshape(cast(filled, BOOL), shape=(*lines, *[1] * (self.ndim - axis - 1)))
    return elementwise.where(along, cast(value, self.dtype), self)


@aten("aten.index_reduce.default")
def index_reduce(
    context: Context,
    self: SymbolicTensor,
    dim: int,
    index: SymbolicTensor,
    source: SymbolicTensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True)"""
    x, axis, rows, updates = _slices(self, dim, index, source)
    lines = shaping.reshape(rows, shape=(*[1] * axis, rows.shape[0], *[1] * (x.ndim - axis - 1)))
    places = shaping.expand(lines, shape=updates.shape)
    reduced = scatter_reduce(context, x, axis, places, updates, reduce, include_self=include_self)
    return shaping.reshape(reduced, shape=self.shape)


def _slices(x: SymbolicTensor, dim: int, index: SymbolicTensor, source: SymbolicTensor) -> tuple[Any, int, Any, Any]:
    """The operands with at least one dimension, a non-negative `dim`, and the index as a vector."""
    axis = normalize_axis(dim, x.ndim)
    rows = shaping.reshape(index, shape=(product(index.shape),))
    if x.ndim == 0:
        x, source = (shaping.reshape(t, shape=(1,)) for t in (x, source))
    shape = (*x.shape[:axis], rows.shape[0], *x.shape[axis + 1 :])
    return x, axis, rows, shaping.reshape(source, shape=shape)


# ---- flat indices into the whole tensor ----


@aten("aten.put.default")
def put(
    context: Context, self: SymbolicTensor, index: SymbolicTensor, source: SymbolicTensor, accumulate: bool = False
) -> Any:
    """put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor"""
    flat, places, updates = (shaping.reshape(t, shape=(product(t.shape),)) for t in (self, index, source))
    result = _scatter(flat, 0, places, updates, "add" if accumulate else "none")
    return shaping.reshape(result, shape=self.shape)


@aten("aten.masked_scatter.default")
def masked_scatter(context: Context, self: SymbolicTensor, mask: SymbolicTensor, source: SymbolicTensor) -> Any:
    """masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor: true elements get the next of the source"""
    x, chosen = (shaping.expand(t, shape=context.shape) for t in (self, mask))
    flat = shaping.reshape(cast(chosen, INT64), shape=(product(context.shape),))
    (one,) = operands(context, INT64, 1)
    # the number of true elements before each element; after the last true element, this index isn't used
    before = scanning.cumsum(flat, axis=0) - flat
    count = product(source.shape)
    if count == 0:
        return x
    last = operands(context, INT64, count)[0] - one
    elements = indexing.take(shaping.reshape(source, shape=(count,)), elementwise.minimum(before, last), axis=0)
    return elementwise.where(chosen, shaping.reshape(elements, shape=context.shape), x)


ROWS: dict[str, Row] = {
    "aten.scatter.src": (_scatter, 'self, dim, index, src, "none"'),
    "aten.scatter_add.default": (_scatter, 'self, dim, index, src, "add"'),
}
pass_on(ROWS)
