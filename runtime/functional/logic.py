"""Logical and bitwise operators, and selection by a condition."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..common.dtype import bool_, dtype_name
from ..ir.types import is_floating
from ..ops import comparison, elementwise, shaping, slicing
from ..ops.common import normalize_axis
from ..ops.registry import Op
from ..tensor_like import TensorLike
from .comparisons import as_bools, equal, isnan
from .operands import as_tensor, promote_pair
from .public_op import Primitive, public_op, tensor_method

# ---- logical: nonzero numbers count as True ----


@public_op(method="logical_and", primitive="LogicalAnd")
def logical_and(input: Any, other: Any) -> Any:
    """Logical and, elementwise."""
    return comparison.logical_and(*_bool_pair(input, other, of="logical_and"))


@public_op(method="logical_or", primitive="LogicalOr")
def logical_or(input: Any, other: Any) -> Any:
    """Logical or, elementwise."""
    return comparison.logical_or(*_bool_pair(input, other, of="logical_or"))


@public_op(method="logical_xor", primitive="LogicalXor")
def logical_xor(input: Any, other: Any) -> Any:
    """Logical exclusive or, elementwise."""
    return comparison.logical_xor(*_bool_pair(input, other, of="logical_xor"))


@public_op(method=("logical_not", "__invert__"), primitive="LogicalNot")
def logical_not(input: Any) -> Any:
    """Logical not, elementwise."""
    return comparison.logical_not(as_bools(input, of="logical_not"))


def _bool_pair(a: Any, b: Any, *, of: str) -> tuple[Any, Any]:
    return as_bools(a, of=of), as_bools(b, "other", of=of)


# ---- bitwise ----


@public_op(method=("bitwise_and", "__and__"), primitive="BitwiseAnd")
def bitwise_and(input: Any, other: Any) -> Any:
    """Bitwise and, elementwise; integers or bools."""
    return _apply_bitwise(comparison.bitwise_and, input, other)


@public_op(method=("bitwise_or", "__or__"), primitive="BitwiseOr")
def bitwise_or(input: Any, other: Any) -> Any:
    """Bitwise or, elementwise; integers or bools."""
    return _apply_bitwise(comparison.bitwise_or, input, other)


@public_op(method=("bitwise_xor", "__xor__"), primitive="BitwiseXor")
def bitwise_xor(input: Any, other: Any) -> Any:
    """Bitwise exclusive or, elementwise; integers or bools."""
    return _apply_bitwise(comparison.bitwise_xor, input, other)


@public_op(method=("bitwise_not", "invert"), primitive="Invert", alias="bitwise_not")
def invert(x: Any) -> Any:
    """Bitwise complement; integers or bools."""
    return _apply_bitwise(comparison.bitwise_not, x)


@public_op(method=("bitwise_left_shift", "__lshift__"), primitive="LeftShift")
def bitwise_left_shift(input: Any, other: Any) -> Any:
    """`input` shifted left by `other` bits, elementwise; bits beyond the width are lost; integers."""
    return _apply_bitwise(comparison.left_shift, input, other)


@public_op(method=("bitwise_right_shift", "__rshift__"), primitive="RightShift")
def bitwise_right_shift(input: Any, other: Any) -> Any:
    """`input` shifted right by `other` bits, elementwise: divided by `2**other` and rounded down; integers."""
    return _apply_bitwise(comparison.right_shift, input, other)


def _apply_bitwise(op: Op, *operands: Any) -> Any:
    tensors = promote_pair(*operands, of=op.name) if len(operands) == 2 else (as_tensor(operands[0], of=op.name),)
    if is_floating(tensors[0].dtype):
        raise TypeError(f"For '{op.name}', operands must be integers or bools, but got {dtype_name(tensors[0].dtype)}")
    return op(*tensors)


# ---- selection ----


@public_op(primitive="Select", alias="select")
def where(condition: Any, input: Any, other: Any) -> Any:
    """`input` where the bool tensor `condition` is True, `other` elsewhere; all three broadcast.

    `TypeError` if `condition` isn't a tensor of bools.
    """
    if not isinstance(condition, (TensorLike, np.ndarray)) or condition.dtype != bool_:
        kind = dtype_name(condition.dtype) if isinstance(condition, TensorLike) else type(condition).__name__
        raise TypeError(f"For 'where', 'condition' must be a Tensor of bools, but got {kind}; compare with 0 first")
    return elementwise.where(condition, *promote_pair(input, other, of="where"))


@tensor_method("where")
def _where(input: Any, condition: Any, y: Any) -> Any:
    """`input` where the bool tensor `condition` is True, `y` elsewhere."""
    return where(condition, input, y)


@tensor_method("select")
def _select(self: Any, condition: Any, y: Any) -> Any:
    """The tensor where the bool tensor `condition` is True, `y` elsewhere.

    With two ints, the slice at index `y` along axis `condition`.
    """
    if isinstance(condition, int) and isinstance(y, int):
        axis, size = normalize_axis(condition, self.ndim), self.shape[condition]
        start = y + size if y < 0 else y
        row = slicing.slice(self, starts=(start,), stops=(start + 1,), steps=(1,), axes=(axis,))
        return shaping.reshape(row, shape=(*self.shape[:axis], *self.shape[axis + 1 :]))
    return where(condition, self, y)


@public_op(method="nan_to_num", primitive=Primitive("NanToNum", init_args=("nan", "posinf", "neginf")))
def nan_to_num(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Replace NaN by `nan`, and infinities by `posinf` and `neginf`.

    The defaults are 0, and the largest and smallest finite number of the dtype.
    """
    x = as_tensor(input, of="nan_to_num")
    if not is_floating(x.dtype):
        return x
    limits = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]
    x = elementwise.where(isnan(x), np.asarray(0 if nan is None else nan, x.dtype), x)
    x = elementwise.where(equal(x, np.inf), np.asarray(limits.max if posinf is None else posinf, x.dtype), x)
    return elementwise.where(equal(x, -np.inf), np.asarray(limits.min if neginf is None else neginf, x.dtype), x)
