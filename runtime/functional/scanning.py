"""Cumulative sums, products and extremes along an axis, and differences."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import bool_, int32, int64, to_dtype
from ..ir.dims import product
from ..ir.types import is_floating
from ..ops import elementwise, scanning, shaping, slicing
from ..ops.common import normalize_axis
from ..ops.registry import Op
from .arguments import integer
from .operands import as_tensor, floats, numbers
from .public_op import Primitive, argument_aliases, public_op, tensor_method

_EXCLUSIVE_AND_REVERSE = ("exclusive", "reverse")


@public_op()
def cumsum(x: Any, axis: int, dtype: Any = None) -> Any:
    """Sums of the elements up to and including each, along `axis`, in the dtype of `x` or in `dtype`."""
    x = as_tensor(x, "x", of="cumsum") if dtype is None else _in(x, dtype, of="cumsum")
    return scanning.cumsum(numbers(x, "x", of="cumsum"), axis=integer(axis, "axis", of="cumsum"))


@tensor_method("cumsum")
@argument_aliases(dim="axis")
def _cumsum(input: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Sums of the elements up to and including each, along `axis`, or of the tensor flattened."""
    if axis is None:
        input, axis = shaping.reshape(input, shape=(product(input.shape),)), 0
    return cumsum(input, axis, dtype)


@public_op(primitive=Primitive("CumSum", made_with=_EXCLUSIVE_AND_REVERSE))
def _cumulative_sum(input: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
    """`cumsum`; without each element itself if `exclusive`, from the end if `reverse`."""
    return _scan(scanning.cumsum, numbers(input, of="CumSum"), axis, exclusive, reverse, 0)


@public_op(method="cumprod")
@argument_aliases(axis="dim")
def cumprod(input: Any, dim: int, dtype: Any = None) -> Any:
    """Products of the elements up to and including each, along `dim`; of integers in int64 unless `dtype` says more."""
    x = as_tensor(input, of="cumprod")
    if dtype is not None:
        x = _in(x, dtype, of="cumprod")
    elif not is_floating(x.dtype):
        x = elementwise.cast(x, dtype=int64)
    return scanning.cumprod(x, axis=integer(dim, "dim", of="cumprod"))


@public_op(primitive=Primitive("CumProd", made_with=_EXCLUSIVE_AND_REVERSE))
def _cumulative_product(x: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
    """Cumulative products in the dtype of `x`; without each element if `exclusive`, from the end if `reverse`."""
    return _scan(scanning.cumprod, numbers(x, "x", of="CumProd"), axis, exclusive, reverse, 1)


@public_op(method="cummax", primitive=Primitive("Cummax", made_with=("axis",)))
def cummax(input: Any, axis: int) -> Any:
    """The largest of the elements up to each along `axis`, and its index (int64; the last of equals)."""
    return scanning.cummax(numbers(input, of="cummax"), axis=integer(axis, "axis", of="cummax"))


@public_op(method="cummin", primitive=Primitive("Cummin", made_with=("axis",)))
def cummin(input: Any, axis: int) -> tuple[Any, Any]:
    """The smallest of the elements up to each along `axis`, and its index (int32; the last of equals)."""
    values, indices = scanning.cummin(numbers(input, of="cummin"), axis=integer(axis, "axis", of="cummin"))
    return values, elementwise.cast(indices, dtype=int32)


@public_op(method="logcumsumexp")
def logcumsumexp(input: Any, axis: int) -> Any:
    """The logarithm of the cumulative sums of exp(input) along `axis`, without overflow."""
    x = floats(input, of="logcumsumexp")
    return scanning.logcumsumexp(x, axis=integer(axis, "axis", of="logcumsumexp"))


@public_op(primitive=Primitive("CumulativeLogsumexp", made_with=_EXCLUSIVE_AND_REVERSE))
def _cumulative_logsumexp(x: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
    """`logcumsumexp`; without each element itself if `exclusive`, from the end if `reverse`."""
    x = floats(x, "x", of="CumulativeLogsumexp")
    return _scan(scanning.logcumsumexp, x, axis, exclusive, reverse, float("-inf"))


@public_op(method="diff")
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `axis`, taken `n` times, of `x` between `prepend` and `append` if given.

    Raises:
        TypeError: `x` holds bools.
        ValueError: `n` is negative, or `x` has no axis.
    """
    x = as_tensor(x, "x", of="diff")
    if x.dtype == bool_:
        raise TypeError("For 'diff', 'x' must hold numbers, but got dtype Bool")
    if not x.ndim:
        raise ValueError("For 'diff', 'x' must have one dimension at least, but got shape ()")
    checks.in_range(n, "n", "[0, inf)", of="diff")
    at = normalize_axis(integer(axis, "axis", of="diff"), x.ndim)
    parts = [as_tensor(part, of="diff") for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        x = slicing.concat(*parts, axis=at)
    for _ in range(n):
        size = x.shape[at]
        later = slicing.slice(x, starts=(1,), stops=(size,), steps=(1,), axes=(at,))
        x = elementwise.sub(later, slicing.slice(x, starts=(0,), stops=(size - 1,), steps=(1,), axes=(at,)))
    return x


def _scan(op: Op, x: Any, axis: Any, exclusive: bool, reverse: bool, start: float) -> Any:
    """`op` along `axis`, from the end if `reverse`; if `exclusive`, up to each element but without it."""
    at = normalize_axis(integer(axis, "axis", of=op.name), x.ndim)
    if reverse:
        x = shaping.flip(x, axes=(at,))
    if exclusive:
        shift = tuple(int(i == at) for i in range(x.ndim))
        x = slicing.pad(x, before=shift, after=tuple(-step for step in shift), value=start)
    y = op(x, axis=at)
    return shaping.flip(y, axes=(at,)) if reverse else y


def _in(x: Any, dtype: Any, *, of: str) -> Any:
    return elementwise.cast(as_tensor(x, of=of), dtype=to_dtype(dtype))
