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
from .operands import as_floating, as_numeric, as_tensor
from .public_op import Primitive, argument_aliases, public_op, tensor_method

_EXCLUSIVE_AND_REVERSE = ("exclusive", "reverse")


@public_op()
def cumsum(x: Any, axis: int, dtype: Any = None) -> Any:
    """Cumulative sum along `axis`, in the dtype of `x` or in `dtype`."""
    x = as_tensor(x, "x", of="cumsum") if dtype is None else _cast(x, dtype, of="cumsum")
    return scanning.cumsum(as_numeric(x, "x", of="cumsum"), axis=integer(axis, "axis", of="cumsum"))


@tensor_method("cumsum")
@argument_aliases(dim="axis")
def _cumsum(input: Any, axis: int | None = None, dtype: Any = None) -> Any:
    """Cumulative sum along `axis`, or of the flattened tensor if it is None."""
    if axis is None:
        input, axis = shaping.reshape(input, shape=(product(input.shape),)), 0
    return cumsum(input, axis, dtype)


@public_op(primitive=Primitive("CumSum", init_args=_EXCLUSIVE_AND_REVERSE))
def _cumulative_sum(input: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
    """`cumsum`; if `exclusive`, without the element itself; if `reverse`, from the end."""
    return _scan(scanning.cumsum, as_numeric(input, of="CumSum"), axis, exclusive, reverse, 0)


@public_op(method="cumprod")
@argument_aliases(axis="dim")
def cumprod(input: Any, dim: int, dtype: Any = None) -> Any:
    """Cumulative product along `dim`; integers are multiplied in int64 unless `dtype` is given."""
    x = as_tensor(input, of="cumprod")
    if dtype is not None:
        x = _cast(x, dtype, of="cumprod")
    elif not is_floating(x.dtype):
        x = elementwise.cast(x, dtype=int64)
    return scanning.cumprod(x, axis=integer(dim, "dim", of="cumprod"))


@public_op(primitive=Primitive("CumProd", init_args=_EXCLUSIVE_AND_REVERSE))
def _cumulative_product(x: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
    """`cumprod` in the dtype of `x`; if `exclusive`, without the element itself; if `reverse`, from the end."""
    return _scan(scanning.cumprod, as_numeric(x, "x", of="CumProd"), axis, exclusive, reverse, 1)


@public_op(method="cummax", primitive=Primitive("Cummax", init_args=("axis",)))
def cummax(input: Any, axis: int) -> Any:
    """Cumulative maximum along `axis`, and its index (int64; the last of equal elements)."""
    return scanning.cummax(as_numeric(input, of="cummax"), axis=integer(axis, "axis", of="cummax"))


@public_op(method="cummin", primitive=Primitive("Cummin", init_args=("axis",)))
def cummin(input: Any, axis: int) -> tuple[Any, Any]:
    """Cumulative minimum along `axis`, and its index (int32; the last of equal elements)."""
    values, indices = scanning.cummin(as_numeric(input, of="cummin"), axis=integer(axis, "axis", of="cummin"))
    return values, elementwise.cast(indices, dtype=int32)


@public_op(method="logcumsumexp")
def logcumsumexp(input: Any, axis: int) -> Any:
    """The logarithm of the cumulative sums of exp(input) along `axis`, without overflow."""
    x = as_floating(input, of="logcumsumexp")
    return scanning.logcumsumexp(x, axis=integer(axis, "axis", of="logcumsumexp"))


@public_op(primitive=Primitive("CumulativeLogsumexp", init_args=_EXCLUSIVE_AND_REVERSE))
def _cumulative_logsumexp(x: Any, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
    """`logcumsumexp`; if `exclusive`, without the element itself; if `reverse`, from the end."""
    x = as_floating(x, "x", of="CumulativeLogsumexp")
    return _scan(scanning.logcumsumexp, x, axis, exclusive, reverse, float("-inf"))


@public_op(method="diff")
def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """`n`-th differences of neighbours along `axis`, after `prepend` and `append`, if given, are joined to `x`.

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
    """Apply `op` along `axis`; if `exclusive`, without the element itself; if `reverse`, from the end."""
    at = normalize_axis(integer(axis, "axis", of=op.name), x.ndim)
    if reverse:
        x = shaping.flip(x, axes=(at,))
    if exclusive:
        shift = tuple(int(i == at) for i in range(x.ndim))
        x = slicing.pad(x, before=shift, after=tuple(-step for step in shift), value=start)
    y = op(x, axis=at)
    return shaping.flip(y, axes=(at,)) if reverse else y


def _cast(x: Any, dtype: Any, *, of: str) -> Any:
    return elementwise.cast(as_tensor(x, of=of), dtype=to_dtype(dtype))
