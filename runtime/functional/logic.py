"""Logic of truth values, bits of integers, and choice by a condition."""

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
from .comparisons import equal, isnan, truth
from .operands import as_tensor, pair
from .public_op import Primitive, public_op, tensor_method

# ---- logic: every number but 0 counts as true ----


@public_op(method="logical_and", primitive="LogicalAnd")
def logical_and(input: Any, other: Any) -> Any:
    """Whether both hold, elementwise."""
    return comparison.logical_and(*_truths(input, other, of="logical_and"))


@public_op(method="logical_or", primitive="LogicalOr")
def logical_or(input: Any, other: Any) -> Any:
    """Whether at least one holds, elementwise."""
    return comparison.logical_or(*_truths(input, other, of="logical_or"))


@public_op(method="logical_xor", primitive="LogicalXor")
def logical_xor(input: Any, other: Any) -> Any:
    """Whether exactly one holds, elementwise."""
    return comparison.logical_xor(*_truths(input, other, of="logical_xor"))


@public_op(method=("logical_not", "__invert__"), primitive="LogicalNot")
def logical_not(input: Any) -> Any:
    """Whether it doesn't hold, elementwise."""
    return comparison.logical_not(truth(input, of="logical_not"))


def _truths(a: Any, b: Any, *, of: str) -> tuple[Any, Any]:
    return truth(a, of=of), truth(b, "other", of=of)


# ---- bits ----


@public_op(method=("bitwise_and", "__and__"), primitive="BitwiseAnd")
def bitwise_and(input: Any, other: Any) -> Any:
    """Bitwise and, elementwise; integers or bools."""
    return _bits(comparison.bitwise_and, input, other)


@public_op(method=("bitwise_or", "__or__"), primitive="BitwiseOr")
def bitwise_or(input: Any, other: Any) -> Any:
    """Bitwise or, elementwise; integers or bools."""
    return _bits(comparison.bitwise_or, input, other)


@public_op(method=("bitwise_xor", "__xor__"), primitive="BitwiseXor")
def bitwise_xor(input: Any, other: Any) -> Any:
    """Bitwise exclusive or, elementwise; integers or bools."""
    return _bits(comparison.bitwise_xor, input, other)


@public_op(method=("bitwise_not", "invert"), primitive="Invert", alias="bitwise_not")
def invert(x: Any) -> Any:
    """Bitwise complement; integers or bools."""
    return _bits(comparison.bitwise_not, x)


@public_op(method=("bitwise_left_shift", "__lshift__"), primitive="LeftShift")
def bitwise_left_shift(input: Any, other: Any) -> Any:
    """`input` times 2 to the power of `other`, bits beyond the width lost; integers."""
    return _bits(comparison.left_shift, input, other)


@public_op(method=("bitwise_right_shift", "__rshift__"), primitive="RightShift")
def bitwise_right_shift(input: Any, other: Any) -> Any:
    """`input` divided by 2 to the power of `other`, rounded down; integers."""
    return _bits(comparison.right_shift, input, other)


def _bits(op: Op, *operands: Any) -> Any:
    tensors = pair(*operands, of=op.name) if len(operands) == 2 else (as_tensor(operands[0], of=op.name),)
    if is_floating(tensors[0].dtype):
        raise TypeError(f"For '{op.name}', operands must be integers or bools, but got {dtype_name(tensors[0].dtype)}")
    return op(*tensors)


# ---- choice ----


@public_op(primitive="Select", alias="select")
def where(condition: Any, input: Any, other: Any) -> Any:
    """`input` where the bool tensor `condition` holds, `other` elsewhere; all three broadcast.

    `TypeError` if `condition` isn't a tensor of bools.
    """
    if not isinstance(condition, (TensorLike, np.ndarray)) or condition.dtype != bool_:
        given = dtype_name(condition.dtype) if isinstance(condition, TensorLike) else type(condition).__name__
        raise TypeError(f"For 'where', 'condition' must be a Tensor of bools, but got {given}; compare with 0 first")
    return elementwise.where(condition, *pair(input, other, of="where"))


@tensor_method("where")
def _where(input: Any, condition: Any, y: Any) -> Any:
    """`input` where the bool tensor `condition` holds, `y` elsewhere."""
    return where(condition, input, y)


@tensor_method("select")
def _select(self: Any, condition: Any, y: Any) -> Any:
    """The tensor where the bool tensor `condition` holds, `y` elsewhere; of two ints, slice `y` of axis `condition`."""
    if isinstance(condition, int) and isinstance(y, int):
        axis, size = normalize_axis(condition, self.ndim), self.shape[condition]
        start = y + size if y < 0 else y
        row = slicing.slice(self, starts=(start,), stops=(start + 1,), steps=(1,), axes=(axis,))
        return shaping.reshape(row, shape=(*self.shape[:axis], *self.shape[axis + 1 :]))
    return where(condition, self, y)


@public_op(method="nan_to_num", primitive=Primitive("NanToNum", made_with=("nan", "posinf", "neginf")))
def nan_to_num(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """`input` with NaN replaced by `nan` (0), infinities by `posinf` and `neginf` (the largest and smallest number)."""
    x = as_tensor(input, of="nan_to_num")
    if not is_floating(x.dtype):
        return x
    limits = ml_dtypes.finfo(x.dtype)  # type: ignore[no-untyped-call]
    x = elementwise.where(isnan(x), np.asarray(0 if nan is None else nan, x.dtype), x)
    x = elementwise.where(equal(x, np.inf), np.asarray(limits.max if posinf is None else posinf, x.dtype), x)
    return elementwise.where(equal(x, -np.inf), np.asarray(limits.min if neginf is None else neginf, x.dtype), x)
