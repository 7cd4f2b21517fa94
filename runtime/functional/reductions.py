"""Sums, products, means, truth of all or any, norms of axes: reductions over `axis`, an int or several.

`axis` None and `()` stand for all axes. The `Reduce...` objects keep the dtype of integers, where the functions count
in int64.
"""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import bool_, int64, to_dtype
from ..ir.types import is_floating
from ..ops import comparison, elementwise, products, reduction, rounding
from ..ops.declarations import zero
from .arguments import integers
from .comparisons import truth
from .operands import as_tensor, floats, numbers
from .public_op import Primitive, argument_aliases, public_op, tensor_method

KEEP_DIMS = ("keep_dims",)


def axes_of(axis: Any, *, of: str) -> tuple[int, ...] | None:
    """The axes that `axis` names, as an op takes them: None, which is all of them, for None and for `()`."""
    return None if axis is None else integers(axis, "axis", of=of) or None


# ---- sums ----


@public_op()
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum over the axes `dim`; of integers and bools in int64 unless `dtype` says otherwise."""
    return reduction.reduce_sum(_counting(input, dtype, of="sum"), axes=axes_of(dim, of="sum"), keepdims=keepdim)


@tensor_method("sum")
@argument_aliases(dim="axis", keepdim="keepdims")
def _sum(input: Any, axis: Any = None, dtype: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
    """Sum over `axis`, plus `initial`; of integers and bools in int64 unless `dtype` says otherwise."""
    if isinstance(dtype, bool):  # x.sum(0, True)
        dtype, keepdims = None, dtype
    total = sum(input, axis, keepdims, dtype=dtype)
    return total if initial is None else total + initial


@public_op(primitive=Primitive("ReduceSum", made_with=("keep_dims", "skip_mode")))
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


@public_op(method="count_nonzero", primitive=Primitive("CountNonZero", made_with={"dims": "axis"}))
def count_nonzero(x: Any, axis: Any = (), keep_dims: bool = False, dtype: Any = "int32") -> Any:
    """The number of nonzero elements over `axis`."""
    nonzero = elementwise.cast(truth(x, "x", of="count_nonzero"), dtype=to_dtype(dtype))
    return reduction.reduce_sum(nonzero, axes=axes_of(axis, of="count_nonzero"), keepdims=keep_dims)


# ---- means ----


@public_op(method="mean", primitive=Primitive("ReduceMean", made_with=KEEP_DIMS))
@argument_aliases(dim="axis", keepdim="keep_dims")
def mean(x: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Mean over `axis` in the dtype of `x`; of integers it is rounded towards 0, of bools in float32."""
    x = as_tensor(x, "x", of="mean")
    axes = axes_of(axis, of="mean")
    keepdims = checks.of_type(keep_dims, "keep_dims", bool, of="mean")
    if x.dtype == bool_ or is_floating(x.dtype):
        return reduction.reduce_mean(floats(x, of="mean"), axes=axes, keepdims=keepdims)
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
    """Mean over `axis` of the elements that aren't NaN; NaN where there is none."""
    x = floats(input, of="nanmean")
    if dtype is not None:
        x = elementwise.cast(x, dtype=to_dtype(dtype))
    count = sum(elementwise.cast(comparison.equal(x, x), dtype=x.dtype), axis, keepdims)
    return nansum(x, axis, keepdims) / count


# ---- products ----


@public_op(method="prod")
@argument_aliases(dim="axis", keepdim="keep_dims")
def prod(input: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None) -> Any:
    """Product over `axis`; of integers and bools in int64 unless `dtype` says otherwise."""
    return products.reduce_prod(_counting(input, dtype, of="prod"), axes=axes_of(axis, of="prod"), keepdims=keep_dims)


@public_op(primitive=Primitive("ReduceProd", made_with=KEEP_DIMS))
def _reduce_prod(x: Any, axis: Any = (), keep_dims: bool = False) -> Any:
    """Product over `axis` in the dtype of `x`; of bools: whether all hold."""
    x = as_tensor(x, "x", of="ReduceProd")
    reduce = reduction.reduce_all if x.dtype == bool_ else products.reduce_prod
    return reduce(
        x, axes=axes_of(axis, of="ReduceProd"), keepdims=checks.of_type(keep_dims, "keep_dims", bool, of="ReduceProd")
    )


# ---- truth ----


@public_op(method="all", primitive=Primitive("ReduceAll", made_with=KEEP_DIMS))
@argument_aliases(dim="axis", keepdim="keep_dims")
def all(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Whether all elements over `axis` are nonzero."""
    axes, keepdims = axes_of(axis, of="all"), checks.of_type(keep_dims, "keep_dims", bool, of="all")
    return reduction.reduce_all(truth(input, of="all"), axes=axes, keepdims=keepdims)


@public_op(method="any", primitive=Primitive("ReduceAny", made_with=KEEP_DIMS))
@argument_aliases(dim="axis", keepdim="keep_dims")
def any(input: Any, axis: Any = None, keep_dims: bool = False) -> Any:
    """Whether any element over `axis` is nonzero."""
    axes, keepdims = axes_of(axis, of="any"), checks.of_type(keep_dims, "keep_dims", bool, of="any")
    return reduction.reduce_any(truth(input, of="any"), axes=axes, keepdims=keepdims)


# ---- logarithms of sums ----


@public_op(method="logsumexp")
def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Any:
    """log(sum(exp(input))) over the axes `dim`, computed around the largest element."""
    return reduction.logsumexp(floats(input, of="logsumexp"), axes=axes_of(dim, of="logsumexp"), keepdims=keepdim)


def _counting(input: Any, dtype: Any, *, of: str) -> Any:
    """The operand in `dtype`; without one, integers and bools become int64."""
    x = as_tensor(input, of=of)
    if dtype is None:
        return x if is_floating(x.dtype) else elementwise.cast(x, dtype=int64)
    return numbers(elementwise.cast(x, dtype=to_dtype(dtype)), of=of)


def _nan_as_zero(x: Any) -> Any:
    return elementwise.where(comparison.equal(x, x), x, zero(x)) if is_floating(x.dtype) else x
