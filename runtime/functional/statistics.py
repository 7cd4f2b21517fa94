"""Variances, standard deviations and medians.

The divisor of a variance is the number of elements minus `ddof`, which is 0 by default.
"""

from __future__ import annotations

from typing import Any

from ..common.dtype import int64
from ..ir.dims import product
from ..ir.types import is_floating
from ..ops import comparison, elementwise, indexing, reduction, shaping, sorting
from ..ops.common import normalize_axis
from .arguments import integer
from .operands import as_floating, as_numeric, as_tensor
from .public_op import Primitive, argument_aliases, public_op
from .reductions import axes_of, mean
from .sorting import nth_smallest

# ---- variances ----


@public_op(method="var")
@argument_aliases(dim="axis", correction="ddof", keepdim="keepdims")
def var(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Variance over `axis`: squared deviations from the mean, summed and divided by n - ddof."""
    axes, correction = axes_of(axis, of="var"), _degrees(ddof, of="var")
    return reduction.variance(as_floating(input, of="var"), axes=axes, correction=correction, keepdims=keepdims)


@public_op(method="std")
@argument_aliases(dim="axis", correction="ddof", keepdim="keepdims")
def std(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> Any:
    """Standard deviation over `axis`, the square root of `var`."""
    return elementwise.sqrt(var(input, axis, ddof, keepdims))


@public_op()
def var_mean(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> tuple[Any, Any]:
    """Variance and mean over `axis`."""
    x = as_floating(input, of="var_mean")
    return var(x, axis, ddof, keepdims), mean(x, axis, keepdims)


@public_op()
def std_mean(input: Any, axis: Any = None, ddof: int = 0, keepdims: bool = False) -> tuple[Any, Any]:
    """Standard deviation and mean over `axis`."""
    x = as_floating(input, of="std_mean")
    return std(x, axis, ddof, keepdims), mean(x, axis, keepdims)


@public_op(primitive=Primitive("ReduceStd", init_args=("axis", "unbiased", "keep_dims")))
def _reduce_std(x: Any, axis: Any = (), unbiased: bool = True, keep_dims: bool = False) -> Any:
    """Standard deviation (divided by n - 1 if `unbiased`) and mean over `axis`."""
    return std_mean(x, axis, int(unbiased), keep_dims)


def _degrees(ddof: int, *, of: str) -> int:
    return int(ddof) if isinstance(ddof, bool) else integer(ddof, "ddof", of=of)


# ---- medians ----


@public_op(method="median")
@argument_aliases(dim="axis", keepdim="keepdims")
def median(input: Any, axis: int = -1, keepdims: bool = False) -> tuple[Any, Any]:
    """Median along `axis` (the smaller of two middle elements), and its index (int64)."""
    x = as_numeric(input, of="median")
    axis = normalize_axis(integer(axis, "axis", of="median"), x.ndim)
    return nth_smallest(x, (x.shape[axis] - 1) // 2 if x.ndim else 0, axis, keepdims)


@public_op(method="nanmedian")
@argument_aliases(dim="axis", keepdim="keepdims")
def nanmedian(input: Any, axis: int = -1, keepdims: bool = False) -> tuple[Any, Any]:
    """`median` of the elements that aren't NaN; NaN if all are NaN."""
    x = as_numeric(input, of="nanmedian")
    if not is_floating(x.dtype) or not x.ndim:
        value, index = median(x, axis, keepdims)
        return value, index
    at = normalize_axis(integer(axis, "axis", of="nanmedian"), x.ndim)
    order = sorting.sort(x, axis=at)[1]  # NaN last
    is_number = elementwise.cast(comparison.equal(x, x), dtype=int64)
    count = reduction.reduce_sum(is_number, axes=(at,), keepdims=True)
    position = elementwise.clamp(count - 1, minimum=0) // 2
    index = indexing.gather(order, position, axis=at)
    value = indexing.gather(x, index, axis=at)
    if keepdims:
        return value, index
    shape = tuple(size for i, size in enumerate(x.shape) if i != at)
    return shaping.reshape(value, shape=shape), shaping.reshape(index, shape=shape)


@public_op(primitive=Primitive("Median", init_args=("global_median", "axis", "keep_dims")))
def _median(x: Any, global_median: bool = False, axis: int = 0, keep_dims: bool = False) -> Any:
    """`median` along `axis`, or of all elements."""
    if not global_median:
        return median(x, axis, keep_dims)
    x = as_tensor(x, "x", of="Median")
    return median(shaping.reshape(x, shape=(product(x.shape),)))
