"""Cumulative ops along an axis: `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import BOOL, FLOAT32, FLOAT64, INT64, at_least_float32, is_floating
from . import comparison, creation, elementwise, indexing, padding, reduction, shaping
from .common import in_float32, normalize_axis
from .declaring import zero
from .reduction_onnx import onnx_extremum_of_int64, onnx_log_sum_exp
from .registry import Array, OnnxGraph, Op, Tensor, Type, operator, require


@operator
def cumsum(x: Tensor, *, axis: int) -> Tensor:
    """Sums of the elements up to and including each, along `axis`: ATen `cumsum`, ONNX CumSum-14."""


@operator
def cumprod(x: Tensor, *, axis: int) -> Tensor:
    """Products of the elements up to and including each, along `axis`: ATen `cumprod`."""


def _accumulation(op: Op, ufunc: np.ufunc) -> None:
    @op.infer
    def _(x: Type, *, axis: int) -> Type:
        require(x.dtype != BOOL, "needed numbers, given bool; cast first")
        normalize_axis(axis, x.rank)
        return x

    @op.kernel
    def _(x: Array, *, axis: int) -> Array:
        if x.ndim == 0:
            return x
        # ATen accumulates float32 in float64 here
        wide = FLOAT64 if x.dtype == FLOAT32 else x.dtype
        accumulated: Array = ufunc.accumulate(x, axis=axis, dtype=wide)
        return accumulated.astype(x.dtype, copy=False)


_accumulation(cumsum, np.add)
_accumulation(cumprod, np.multiply)


@cumsum.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    return g if x.ndim == 0 else shaping.flip(cumsum(shaping.flip(g, axes=(axis,)), axis=axis), axes=(axis,))


@cumsum.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> Any:
    return graph.op("CumSum", x, graph.constant(axis, np.int64)) if graph.type(x).rank else x


@cumprod.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    # dx[k] = (product before k) * sum over i >= k of g[i] * (product of x[j] for k < j <= i): no division, so that
    # zeros are no exception, at the price of n x n products.
    if x.ndim == 0:
        return g
    size = x.shape[axis]
    order = _moving_last(x.ndim, axis)
    x, g = shaping.transpose(x, permutation=order), shaping.transpose(g, permutation=order)
    rows = (*x.shape[:-1], 1, size)
    above = shaping.triangle(creation.full_like(x, 1, shape=(size, size)), k=1, upper=True)
    factors = elementwise.where(comparison.equal(above, 1), shaping.reshape(x, shape=rows), 1.0 + 0.0 * above)
    products = shaping.triangle(cumprod(factors, axis=-1), upper=True)
    later = reduction.reduce_sum(shaping.reshape(g, shape=rows) * products, axes=(-1,))
    return shaping.transpose(product_before(x) * later, permutation=_inverse(order))


@cumprod.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> Any:
    # CumProd is standard from opset 26 on; before that: products of rows of which each has one element more.
    type = graph.type(x)
    if type.rank == 0:
        return x
    order = _moving_last(type.rank, axis)
    prefixes, _ = _prefixes(graph, x, type, axis, 1)
    products = graph.op("ReduceProd", prefixes, graph.constant([type.rank], np.int64), keepdims=0)
    return graph.op("Transpose", products, perm=list(_inverse(order)))


def product_before(x: Tensor) -> Any:
    """For each element along the last axis, the product of those before it."""
    none = (0,) * (x.ndim - 1)
    return cumprod(padding.pad(x, before=(*none, 1), after=(*none, -1), value=1.0), axis=-1)


@operator
def logcumsumexp(x: Tensor, *, axis: int) -> Tensor:
    """Logarithms of the cumulative sums of exp(x), in which nothing overflows: ATen `logcumsumexp`."""


@logcumsumexp.infer
def _(x: Type, *, axis: int) -> Type:
    require(is_floating(x.dtype), "needed a floating-point operand; cast first")
    normalize_axis(axis, x.rank)
    return x


@logcumsumexp.kernel
def _(x: Array, *, axis: int) -> Array:
    return np.logaddexp.accumulate(x, axis=axis) if x.ndim else x


@logcumsumexp.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    # exp(x[k]) * sum over i >= k of g[i] * exp(-y[i]), its two signs apart so that the sums can be of logarithms
    if x.ndim == 0:
        return g

    def of_one_sign(g: Tensor) -> Any:
        positive = comparison.greater(g, zero(g))
        logarithm = elementwise.log(elementwise.where(positive, g, np.ones((), g.dtype))) - y
        terms = elementwise.where(positive, logarithm, np.asarray(-np.inf, x.dtype))
        later = shaping.flip(logcumsumexp(shaping.flip(terms, axes=(axis,)), axis=axis), axes=(axis,))
        return elementwise.exp(x + later)

    return of_one_sign(g) - of_one_sign(-g)


@logcumsumexp.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> Any:
    type = graph.type(x)
    if type.rank == 0:
        return x
    prefixes, _ = _prefixes(graph, x, type, axis, -np.inf)
    wide = at_least_float32(type.dtype)
    prefixes = prefixes if wide == type.dtype else graph.op("Cast", prefixes, to=wide)
    sums = onnx_log_sum_exp(graph, prefixes, [type.rank], False, wide)
    sums = sums if wide == type.dtype else graph.op("Cast", sums, to=type.dtype)
    return graph.op("Transpose", sums, perm=list(_inverse(_moving_last(type.rank, axis))))


@operator
def cummax(x: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """Largest of the elements up to and including each, and its index (the last of equals): ATen `cummax`."""


@operator
def cummin(x: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """Smallest of the elements up to and including each, and its index (the last of equals): ATen `cummin`."""


def _cumulative_extremum(op: Op, ufunc: np.ufunc, onnx_name: str, worst: str) -> None:
    @op.infer
    def _(x: Type, *, axis: int) -> tuple[Type, Type]:
        require(x.dtype != BOOL, "needed numbers, given bool; cast first")
        normalize_axis(axis, x.rank)
        return x, x.with_dtype(INT64)

    @op.kernel
    def _(x: Array, *, axis: int) -> tuple[Array, Array]:
        if x.ndim == 0:
            return x, np.zeros((), np.int64)
        values = ufunc.accumulate(x, axis=axis)
        positions = np.arange(x.shape[axis]).reshape([-1] + [1] * (x.ndim - 1 - normalize_axis(axis, x.ndim)))
        reached = np.where((x == values) | (x != x), positions, 0)
        return values, np.maximum.accumulate(reached, axis=axis)

    @op.vjp
    def _(g: tuple[Tensor | None, None], y: tuple[Tensor, Tensor], x: Tensor, *, axis: int) -> Any:
        if g[0] is None or x.ndim == 0:
            return g[0]
        return indexing.scatter(creation.full_like(x, 0), y[1], g[0], axis=axis, reduction="add")

    @op.onnx
    def _(graph: OnnxGraph, x: str, *, axis: int) -> Any:
        type = graph.type(x)
        if type.rank == 0:
            return x, graph.constant(0, np.int64)
        back = list(_inverse(_moving_last(type.rank, axis)))
        prefixes, positions = _prefixes(graph, x, type, axis, _bound(type.dtype, worst))
        at = graph.constant([type.rank], np.int64)
        if type.dtype == INT64:
            found = onnx_extremum_of_int64(graph, prefixes, onnx_name, type.rank)
            values = graph.op("Squeeze", found, at)
        else:
            values = graph.op(f"Reduce{onnx_name}", prefixes, at, keepdims=0)
        last = graph.op(f"Arg{onnx_name}", prefixes, axis=type.rank, keepdims=0, select_last_index=1)
        indices = graph.op("Min", last, positions)  # where nothing is better than the filler, it goes on into that
        return graph.op("Transpose", values, perm=back), graph.op("Transpose", indices, perm=back)


_cumulative_extremum(cummax, np.maximum, "Max", "min")
_cumulative_extremum(cummin, np.minimum, "Min", "max")


def _bound(dtype: np.dtype[Any], end: str) -> Any:
    """The largest ("max") or smallest ("min") number of a dtype, infinite for floating-point ones."""
    if is_floating(dtype):
        return np.inf if end == "max" else -np.inf
    return getattr(np.iinfo(dtype), end)


def _moving_last(rank: int, axis: int) -> tuple[int, ...]:
    """The permutation that moves `axis` to the end."""
    at = normalize_axis(axis, rank)
    return (*(i for i in range(rank) if i != at), at)


def _inverse(permutation: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(permutation.index(i) for i in range(len(permutation)))


def _prefixes(graph: OnnxGraph, x: str, type: Type, axis: int, filler: float) -> tuple[str, str]:
    """The elements up to each, one row for each.

    Returns:
        (..., n, n) for `axis` of n elements, moved to the end: row i has the elements up to i, and then `filler`; and
        the numbers 0 to n - 1. What reduces them names the last axis `type.rank`: of no rows, ONNX Runtime (1.31)
        doesn't drop axis -1.
    """
    moved = graph.op("Transpose", x, perm=list(_moving_last(type.rank, axis)))
    size = graph.op("Squeeze", graph.dims((type.shape[axis],)))
    columns = graph.op("Range", graph.constant(0, np.int64), size, graph.constant(1, np.int64))
    rows = graph.op("Unsqueeze", columns, graph.constant([1], np.int64))
    reached = graph.op("LessOrEqual", columns, rows)
    repeated = graph.op("Unsqueeze", moved, graph.constant([-2], np.int64))
    return graph.op("Where", reached, repeated, graph.constant(filler, type.dtype)), columns
