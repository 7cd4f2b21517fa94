"""ONNX comparisons, logical and bitwise operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import BOOL, is_floating
from ....runtime.ops import comparison
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .elementwise import align_to_axis
from .table import onnx


def _register(name: str, dtype: np.dtype[Any] | None = None) -> None:
    def translation(
        context: Context, A: SymbolicTensor, B: SymbolicTensor, *, axis: int | None = None, broadcast: int = 0
    ) -> Any:
        return context.broadcast(name, A, align_to_axis(A, B, axis), dtype=dtype or A.dtype)

    translation.__doc__ = f"{name}-1..19(A, B) -> C"
    onnx(name)(translation)


for _name in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor"):
    _register(_name, BOOL)
for _name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
    _register(_name)


@onnx("BitShift")
def bit_shift(context: Context, X: SymbolicTensor, Y: SymbolicTensor, *, direction: str) -> Any:
    """BitShift-11..28(X, Y) -> Z"""
    if direction not in ("LEFT", "RIGHT"):
        raise ShapeError(f"direction must be LEFT or RIGHT, given {direction!r}")
    return (comparison.left_shift if direction == "LEFT" else comparison.right_shift)(X, Y)


@onnx("IsInf")
def is_inf(context: Context, X: SymbolicTensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    """IsInf-10..20(X) -> Y"""
    if not is_floating(X.dtype):
        return context.full(X.shape, False, BOOL)
    infinite = comparison.isinf(X)
    zero = np.zeros((), X.dtype)
    if not detect_negative:
        infinite = comparison.logical_and(infinite, comparison.greater(X, zero))
    if not detect_positive:
        infinite = comparison.logical_and(infinite, comparison.less(X, zero))
    return infinite
