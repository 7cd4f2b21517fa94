"""Rounding to integers, and division with an integer quotient: functions with steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import is_floating
from ..traits import Traits
from . import integers_onnx
from .common import in_float32
from .declarations import binary, from_writer, infer_floating, infer_numeric, unary
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Rule, Tensor


def _no_gradient(g: Tensor, y: Tensor, x: Tensor) -> None:
    """The gradient of a step function: zero wherever it is defined."""


@unary(infer_floating, np.floor, vjp=_no_gradient, onnx="Floor")
def floor(x: Tensor) -> Tensor:
    """The largest integer not above x. ATen floor, ONNX Floor-13."""


floor.traits = Traits(elementwise=True, whole=True, exact=True, in_torch="torch", in_cells=True)


@unary(infer_floating, np.ceil, vjp=_no_gradient, onnx="Ceil")
def ceil(x: Tensor) -> Tensor:
    """The smallest integer not below x. ATen ceil, ONNX Ceil-13."""


ceil.traits = Traits(elementwise=True, whole=True, exact=True, in_torch="torch", in_cells=True)


@unary(infer_floating, np.rint, vjp=_no_gradient, onnx="Round")
def round(x: Tensor) -> Tensor:
    """The nearest integer, rounding half to even. ATen round, ONNX Round-22."""


round.traits = Traits(elementwise=True, whole=True, exact=True, in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    np.trunc,
    vjp=_no_gradient,
    onnx=from_writer(lambda w, x: w("Mul", w("Sign", x), w("Floor", w("Abs", x)))),
)
def trunc(x: Tensor) -> Tensor:
    """The nearest integer towards 0. ATen trunc."""


trunc.traits = Traits(elementwise=True, whole=True, exact=True, in_torch="torch", in_cells=True)


def _check_divisor(function: Rule) -> Rule:
    """Make a kernel raise for integer division by 0, as torch does (NumPy returns 0)."""

    def kernel(a: Array, b: Array) -> Any:
        if not is_floating(b.dtype) and a.size and not np.all(b):
            raise ZeroDivisionError("division of integers by zero")
        return function(a, b)

    return kernel


def _truncated_remainder(graph: OnnxGraph, a: str, b: str) -> str:
    if not is_floating(graph.type(a).dtype):
        return integers_onnx.truncated_remainder(graph, a, b)
    return str(graph.op("Mod", a, b, fmod=1))


def _has_opposite_sign(w: Writer, rest: str, b: str) -> str:
    """Where a truncated remainder isn't 0 and has the opposite sign of the divisor."""
    return w("Less", w("Mul", w("Sign", rest), w("Sign", b)), 0.0)


def _floor_divide_onnx(graph: OnnxGraph, a: str, b: str) -> str:
    if not is_floating(graph.type(a).dtype):
        return integers_onnx.floor_quotient(graph, a, b)
    w = Writer(graph, graph.type(a).dtype)
    rest = _truncated_remainder(graph, a, b)
    quotient = w("Round", w("Div", w("Sub", a, rest), b))
    floored = w("Sub", quotient, w("Where", _has_opposite_sign(w, rest, b), 1.0, 0.0))
    return w("Where", w("Equal", b, 0.0), w("Div", a, b), floored)


@binary(infer_numeric, _check_divisor(np.floor_divide), vjp=lambda g, y, a, b: (None, None), onnx=_floor_divide_onnx)
def floor_divide(a: Tensor, b: Tensor) -> Tensor:
    """The quotient rounded down; for floats, the floor of the exact quotient.

    `ZeroDivisionError` if integers are divided by 0. ATen floor_divide, div.Tensor_mode("floor").
    """


floor_divide.traits = Traits(elementwise=True, wider_integers="most")


def _remainder_onnx(graph: OnnxGraph, a: str, b: str) -> str:
    if not is_floating(graph.type(a).dtype):
        return integers_onnx.remainder(graph, a, b)
    w = Writer(graph, graph.type(a).dtype)
    rest = _truncated_remainder(graph, a, b)
    return w("Where", _has_opposite_sign(w, rest, b), w("Add", rest, b), rest)


@binary(
    infer_numeric,
    _check_divisor(np.remainder),
    vjp=in_float32(lambda g, y, a, b: (g, -(g * floor_divide(a, b)))),
    onnx=_remainder_onnx,
)
def remainder(a: Tensor, b: Tensor) -> Tensor:
    """The remainder of `floor_divide`, which has the sign of `b`.

    `ZeroDivisionError` if integers are divided by 0. ATen remainder.Tensor, ONNX Mod-13.
    """


remainder.traits = Traits(elementwise=True, wider_integers="most", in_cells=True)


@binary(
    infer_numeric,
    _check_divisor(np.fmod),
    vjp=in_float32(lambda g, y, a, b: (g, -(g * trunc(a / b)))),
    onnx=_truncated_remainder,
)
def fmod(a: Tensor, b: Tensor) -> Tensor:
    """The remainder of division truncated towards 0, which has the sign of `a`.

    `ZeroDivisionError` if integers are divided by 0. ATen fmod.Tensor, ONNX Mod-13 with fmod=1.
    """


fmod.traits = Traits(elementwise=True, exact=True, wider_integers="most", in_cells=True)
