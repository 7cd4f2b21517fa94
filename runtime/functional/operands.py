"""Conversion of the operands of elementwise operators to one dtype."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.dtype import bool_, dtype_name, float32, int64, promote
from ..common.tensor import Tensor, create
from ..ir.dims import SymbolicDim
from ..ir.types import is_floating
from ..ops import creation, elementwise
from ..precision import casts_operands
from ..tensor_like import TensorLike


def as_tensor(value: Any, name: str = "input", *, of: str = "an operator") -> Any:
    """Convert `value` to a tensor; `TypeError` names the argument and the operator."""
    if isinstance(value, TensorLike):
        return value
    if isinstance(value, (bool, int, float, np.ndarray, np.generic, list, tuple)):
        return Tensor(value)
    if isinstance(value, SymbolicDim):
        return _number(value, int64)
    package = type(value).__module__.partition(".")[0]
    kind = type(value).__name__ if package == "builtins" else f"{package}'s {type(value).__name__}"
    advice = ": convert it, Tensor(x.numpy())" if hasattr(value, "numpy") else ""
    raise TypeError(f"For '{of}', '{name}' must be a Tensor, but got {kind}: {value!r}{advice}")


def promote_pair(a: Any, b: Any, *, of: str) -> tuple[Any, Any]:
    """Convert two operands to the dtype in which an elementwise operator computes.

    A Python number takes the dtype of the tensor operand; a float converts an integer tensor to float32, an int
    converts a bool tensor to int64. `common.dtype.promote` determines the dtype of two tensors.
    """
    if isinstance(a, TensorLike) and isinstance(b, TensorLike):
        if a.dtype == b.dtype:
            return a, b
    elif isinstance(a, TensorLike) and isinstance(b, _NUMBER):
        dtype = _dtype_with_number(a.dtype, b)
        return _cast(a, dtype), _number(b, dtype)
    elif isinstance(b, TensorLike) and isinstance(a, _NUMBER):
        dtype = _dtype_with_number(b.dtype, a)
        return _number(a, dtype), _cast(b, dtype)
    a, b = as_tensor(a, "input", of=of), as_tensor(b, "other", of=of)
    dtype = promote(a.dtype, b.dtype)
    return _cast(a, dtype), _cast(b, dtype)


def as_floating(x: Any, name: str = "input", *, of: str) -> Any:
    """Convert the operand of a function of real numbers: integers and bools become float32."""
    x = as_tensor(x, name, of=of)
    return x if is_floating(x.dtype) else elementwise.cast(x, dtype=float32)


def require_floating(x: Any, name: str = "input", *, of: str) -> Any:
    """Check the operand of a function of floating-point numbers: `TypeError` for another dtype."""
    x = as_tensor(x, name, of=of)
    if not is_floating(x.dtype):
        raise TypeError(f"For '{of}', '{name}' must have a floating-point dtype, but got {dtype_name(x.dtype)}")
    return x


def as_numeric(x: Any, name: str = "input", *, of: str) -> Any:
    """Convert the operand of an operator on numbers: bools become int64."""
    x = as_tensor(x, name, of=of)
    return elementwise.cast(x, dtype=int64) if x.dtype == bool_ else x


def common_dtype(xs: Sequence[Any]) -> tuple[Any, ...]:
    """Convert tensors to their common dtype."""
    dtype = functools.reduce(promote, (x.dtype for x in xs))
    return tuple(_cast(x, dtype) for x in xs)


def require_one_dtype(*xs: Any, of: str) -> None:
    """Raise `TypeError` unless the tensors have one dtype, or `Cell.to_float` will cast them to one."""
    dtypes = list(dict.fromkeys(x.dtype for x in xs))
    if len(dtypes) > 1 and not (casts_operands() and all(map(is_floating, dtypes))):
        names = " and ".join(map(dtype_name, dtypes))
        raise TypeError(f"For '{of}', the operands must have one type, but got {names}: cast one, x.astype(dtype)")


_NUMBER = (bool, int, float, SymbolicDim)
Number = bool | int | float | SymbolicDim


def _dtype_with_number(dtype: np.dtype[Any], number: Number) -> np.dtype[Any]:
    if is_floating(dtype) or isinstance(number, bool):
        return dtype
    if isinstance(number, float):
        return float32
    return int64 if dtype == bool_ else dtype


def _number(number: Number, dtype: np.dtype[Any]) -> Any:
    """Convert a number to an array of a dtype, or a symbolic size to a tensor.

    An int that doesn't fit wraps around: -1 is 255 in uint8.
    """
    if isinstance(number, SymbolicDim):
        return create(creation.full, shape=(), value=number, dtype=dtype)
    return np.asarray(np.asarray(number).astype(dtype) if dtype.kind in "iu" else number, dtype)


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    return x if x.dtype == dtype else elementwise.cast(x, dtype=dtype)
