"""Comparisons, logic of bools, and bitwise ops on integers. None has a gradient."""

from __future__ import annotations

import numpy as np

from ..ir.types import BOOL, FLOAT32, INT32, is_floating, is_half
from ..traits import Traits
from . import integers_onnx
from .declarations import Declare, infer_broadcast, unary
from .registry import OnnxGraph, Rule, Tensor, Type, require

_TRUTH = "a truth value has no gradient"
_INTEGERS = "integers have no gradient"


# ---- comparisons ----


def _comparison(kernel: Rule, onnx: str, *, negated: bool = False) -> Declare:
    """Two operands of one dtype, NumPy broadcasting, bool out."""

    def infer(a: Type, b: Type) -> Type:
        return infer_broadcast(a, b).with_dtype(BOOL)

    def rule(graph: OnnxGraph, a: str, b: str) -> str:
        if onnx != "Equal" and graph.type(a).dtype == BOOL:  # ONNX has no order of bools
            a, b = graph.cast(a, INT32), graph.cast(b, INT32)
        result = graph.op(onnx, a, b)
        return str(graph.op("Not", result) if negated else result)

    traits = Traits(elementwise=True, compares=True)
    return unary(infer, kernel, onnx=rule, no_vjp=_TRUTH, traits=traits)


@_comparison(np.equal, "Equal")
def equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a = b. ATen eq.Tensor, ONNX Equal-19."""


@_comparison(np.not_equal, "Equal", negated=True)
def not_equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a and b differ. ATen ne.Tensor."""


@_comparison(np.less, "Less")
def less(a: Tensor, b: Tensor) -> Tensor:
    """Whether a < b. ATen lt.Tensor, ONNX Less-13."""


@_comparison(np.less_equal, "LessOrEqual")
def less_equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a <= b. ATen le.Tensor, ONNX LessOrEqual-16."""


@_comparison(np.greater, "Greater")
def greater(a: Tensor, b: Tensor) -> Tensor:
    """Whether a > b. ATen gt.Tensor, ONNX Greater-13."""


@_comparison(np.greater_equal, "GreaterOrEqual")
def greater_equal(a: Tensor, b: Tensor) -> Tensor:
    """Whether a >= b. ATen ge.Tensor, ONNX GreaterOrEqual-16."""


def _property(kernel: Rule, onnx: Rule) -> Declare:
    """One floating-point operand, bool out."""

    def infer(x: Type) -> Type:
        require(is_floating(x.dtype), f"needed a floating-point operand, given {x}; cast first")
        return x.with_dtype(BOOL)

    return unary(infer, kernel, onnx=onnx, no_vjp=_TRUTH)


def _is_inf(graph: OnnxGraph, x: str) -> str:
    if graph.opset < 20 and is_half(graph.type(x).dtype):  # IsInf supports only float32 and float64 before 20
        x = graph.cast(x, FLOAT32)
    return str(graph.op("IsInf", x))


@_property(np.isnan, lambda graph, x: graph.op("IsNaN", x))
def isnan(x: Tensor) -> Tensor:
    """Whether x is NaN. ATen isnan, ONNX IsNaN-20."""


isnan.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@_property(np.isinf, _is_inf)
def isinf(x: Tensor) -> Tensor:
    """Whether x is infinite, of either sign. ATen isinf, ONNX IsInf-20."""


isinf.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@_property(np.isfinite, lambda graph, x: graph.op("Not", graph.op("Or", graph.op("IsNaN", x), _is_inf(graph, x))))
def isfinite(x: Tensor) -> Tensor:
    """Whether x is neither infinite nor NaN. ATen isfinite."""


isfinite.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


# ---- logic of bools ----


def _logical(kernel: Rule, onnx: str) -> Declare:
    def infer(*types: Type) -> Type:
        require(
            all(t.dtype == BOOL for t in types),
            f"needed bools, given {', '.join(map(str, types))}; cast first, or compare with 0",
        )
        return infer_broadcast(*types)

    return unary(infer, kernel, onnx=onnx, no_vjp=_TRUTH)


@_logical(np.logical_and, "And")
def logical_and(a: Tensor, b: Tensor) -> Tensor:
    """Whether both are true. ATen logical_and, ONNX And-7."""


logical_and.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@_logical(np.logical_or, "Or")
def logical_or(a: Tensor, b: Tensor) -> Tensor:
    """Whether at least one is true. ATen logical_or, ONNX Or-7."""


logical_or.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@_logical(np.logical_xor, "Xor")
def logical_xor(a: Tensor, b: Tensor) -> Tensor:
    """Whether exactly one is true. ATen logical_xor, ONNX Xor-7."""


logical_xor.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@_logical(np.logical_not, "Not")
def logical_not(x: Tensor) -> Tensor:
    """Whether x is false. ATen logical_not, ONNX Not-1."""


logical_not.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


# ---- bits of integers ----


def _infer_integers(*types: Type) -> Type:
    require(
        not any(is_floating(t.dtype) for t in types),
        f"needed integers or bools, given {', '.join(map(str, types))}; cast first",
    )
    return infer_broadcast(*types)


def _bitwise(kernel: Rule, onnx: str) -> Declare:
    """Declare an op on integers or bools; ONNX operators on bools have the names without `Bitwise`."""

    def rule(graph: OnnxGraph, *xs: str) -> str:
        return str(graph.op(onnx if graph.type(xs[0]).dtype == BOOL else f"Bitwise{onnx}", *xs))

    return unary(_infer_integers, kernel, onnx=rule, no_vjp=_INTEGERS)


@_bitwise(np.bitwise_and, "And")
def bitwise_and(a: Tensor, b: Tensor) -> Tensor:
    """Bits that are set in both. ATen bitwise_and.Tensor, ONNX BitwiseAnd-18."""


@_bitwise(np.bitwise_or, "Or")
def bitwise_or(a: Tensor, b: Tensor) -> Tensor:
    """Bits that are set in at least one. ATen bitwise_or.Tensor, ONNX BitwiseOr-18."""


@_bitwise(np.bitwise_xor, "Xor")
def bitwise_xor(a: Tensor, b: Tensor) -> Tensor:
    """Bits that are set in exactly one. ATen bitwise_xor.Tensor, ONNX BitwiseXor-18."""


@_bitwise(np.invert, "Not")
def bitwise_not(x: Tensor) -> Tensor:
    """Every bit inverted. ATen bitwise_not, ONNX BitwiseNot-18."""


def _shift(kernel: Rule, onnx: Rule) -> Declare:
    def infer(a: Type, b: Type) -> Type:
        require(a.dtype != BOOL, f"needed integers, given {a}; cast first")
        return _infer_integers(a, b)

    return unary(infer, kernel, onnx=onnx, no_vjp=_INTEGERS)


@_shift(np.left_shift, integers_onnx.left_shift)
def left_shift(a: Tensor, b: Tensor) -> Tensor:
    """a times 2 to the power of b; bits beyond the width are lost. ATen bitwise_left_shift.Tensor."""


left_shift.traits = Traits(elementwise=True)


@_shift(np.right_shift, integers_onnx.right_shift)
def right_shift(a: Tensor, b: Tensor) -> Tensor:
    """a divided by 2 to the power of b, rounded down (the sign bit is kept). ATen bitwise_right_shift.Tensor."""


right_shift.traits = Traits(elementwise=True)
