"""Functions for ONNX operators on operands whose broadcasting is known only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import is_floating
from ..ops import comparison, elementwise, linear, rounding, slicing
from ..ops.registry import Op, Tensor
from .registry import onnx_function


def _register(name: str, op: Op) -> None:
    @onnx_function(name)
    def apply(A: Tensor, B: Tensor) -> Any:
        return op(A, B)

    apply.__doc__ = f"{name}."


for _name, _op in {
    "Add": elementwise.add,
    "And": comparison.logical_and,
    "BitwiseAnd": comparison.bitwise_and,
    "BitwiseOr": comparison.bitwise_or,
    "BitwiseXor": comparison.bitwise_xor,
    "Equal": comparison.equal,
    "Greater": comparison.greater,
    "GreaterOrEqual": comparison.greater_equal,
    "Less": comparison.less,
    "LessOrEqual": comparison.less_equal,
    "Max": elementwise.maximum,
    "Min": elementwise.minimum,
    "Mul": elementwise.mul,
    "Or": comparison.logical_or,
    "Sub": elementwise.sub,
    "Xor": comparison.logical_xor,
}.items():
    _register(_name, _op)


@onnx_function("Div")
def div(A: Tensor, B: Tensor) -> Any:
    """Div-14; the quotient of integers is rounded towards zero."""
    if is_floating(A.dtype):
        return elementwise.div(A, B)
    return rounding.floor_divide(elementwise.sub(A, rounding.fmod(A, B)), B)


@onnx_function("Mod")
def mod(A: Tensor, B: Tensor, *, fmod: int = 0) -> Any:
    """Mod-13; the result has the sign of the divisor or, with `fmod`, of the dividend."""
    return rounding.fmod(A, B) if fmod else rounding.remainder(A, B)


@onnx_function("Pow")
def pow(X: Tensor, Y: Tensor) -> Any:
    """Pow-15; the result has the dtype of X."""
    if X.dtype == Y.dtype:
        return elementwise.pow(X, Y)
    if is_floating(X.dtype) or not is_floating(Y.dtype):
        return elementwise.pow(X, elementwise.cast(Y, dtype=X.dtype))
    wide = np.dtype(np.float64) if X.dtype.itemsize > 4 else Y.dtype
    power = elementwise.pow(elementwise.cast(X, dtype=wide), elementwise.cast(Y, dtype=wide))
    return elementwise.cast(power, dtype=X.dtype)


@onnx_function("MatMul")
def matmul(A: Tensor, B: Tensor) -> Any:
    """MatMul-13."""
    return linear.matmul(A, B)


@onnx_function("Concat")
def concat(*inputs: Tensor, axis: int) -> Any:
    """Concat-13."""
    return slicing.concat(*inputs, axis=axis)


@onnx_function("Where")
def where(condition: Tensor, X: Tensor, Y: Tensor) -> Any:
    """Where-16."""
    return elementwise.where(condition, X, Y)
