"""Reductions over `axis`, an int or several: sums, means, products, all, any, log-sum-exp.

`axis` None and `()` mean all axes. The `Reduce...` objects keep the dtype of integers, whereas the functions compute in
int64.
"""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import bool_, int64, to_dtype
from ..ir.types import is_floating
from ..ops import comparison, elementwise, products, reduction, rounding
from ..ops.declarations import zero
from .arguments import integers
from .comparisons import as_bools
from .operands import as_floating, as_numeric, as_tensor
from .public_op import Primitive, argument_aliases, public_op, tensor_method

KEEP_DIMS = ("keep_dims",)


def axes_of(axis: Any, *, of: str) -> tuple[int, ...] | None:
    """Convert `axis` to a tuple of axes; None and `()` give None, which means all axes."""
    return None if axis is None else integers(axis, "axis", of=of) or None


# ---- sums ----


@public_op()
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum over the axes `dim`; integers and bools are summed in int64 unless `dtype` is given."""
    return reduction.reduce_sum(_as_summands(input, dtype, of="sum"), axes=axes_of(dim, of="sum"), keepdims=keepdim)


@tensor_method("sum")
@argument_aliases(dim="axis", keepdim="keepdims")
def _sum(input: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """Sum over `axis`, plus `initial`; integers and bools are summed in int64 unless `dtype` is given."""
    if isinstance(dtype, bool):  # x.sum(0, True)
        dtype, keepdims = None, dtype
    total = sum(input, axis, keepdims, dtype=dtype)
    return total if initial is None else total + initial


@public_op(primitive=Primitive("ReduceSum", init_args=("keep_dims", "skip_mode")))
def reduce_sum(x: Any, axis: Any = (), keep_dims: bool = False, skip_mode: bool = False) -> Any:
    """Sum over `axis` in the dtype of `x`; for bools, whether any is True. With `skip_mode`, `()` means no axis."""
    x = as_tensor(x, "x", of="ReduceSum")
    axes = axes_of(axis, of="ReduceSum")
    if skip_mode and axes is None:
        return x
    reduce = reduction.reduce_any if x.dtype == bool_ else reduction.reduce_sum
    return reduce(x, axes=axes, keepdims=checks.of_type(keep_dims, "keep_dims", bool, of="ReduceSum"))


@public_op(method="nansum")
def nansum(input: Any, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Any:
    """Sum over `axis` of the elements that aren't NaN."""
    return sum(_nan_as_zero(as_tensor(input, of="nansum")), axis, keepdims, dtype=dtype)


@public_op(method="count_nonzero", primitive=Primitive("CountNonZero", init_args={"dims": "axis"}))
def count_nonzero(x: Any, axis: Any = (), keep_dims: bool = False, dtype: Any = "int32") -> Any:
    """The number of nonzero elements over `axis`."""
    nonzero = elementwise.cast(as_bools(x, "x", of="count_nonzero"), dtype=to_dtype(dtype))
    return reduction.reduce_sum(nonzero, axes=axes_of(axis, of="count_nonzero"), keepdims=keep_dims)


# ---- means ----


@public_op(method="mean", primitive=Primitive("ReduceMean", init_args=KEEP_DIMS))
@argument_aliases(dim="axis", keepdim="keep_dims")
def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Mean over `axis` in the dtype of `x`; for integers it is rounded towards 0, for bools it is float32."""
    x = as_tensor(x, "x", of="mean")
    axes = axes_of(axis, of="mean")
    keepdims = checks.of_type(keep_dims, "keep_dims", bool, of="mean")
    if x.dtype == bool_ or is_floating(x.dtype):
        return reduction.reduce_mean(as_floating(x, of="mean"), axes=axes, keepdims=keepdims)
    total = reduction.reduce_sum(elementwise.cast(x, dtype=int64), axes=axes, keepdims=keepdims)
    count = reduction.element_count(x, axes)
    quotient = rounding.floor_divide(elementwise.abs(total), elementwise.cast(as_tensor(count), dtype=int64))
    return elementwise.cast(elementwise.mul(elementwise.sign(total), quotient), dtype=x.dtype)


@public_op()
def reduce_mean(x: Any, axis: Any = ()) -> Any:
    """Mean over `axis`; see `mean`."""
    return mean(x, axis)


@public_op(method="nanmean")
def nanmean(input: Any, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Any:
    """Mean over `axis` of the elements that aren't NaN; NaN if all are NaN."""
    x = as_floating(input, of="nanmean")
    if dtype is not None:
        x = elementwise.cast(x, dtype=to_dtype(dtype))
    count = sum(elementwise.cast(comparison.equal(x, x), dtype=x.dtype), axis, keepdims)
    return nansum(x, axis, keepdims) / count


# ---- products ----


@public_op(method="prod")
@argument_aliases(dim="axis", keepdim="keep_dims")
def prod(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Any:
    """Product over `axis`; integers and bools are multiplied in int64 unless `dtype` is given."""
    return products.reduce_prod(
        _as_summands(input, dtype, of="prod"), axes=axes_of(axis, of="prod"), keepdims=keep_dims
    )


@public_op(primitive=Primitive("ReduceProd", init_args=KEEP_DIMS))
def _reduce_prod(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Product over `axis` in the dtype of `x`; for bools, whether all are True."""
    x = as_tensor(x, "x", of="ReduceProd")
    reduce = reduction.reduce_all if x.dtype == bool_ else products.reduce_prod
    return reduce(
        x, axes=axes_of(axis, of="ReduceProd"), keepdims=checks.of_type(keep_dims, "keep_dims", bool, of="ReduceProd")
    )


# ---- all and any ----


@public_op(method="all", primitive=Primitive("ReduceAll", init_args=KEEP_DIMS))
@argument_aliases(dim="axis", keepdim="keep_dims")
def all(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Whether all elements over `axis` are nonzero."""
    axes, keepdims = axes_of(axis, of="all"), checks.of_type(keep_dims, "keep_dims", bool, of="all")
    return reduction.reduce_all(as_bools(input, of="all"), axes=axes, keepdims=keepdims)


@public_op(method="any", primitive=Primitive("ReduceAny", init_args=KEEP_DIMS))
@argument_aliases(dim="axis", keepdim="keep_dims")
def any(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Whether any element over `axis` is nonzero."""
    axes, keepdims = axes_of(axis, of="any"), checks.of_type(keep_dims, "keep_dims", bool, of="any")
    return reduction.reduce_any(as_bools(input, of="any"), axes=axes, keepdims=keepdims)


# ---- logarithms of sums ----


@public_op(method="logsumexp")
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(input))) over the axes `dim`, computed without overflow."""
    return reduction.logsumexp(as_floating(input, of="logsumexp"), axes=axes_of(dim, of="logsumexp"), keepdims=keepdim)


def _as_summands(input: Any, dtype: Any, *, of: str) -> Any:
    """Convert the operand to `dtype`; if that is None, integers and bools become int64."""
    x = as_tensor(input, of=of)
    if dtype is None:
        return x if is_floating(x.dtype) else elementwise.cast(x, dtype=int64)
    return as_numeric(elementwise.cast(x, dtype=to_dtype(dtype)), of=of)


def _nan_as_zero(x: Any) -> Any:
    return elementwise.where(comparison.equal(x, x), x, zero(x)) if is_floating(x.dtype) else x
