"""Cumulative ops along an axis: `cumsum`, `cumprod`, `logcumsumexp`, `cummax`, `cummin`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import BOOL, INT64, is_floating
from ..traits import Traits
from . import comparison, creation, elementwise, indexing, scanning_onnx, shaping, slicing
from .common import in_float32, normalize_axis
from .declarations import zero
from .float64_forms import Writer
from .reduction_onnx import log_of_sum
from .registry import Array, OnnxGraph, Op, Tensor, Type, operator, require


@operator
def cumsum(x: Tensor, *, axis: int) -> Tensor:
    """Cumulative sums along `axis`: ATen `cumsum`, ONNX CumSum-14."""


cumsum.traits = Traits(mixed_precision="float32", wider_integers="all")


@operator
def cumprod(x: Tensor, *, axis: int) -> Tensor:
    """Cumulative products along `axis`: ATen `cumprod`."""


cumprod.traits = Traits(mixed_precision="float32")


def _set_accumulation_rules(op: Op, ufunc: np.ufunc) -> None:
    @op.infer
    def _(x: Type, *, axis: int) -> Type:
        require(x.dtype != BOOL, "needed numbers, given bool; cast first")
        normalize_axis(axis, x.rank)
        return x

    @op.kernel
    def _(x: Array, *, axis: int) -> Array:
        if x.ndim == 0:
            return x
        accumulated: Array = ufunc.accumulate(x, axis=axis, dtype=scanning_onnx.accumulation_dtype(x.dtype))
        return accumulated.astype(x.dtype, copy=False)


_set_accumulation_rules(cumsum, np.add)
_set_accumulation_rules(cumprod, np.multiply)


@cumsum.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    return shaping.flip(cumsum(shaping.flip(g, axes=(axis,)), axis=axis), axes=(axis,)) if x.ndim else g


@cumsum.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> Any:
    return scanning_onnx.cumulative_sum(graph, x, axis) if graph.type(x).rank else x


@cumprod.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    # dx[k] = (product before k) * (g[k] + x[k + 1] * (g[k + 1] + x[k + 2] * ...)), without dividing by zeros
    if x.ndim == 0:
        return g
    return exclusive_cumprod(x, axis) * _reverse_recurrence(shift(x, axis, -1, 0.0), g, axis)


@cumprod.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> Any:
    if graph.type(x).rank == 0:
        return x
    if graph.type(x).dtype in scanning_onnx.CUMPROD_DTYPES and graph.has("CumProd", 26):
        return scanning_onnx.cumulative_product(graph, x, axis)
    return scanning_onnx.accumulate(graph, (x,), axis, 1, lambda w, product, factor: w("Mul", product, factor))


def exclusive_cumprod(x: Any, axis: int) -> Any:
    """Return for each element along an axis the product of those before it."""
    return cumprod(shift(x, axis, 1, 1.0), axis=axis)


def shift(x: Any, axis: int, by: int, value: float) -> Any:
    """Shift the elements along an axis, towards its end if `by` is positive, and fill in `value`."""
    at = normalize_axis(axis, x.ndim)
    before = tuple(by if i == at else 0 for i in range(x.ndim))
    return slicing.pad(x, before=before, after=tuple(-n for n in before), value=value)


@operator
def linear_recurrence(factors: Tensor, terms: Tensor, *, axis: int) -> Tensor:
    """y[t] = factors[t] * y[t - 1] + terms[t] along an axis, with y[-1] = 0, for gradients of `cumprod`.

    Args:
        factors: floating-point, at least one-dimensional.
        terms: of the same shape and dtype.
        axis: the axis of t.

    Returns:
        y, of the same shape and dtype.
    """


@linear_recurrence.infer
def _(factors: Type, terms: Type, *, axis: int) -> Type:
    fits = is_floating(factors.dtype) and factors == terms
    require(fits, f"needed floating-point factors and terms of one type, given {factors} and {terms}")
    normalize_axis(axis, terms.rank)
    return terms


@linear_recurrence.kernel
def _(factors: Array, terms: Array, *, axis: int) -> Array:
    wide = scanning_onnx.accumulation_dtype(terms.dtype)
    y = np.empty(terms.shape, wide)
    result, *rows = (np.moveaxis(x, axis, 0) for x in (y, factors, terms))
    so_far = np.zeros(result.shape[1:], wide)
    for t, (factor, term) in enumerate(zip(*rows, strict=True)):
        so_far = result[t] = factor * so_far + term
    return y.astype(terms.dtype, copy=False)


@linear_recurrence.vjp
@in_float32
def _(g: Tensor, y: Tensor, factors: Tensor, terms: Tensor, *, axis: int) -> tuple[Any, Any]:
    g_terms = _reverse_recurrence(shift(factors, axis, -1, 0.0), g, axis)
    return g_terms * shift(y, axis, 1, 0.0), g_terms


@linear_recurrence.onnx
def _(graph: OnnxGraph, factors: str, terms: str, *, axis: int) -> str:
    def step(w: Writer, before: str, factor: str, term: str) -> str:
        return w("Add", w("Mul", factor, before), term)

    return scanning_onnx.accumulate(graph, (factors, terms), axis, 0, step)


def _reverse_recurrence(factors: Any, terms: Any, axis: int) -> Any:
    flipped = (shaping.flip(x, axes=(axis,)) for x in (factors, terms))
    return shaping.flip(linear_recurrence(*flipped, axis=axis), axes=(axis,))


@operator
def logcumsumexp(x: Tensor, *, axis: int) -> Tensor:
    """Logarithms of the cumulative sums of exp(x), computed without overflow: ATen `logcumsumexp`."""


logcumsumexp.traits = Traits(mixed_precision="float32")


@logcumsumexp.infer
def _(x: Type, *, axis: int) -> Type:
    require(is_floating(x.dtype), "needed a floating-point operand; cast first")
    normalize_axis(axis, x.rank)
    return x


@logcumsumexp.kernel
def _(x: Array, *, axis: int) -> Array:
    if x.ndim == 0:
        return x
    return np.logaddexp.accumulate(x, axis=axis, dtype=scanning_onnx.accumulation_dtype(x.dtype)).astype(
        x.dtype, copy=False
    )


@logcumsumexp.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axis: int) -> Any:
    # exp(x[k]) * sum over i >= k of g[i] * exp(-y[i]); positive and negative terms are summed separately, by logarithms
    if x.ndim == 0:
        return g

    def sum_positive_terms(g: Tensor) -> Any:
        positive = comparison.greater(g, zero(g))
        logarithm = elementwise.log(elementwise.where(positive, g, np.ones((), g.dtype))) - y
        terms = elementwise.where(positive, logarithm, np.asarray(-np.inf, x.dtype))
        later = shaping.flip(logcumsumexp(shaping.flip(terms, axes=(axis,)), axis=axis), axes=(axis,))
        return elementwise.exp(x + later)

    return sum_positive_terms(g) - sum_positive_terms(-g)


@logcumsumexp.onnx
def _(graph: OnnxGraph, x: str, *, axis: int) -> Any:
    return scanning_onnx.accumulate(graph, (x,), axis, -np.inf, log_of_sum) if graph.type(x).rank else x


@operator
def cummax(x: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """Cumulative maximum and its index (the last one among equal elements): ATen `cummax`."""


cummax.traits = Traits(ties="defined", exact=True, wider_integers="most")


@operator
def cummin(x: Tensor, *, axis: int) -> tuple[Tensor, Tensor]:
    """Cumulative minimum and its index (the last one among equal elements): ATen `cummin`."""


cummin.traits = Traits(ties="defined", exact=True, wider_integers="most")


def _set_extremum_rules(op: Op, ufunc: np.ufunc, compared: str, worst: str) -> None:
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
        return scanning_onnx.extrema(graph, x, axis, _bound(type.dtype, worst), compared)


_set_extremum_rules(cummax, np.maximum, "Less", "min")
_set_extremum_rules(cummin, np.minimum, "Greater", "max")


def _bound(dtype: np.dtype[Any], end: str) -> Any:
    """Return the largest ("max") or smallest ("min") number of a dtype, infinite for floating-point ones."""
    if is_floating(dtype):
        return np.inf if end == "max" else -np.inf
    return getattr(np.iinfo(dtype), end)
