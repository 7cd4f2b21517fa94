"""ONNX elementwise operators: arithmetic, functions of one number, extremes, casts."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ops import (
    activation,
    boundary,
    comparison,
    elementwise,
    rectifier,
    rounding,
    self_gated,
    shaping,
    trigonometry,
)
from ....runtime.ops.common import normalize_axis
from ....runtime.ops.linear_algebra import matrix
from ....runtime.tracing import SymbolicTensor
from ..model.values import KnownTensor
from .context import Context
from .table import onnx

# ---- one operand ----

ROWS: dict[str, Callable[[Any], Any]] = {
    "Abs-1..22": elementwise.abs,
    "Acos-1..22": trigonometry.acos,
    "Acosh-1..22": trigonometry.acosh,
    "Asin-1..22": trigonometry.asin,
    "Asinh-1..22": trigonometry.asinh,
    "Atan-1..22": trigonometry.atan,
    "Atanh-1..22": trigonometry.atanh,
    "Ceil-1..22": rounding.ceil,
    "Cos-1..22": trigonometry.cos,
    "Cosh-1..22": trigonometry.cosh,
    "Erf-1..22": elementwise.erf,
    "Exp-1..22": elementwise.exp,
    "Floor-1..22": rounding.floor,
    "Log-1..22": elementwise.log,
    "Neg-1..22": elementwise.neg,
    "Reciprocal-1..22": elementwise.reciprocal,
    "Round-1..22": rounding.round,
    "Sigmoid-1..22": elementwise.sigmoid,
    "Sign-1..22": elementwise.sign,
    "Sin-1..22": trigonometry.sin,
    "Sinh-1..22": trigonometry.sinh,
    "Sqrt-1..22": elementwise.sqrt,
    "Tan-1..22": trigonometry.tan,
    "Tanh-1..22": trigonometry.tanh,
    "BitwiseNot-18": comparison.bitwise_not,
    "Det-11..22": matrix.determinant,
    "HardSwish-14..22": activation.hardswish,
    "IsNaN-9..20": comparison.isnan,
    "Mish-18..22": self_gated.mish,
    "Not-1": comparison.logical_not,
    "Relu-6..14": rectifier.relu,
}
"""Operators of one operand that are an op, with the versions that are read."""


def _register_unary(schema: str, op: Callable[[Any], Any]) -> None:
    def translation(context: Context, X: SymbolicTensor) -> Any:
        return op(X)

    translation.__doc__ = f"{schema}(X) -> Y"
    onnx(schema.partition("-")[0])(translation)


for _schema, _op in ROWS.items():
    _register_unary(_schema, _op)


@onnx("Identity", values=("input",), folds=False)
def identity(context: Context, input: Any) -> Any:
    """Identity-1..25(input) -> output"""
    if boundary.STOP_GRADIENT in context.metadata:
        return boundary.stop_gradient(context.tensor(input))
    return input


# ---- two operands ----


def align_to_axis(a: SymbolicTensor, b: SymbolicTensor, axis: int | None) -> Any:
    """`b` reshaped so that its axes match those of `a` from `axis` on (before version 7); `b` itself without `axis`."""
    if axis is None:
        return b
    at = normalize_axis(axis, a.ndim)
    return shaping.reshape(b, shape=(*b.shape, *(1,) * (a.ndim - at - b.ndim)))


@onnx("Add")
def add(context: Context, A: SymbolicTensor, B: SymbolicTensor, *, axis: int | None = None, broadcast: int = 0) -> Any:
    """Add-6..14(A, B) -> C"""
    return context.broadcast("Add", A, align_to_axis(A, B, axis))


@onnx("Sub")
def sub(context: Context, A: SymbolicTensor, B: SymbolicTensor, *, axis: int | None = None, broadcast: int = 0) -> Any:
    """Sub-6..14(A, B) -> C"""
    return context.broadcast("Sub", A, align_to_axis(A, B, axis))


@onnx("Mul")
def mul(context: Context, A: SymbolicTensor, B: SymbolicTensor, *, axis: int | None = None, broadcast: int = 0) -> Any:
    """Mul-6..14(A, B) -> C"""
    return context.broadcast("Mul", A, align_to_axis(A, B, axis))


@onnx("Div")
def div(context: Context, A: SymbolicTensor, B: SymbolicTensor, *, axis: int | None = None, broadcast: int = 0) -> Any:
    """Div-6..14(A, B) -> C; of integers, the quotient rounded towards zero"""
    return context.broadcast("Div", A, align_to_axis(A, B, axis))


@onnx("Mod")
def mod(context: Context, A: SymbolicTensor, B: SymbolicTensor, *, fmod: int = 0) -> Any:
    """Mod-10..28(A, B) -> C"""
    return context.broadcast("Mod", A, B, fmod=fmod)


@onnx("Pow")
def pow(context: Context, X: SymbolicTensor, Y: SymbolicTensor) -> Any:
    """Pow-7..15(X, Y) -> Z, of the dtype of X"""
    return context.broadcast("Pow", X, Y)


@onnx("PRelu")
def prelu(context: Context, X: SymbolicTensor, slope: SymbolicTensor) -> Any:
    """PRelu-6..16(X, slope) -> Y; slope broadcasts to X, before version 7 from the channel axis on"""
    if context.opset < 7 and slope.ndim == 1 and slope.shape != (1,):
        slope = align_to_axis(X, slope, 1)
    zero = np.zeros((), X.dtype)
    scaled = context.broadcast("Mul", X, slope)
    return context.broadcast("Where", comparison.less(X, zero), scaled, X, dtype=X.dtype)


# ---- any number of operands ----


def _register_variadic(name: str, pairwise: str) -> None:
    def translation(context: Context, *data: SymbolicTensor) -> Any:
        if not data:
            raise ShapeError("needed at least one operand")
        return functools.reduce(functools.partial(context.broadcast, pairwise), data)

    translation.__doc__ = f"{name}-6..13(*data) -> result"
    onnx(name)(translation)


_register_variadic("Sum", "Add")
_register_variadic("Max", "Max")
_register_variadic("Min", "Min")


@onnx("Mean")
def mean(context: Context, *data: SymbolicTensor) -> Any:
    """Mean-8..13(*data) -> mean"""
    return functools.reduce(functools.partial(context.broadcast, "Add"), data) / float(len(data))


# ---- choice, bounds, dtypes ----


@onnx("Where")
def where(context: Context, condition: SymbolicTensor, X: SymbolicTensor, Y: SymbolicTensor) -> Any:
    """Where-9..16(condition, X, Y) -> output"""
    return context.broadcast("Where", condition, X, Y, dtype=X.dtype)


@onnx("Clip", values=("min", "max"))
def clip(context: Context, input: SymbolicTensor, min: Any = None, max: Any = None) -> Any:
    """Clip-6..13(input, min?, max?) -> output; max wins if min is greater"""
    bounds = [_bound(bound) for bound in (min, max)]
    if all(not isinstance(bound, SymbolicTensor) for bound in bounds):
        low, high = (None if bound == end else bound for bound, end in zip(bounds, (-math.inf, math.inf), strict=True))
        return elementwise.clamp(input, minimum=low, maximum=high) if (low, high) != (None, None) else input
    # bounds that the program computes
    if min is not None:
        input = elementwise.maximum(input, context.tensor(min))
    return input if max is None else elementwise.minimum(input, context.tensor(max))


def _bound(bound: Any) -> Any:
    if not isinstance(bound, KnownTensor) or bound.symbolic:
        return None if bound is None else bound
    return bound.data.reshape(-1)[0].item() if bound.data.size == 1 else bound


@onnx("Shrink")
def shrink(context: Context, input: SymbolicTensor, *, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """Shrink-9(input) -> output"""
    x, zero = input, np.zeros((), input.dtype)
    low, high = np.asarray(-lambd).astype(x.dtype), np.asarray(lambd).astype(x.dtype)
    offset = np.asarray(bias).astype(x.dtype)
    above = elementwise.where(comparison.greater(x, high), elementwise.sub(x, offset), zero)
    return elementwise.where(comparison.less(x, low), elementwise.add(x, offset), above)
