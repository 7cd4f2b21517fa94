"""Elementwise comparisons and tests, which return bools. They have no gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import bool_
from ..ir.types import is_floating
from ..ops import comparison, elementwise, reduction
from ..ops.registry import Op
from ..tensor_like import TensorLike
from .operands import as_floating, as_tensor, promote_pair
from .public_op import Primitive, public_op, tensor_method

# ---- two operands, which broadcast ----


@public_op(method=("equal", "eq"), primitive="Equal", alias="eq")
def equal(input: Any, other: Any) -> Any:
    """Whether `input == other`, elementwise."""
    return comparison.equal(*promote_pair(input, other, of="equal"))


@public_op(method=("not_equal", "ne"), primitive="NotEqual", alias="ne")
def not_equal(input: Any, other: Any) -> Any:
    """Whether `input != other`, elementwise."""
    return comparison.not_equal(*promote_pair(input, other, of="not_equal"))


@public_op(method=("less", "lt", "__lt__"), primitive="Less", alias=("lt", "tensor_lt"))
def less(input: Any, other: Any) -> Any:
    """Whether `input < other`, elementwise."""
    return comparison.less(*promote_pair(input, other, of="less"))


@public_op(method=("less_equal", "le", "__le__"), primitive="LessEqual", alias=("le", "tensor_le"))
def less_equal(input: Any, other: Any) -> Any:
    """Whether `input <= other`, elementwise."""
    return comparison.less_equal(*promote_pair(input, other, of="less_equal"))


@public_op(method=("greater", "gt", "__gt__"), primitive="Greater", alias=("gt", "tensor_gt"))
def greater(input: Any, other: Any) -> Any:
    """Whether `input > other`, elementwise."""
    return comparison.greater(*promote_pair(input, other, of="greater"))


@public_op(method=("greater_equal", "ge", "__ge__"), primitive="GreaterEqual", alias=("ge", "tensor_ge"))
def greater_equal(input: Any, other: Any) -> Any:
    """Whether `input >= other`, elementwise."""
    return comparison.greater_equal(*promote_pair(input, other, of="greater_equal"))


@tensor_method("__eq__")
def _eq(input: Any, other: Any) -> Any:
    """`equal` for values that can be compared with a tensor; for others, such as None, Python returns False."""
    return equal(input, other) if isinstance(other, _COMPARABLE) else NotImplemented


@tensor_method("__ne__")
def _ne(input: Any, other: Any) -> Any:
    return not_equal(input, other) if isinstance(other, _COMPARABLE) else NotImplemented


_COMPARABLE = (TensorLike, bool, int, float, np.ndarray, np.generic)


# ---- approximate ----


@public_op(method="isclose", primitive=Primitive("IsClose", init_args=("rtol", "atol", "equal_nan")))
def isclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    """Whether `|input - other| <= atol + rtol * |other|`, elementwise.

    Infinities are close only if they are equal. NaN isn't close to anything, except to NaN with `equal_nan`.
    `ValueError` if a tolerance is negative.
    """
    checks.in_range(rtol, "rtol", "[0, inf)", of="isclose")
    checks.in_range(atol, "atol", "[0, inf)", of="isclose")
    a, b = promote_pair(input, other, of="isclose")
    same = comparison.equal(a, b)
    a, b = as_floating(a, of="isclose"), as_floating(b, "other", of="isclose")
    distance = elementwise.abs(a - b)
    near = less_equal(distance, elementwise.abs(b) * rtol + atol)
    close = comparison.logical_or(same, comparison.logical_and(near, comparison.isfinite(distance)))
    if not equal_nan:
        return close
    return comparison.logical_or(close, comparison.logical_and(comparison.isnan(a), comparison.isnan(b)))


@tensor_method("allclose")
def _allclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close; see `isclose`."""
    return bool(reduction.reduce_all(isclose(input, other, rtol, atol, equal_nan)))


@public_op(method="approximate_equal", primitive=Primitive("ApproximateEqual", init_args=("tolerance",)))
def approximate_equal(x: Any, y: Any, tolerance: float = 1e-5) -> Any:
    """Whether `|x - y| < tolerance`, elementwise."""
    a, b = promote_pair(x, y, of="approximate_equal")
    return less(elementwise.abs(a - b), tolerance)


# ---- one operand ----


@public_op(method="isnan", primitive="IsNan")
def isnan(input: Any) -> Any:
    """Whether elements are NaN."""
    return _test(comparison.isnan, input, whole=False)


@public_op(method="isinf", primitive="IsInf")
def isinf(input: Any) -> Any:
    """Whether elements are infinite, of either sign."""
    return _test(comparison.isinf, input, whole=False)


@public_op(method="isfinite", primitive="IsFinite")
def isfinite(input: Any) -> Any:
    """Whether elements are neither infinite nor NaN."""
    return _test(comparison.isfinite, input, whole=True)


@public_op(method="isposinf")
def isposinf(input: Any) -> Any:
    """Whether elements are positive infinity."""
    return equal(input, math.inf)


@public_op(method="isneginf")
def isneginf(input: Any) -> Any:
    """Whether elements are negative infinity."""
    return equal(input, -math.inf)


def _test(op: Op, input: Any, *, whole: bool) -> Any:
    """Apply `op` to floating-point numbers; return `whole` for each integer or bool."""
    x = as_tensor(input, of=op.name)
    if is_floating(x.dtype):
        return op(x)
    trues = comparison.equal(x, x)
    return trues if whole else comparison.logical_not(trues)


def as_bools(x: Any, name: str = "input", *, of: str) -> Any:
    """Convert an operand to bools: whether its elements are nonzero."""
    x = as_tensor(x, name, of=of)
    return x if x.dtype == bool_ else elementwise.cast(x, dtype=bool_)
