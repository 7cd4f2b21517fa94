"""ATen reductions: sums, means, extrema, variances and norms. Operators that depend on an order are in `sorting`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL, INT64, at_least_float32
from ....runtime.ops import comparison, elementwise, indexing, products, reduction, shaping
from ....runtime.ops.common import normalize_axes
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from ...unsupported import Unsupported
from .table import Context, aten, cast, operands, pass_on

DType = np.dtype[Any]


def axes_of(dim: Any) -> tuple[int, ...] | None:
    """The axes of an ATen `dim` argument: an int, or a sequence of them; None, for all axes, if it is None or empty."""
    if isinstance(dim, int):
        return (dim,)
    return tuple(dim) if dim else None


# ---- sums, means, products ----


@aten("aten.sum.default")
def sum(context: Context, self: SymbolicTensor, *, dtype: DType | None = None) -> Any:
    """sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return reduction.reduce_sum(cast(self, context.dtype))


@aten("aten.sum.dim_IntList")
def sum_dim(
    context: Context, self: SymbolicTensor, dim: Any, keepdim: bool = False, *, dtype: DType | None = None
) -> Any:
    """sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduction.reduce_sum(cast(self, context.dtype), axes=axes_of(dim), keepdims=keepdim)


@aten("aten.mean.default")
def mean(context: Context, self: SymbolicTensor, *, dtype: DType | None = None) -> Any:
    """mean(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return reduction.reduce_mean(cast(self, context.dtype))


@aten("aten.mean.dim")
def mean_dim(
    context: Context, self: SymbolicTensor, dim: Any, keepdim: bool = False, *, dtype: DType | None = None
) -> Any:
    """mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return reduction.reduce_mean(cast(self, context.dtype), axes=axes_of(dim), keepdims=keepdim)


@aten("aten.prod.default")
def prod(context: Context, self: SymbolicTensor, *, dtype: DType | None = None) -> Any:
    """prod(Tensor self, *, ScalarType? dtype=None) -> Tensor"""
    return products.reduce_prod(cast(self, context.dtype))


@aten("aten.prod.dim_int")
def prod_dim(
    context: Context, self: SymbolicTensor, dim: int, keepdim: bool = False, *, dtype: DType | None = None
) -> Any:
    """prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"""
    return products.reduce_prod(cast(self, context.dtype), axes=(dim,), keepdims=keepdim)


@aten("aten.logsumexp.default")
def logsumexp(context: Context, self: SymbolicTensor, dim: Any, keepdim: bool = False) -> Any:
    """logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor"""
    return reduction.logsumexp(cast(self, context.dtype), axes=axes_of(dim), keepdims=keepdim)


# ---- extrema; equal ones share the gradient ----


@aten("aten.amax.default")
def amax(context: Context, self: SymbolicTensor, dim: Any = (), keepdim: bool = False) -> Any:
    """amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduction.reduce_max(self, axes=axes_of(dim), keepdims=keepdim)


@aten("aten.amin.default")
def amin(context: Context, self: SymbolicTensor, dim: Any = (), keepdim: bool = False) -> Any:
    """amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor"""
    return reduction.reduce_min(self, axes=axes_of(dim), keepdims=keepdim)


@aten("aten.aminmax.default")
def aminmax(context: Context, self: SymbolicTensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)"""
    return amin(context, self, dim, keepdim), amax(context, self, dim, keepdim)


@aten("aten.any.default", "aten.any.dim", "aten.any.dims", "aten._is_any_true.default")
def any_dims(context: Context, self: SymbolicTensor, dim: Any = None, keepdim: bool = False) -> Any:
    """any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    result = reduction.reduce_any(cast(self, BOOL), axes=axes_of(dim), keepdims=keepdim)
    return cast(result, context.dtype)


@aten("aten.all.default", "aten.all.dim", "aten.all.dims", "aten._is_all_true.default")
def all_dims(context: Context, self: SymbolicTensor, dim: Any = None, keepdim: bool = False) -> Any:
    """all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"""
    result = reduction.reduce_all(cast(self, BOOL), axes=axes_of(dim), keepdims=keepdim)
    return cast(result, context.dtype)


# ---- variance ----


@aten("aten.var.default")
def var(context: Context, self: SymbolicTensor, unbiased: bool = True) -> Any:
    """var(Tensor self, bool unbiased=True) -> Tensor"""
    return cast(_variance(self, None, int(unbiased), False), context.dtype)


@aten("aten.var.dim")
def var_dim(context: Context, self: SymbolicTensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
    """var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return cast(_variance(self, dim, int(unbiased), keepdim), context.dtype)


@aten("aten.var.correction")
def var_correction(
    context: Context, self: SymbolicTensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    """var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor"""
    return cast(_variance(self, dim, correction, keepdim), context.dtype)


@aten("aten.var_mean.correction")
def var_mean(
    context: Context, self: SymbolicTensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    """var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"""
    variance = var_correction(context, self, dim, correction=correction, keepdim=keepdim)
    return variance, reduction.reduce_mean(self, axes=axes_of(dim), keepdims=keepdim)


@aten("aten.std.default")
def std(context: Context, self: SymbolicTensor, unbiased: bool = True) -> Any:
    """std(Tensor self, bool unbiased=True) -> Tensor"""
    return _deviation(context, self, None, int(unbiased), False)


@aten("aten.std.dim")
def std_dim(context: Context, self: SymbolicTensor, dim: Any, unbiased: bool = True, keepdim: bool = False) -> Any:
    """std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor"""
    return _deviation(context, self, dim, int(unbiased), keepdim)


@aten("aten.std_mean.correction")
def std_mean(
    context: Context, self: SymbolicTensor, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Any:
    """std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False)"""
    deviation = _deviation(context, self, dim, correction, keepdim)
    return deviation, reduction.reduce_mean(self, axes=axes_of(dim), keepdims=keepdim)


def _deviation(context: Context, x: SymbolicTensor, dim: Any, correction: Any, keepdim: bool) -> Any:
    return cast(root_of(context, _variance(x, dim, correction, keepdim)), context.dtype)


def _variance(x: SymbolicTensor, dim: Any, correction: Any, keepdim: bool) -> Any:
    """The variance, in float32 for half precision, whose squares overflow easily."""
    x = cast(x, at_least_float32(x.dtype))
    count = 1 if correction is None else correction
    if count != int(count):
        number = product(x.shape[axis] for axis in normalize_axes(axes_of(dim), x.ndim))
        if not isinstance(number, int):
            raise Unsupported(f"correction {correction} with symbolic sizes")
        biased = reduction.variance(x, axes=axes_of(dim), correction=0, keepdims=keepdim)
        return biased * (number / max(number - count, 0) if number > count else math.inf)
    return reduction.variance(x, axes=axes_of(dim), correction=int(count), keepdims=keepdim)


# ---- norms ----


@aten("aten.norm.ScalarOpt_dim", "aten.norm.ScalarOpt_dim_dtype", "aten.norm.ScalarOpt_dtype")
def norm_dim(
    context: Context,
    self: SymbolicTensor,
    p: Any,
    dim: Any = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Any:
    """norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor"""
    return norm_of(context, self, 2 if p is None else p, dim, keepdim)


@aten("aten._weight_norm.default")
def weight_norm(context: Context, v: SymbolicTensor, g: SymbolicTensor, dim: int = 0) -> Any:
    """_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor

    `g * v / norm(v)`, with a norm for each index along `dim`, or one of all elements for -1 (Salimans and Kingma 2016).
    """
    axes = [axis for axis in range(v.ndim) if axis != dim]
    size = norm_of(context, v, 2, axes, keepdim=True) if axes else elementwise.abs(v)
    return v * (g / size)


@aten("aten.cdist.default", "aten._cdist_forward.default")
def cdist(
    context: Context, x1: SymbolicTensor, x2: SymbolicTensor, p: float = 2.0, compute_mode: int | None = None
) -> Any:
    """cdist(Tensor x1, Tensor x2, float p=2, int? compute_mode=None) -> Tensor"""
    rows = shaping.reshape(x1, shape=(*x1.shape[:-1], 1, x1.shape[-1]))
    columns = shaping.reshape(x2, shape=(*x2.shape[:-2], 1, *x2.shape[-2:]))
    return norm_of(context, rows - columns, p, -1, False)


def norm_of(context: Context, self: SymbolicTensor, p: Any, dim: Any, keepdim: bool) -> Any:
    """(sum |x|^p)^(1/p), and its limits for p = 0 and infinity; the gradient where the norm is 0 is 0."""
    return cast(_norm(context, cast(self, at_least_float32(context.dtype)), p, axes_of(dim), keepdim), context.dtype)


def _norm(context: Context, x: SymbolicTensor, p: Any, axes: tuple[int, ...] | None, keepdim: bool) -> Any:
    if p == 0:
        (zero,) = operands(context, x.dtype, 0)
        return reduction.reduce_sum(cast(comparison.not_equal(x, zero), x.dtype), axes=axes, keepdims=keepdim)
    if p == 2:
        return root_of(context, reduction.reduce_sum(x * x, axes=axes, keepdims=keepdim))
    size = elementwise.abs(x)
    if p == 1:
        return reduction.reduce_sum(size, axes=axes, keepdims=keepdim)
    if math.isinf(p):
        extremum = reduction.reduce_max if p > 0 else reduction.reduce_min
        return extremum(size, axes=axes, keepdims=keepdim)
    if p > 1:
        powers = elementwise.pow(size, p)
    else:  # the derivative is infinite at 0, where ATen's is 0
        zero, one, at_zero = operands(context, x.dtype, 0.0, 1.0, 0.0 if p > 0 else math.inf)
        is_zero = comparison.equal(size, zero)
        powers = elementwise.where(is_zero, at_zero, elementwise.pow(elementwise.where(is_zero, one, size), p))
    total = reduction.reduce_sum(powers, axes=axes, keepdims=keepdim)
    if p < 0:
        return elementwise.pow(total, 1.0 / p)
    return _zero_at_zero(context, total, lambda t: elementwise.pow(t, 1.0 / p))


@aten("aten._pdist_forward.default")
def pdist(context: Context, self: SymbolicTensor, p: float = 2.0) -> Any:
    """_pdist_forward(Tensor self, float p=2.) -> Tensor: the distance of each row to each that comes after it"""
    rows = self.shape[0]
    if not isinstance(rows, int):
        raise Unsupported("symbolic sizes")
    first, second = (context.builder.constant(i, INT64) for i in np.triu_indices(rows, 1))
    difference = indexing.take(self, first, axis=0) - indexing.take(self, second, axis=0)
    return norm_of(context, difference, p, -1, False)


def root_of(context: Context, x: SymbolicTensor) -> Any:
    """The square root with the gradient 0, not infinity, at 0, as ATen defines it for norms and deviations."""
    return _zero_at_zero(context, x, elementwise.sqrt)


def _zero_at_zero(context: Context, x: SymbolicTensor, function: Callable[[Any], Any]) -> Any:
    """Apply a function that is 0 at 0, with a gradient of 0 there."""
    zero, one = operands(context, x.dtype, 0, 1)
    at_zero = comparison.equal(x, zero)
    return elementwise.where(at_zero, zero, function(elementwise.where(at_zero, one, x)))


ROWS: dict[str, Row] = {
    "aten.max.default": (reduction.reduce_max, "self"),
    "aten.min.default": (reduction.reduce_min, "self"),
    "aten.std.correction": (_deviation, "context, self, dim, correction, keepdim"),
    "aten.linalg_vector_norm.default": (norm_of, "context, self, ord, dim, keepdim"),
    "aten.norm.Scalar": (norm_of, "context, self, p, None, False"),
}
pass_on(ROWS)
