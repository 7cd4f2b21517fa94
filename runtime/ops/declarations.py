"""Declaration of elementwise ops: rules that many share, and decorators that set the four rules of an op at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.types import BOOL, FLOAT64, INT64, is_floating
from ..traits import ELEMENTWISE, Traits
from ..workarounds import is_needed
from .common import broadcast_shapes, require_same_dtype, unbroadcast
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Op, Rule, Tensor, Type, operator, require

Declare = Callable[[Callable[..., Any]], Op]

# ---- infer rules ----


def infer_floating(*types: Type) -> Type:
    """Infer rule for floating-point operands of one dtype that broadcast; the result has the same dtype."""
    wrong = [str(t) for t in types if not is_floating(t.dtype)]
    require(not wrong, f"needed floating-point operands, given {', '.join(wrong)}; cast first")
    return infer_broadcast(*types)


def infer_numeric(*types: Type) -> Type:
    """Infer rule for operands of one dtype other than bool that broadcast; the result has the same dtype."""
    require(all(t.dtype != BOOL for t in types), "needed numbers, given bool; cast first")
    return infer_broadcast(*types)


def infer_broadcast(*types: Type) -> Type:
    """Infer rule for operands of one dtype that broadcast as in NumPy; the result has the same dtype."""
    require_same_dtype(*types)
    return types[0].with_shape(broadcast_shapes(*(t.shape for t in types)))


# ---- onnx rules ----


def one_operator(name: str) -> Rule:
    """Return the rule that emits the ONNX operator `name`."""
    return lambda graph, *inputs: graph.op(name, *inputs)


def from_writer(form: Callable[..., str]) -> Rule:
    """Return the rule that calls `form` with a `Writer` for the dtype of the first operand."""
    return lambda graph, *inputs: form(Writer(graph, graph.type(inputs[0]).dtype), *inputs)


def or_float64(name: str, float64_form: Callable[[Writer, str], str]) -> Rule:
    """Return the rule for the ONNX operator `name`; `float64_form` in float64, which ONNX Runtime doesn't support."""
    narrow, wide = one_operator(name), from_writer(float64_form)
    return lambda graph, x: (wide if graph.type(x).dtype == FLOAT64 else narrow)(graph, x)


def or_bool(name: str, logical: str) -> Rule:
    """Return the rule for the ONNX operator `name`, or for bool, which it doesn't support, its logical counterpart."""
    return lambda graph, a, b: graph.op(logical if graph.type(a).dtype == BOOL else name, a, b)


def onnx_larger(graph: OnnxGraph, a: str, b: str, dtype: np.dtype[Any]) -> str:
    """Emit the maximum of two tensors of a dtype; for bools, or.

    ONNX Runtime before 1.32 orders int64 wrongly in Max, Min, Clip, Sign and the reductions on processors with AVX-512
    if numbers differ by at least 2^31 in their last 32 bits only. Its comparisons are correct.
    """
    if dtype == INT64 and is_needed("maximum of int64"):
        return str(graph.op("Where", graph.op("Less", a, b), b, a))
    return str(graph.op("Or" if dtype == BOOL else "Max", a, b))


def onnx_smaller(graph: OnnxGraph, a: str, b: str, dtype: np.dtype[Any]) -> str:
    """Emit the minimum of two tensors of a dtype; for bools, and. See `onnx_larger`."""
    if dtype == INT64 and is_needed("maximum of int64"):
        return str(graph.op("Where", graph.op("Less", b, a), b, a))
    return str(graph.op("And" if dtype == BOOL else "Min", a, b))


# ---- ops ----


def unary(
    infer: Rule,
    kernel: Rule,
    *,
    vjp: Rule | None = None,
    no_vjp: str = "",
    onnx: str | Rule | None,
    no_onnx: str = "",
    traits: Traits = ELEMENTWISE,
) -> Declare:
    """Return a decorator that declares an op; `onnx` is a rule or the name of the equivalent ONNX operator.

    `no_vjp` is the reason why it has no gradient, `no_onnx` the reason why `onnx` is None.
    """

    def declare(declaration: Callable[..., Any]) -> Op:
        op = operator(declaration)
        op.traits = traits
        op.infer(infer)
        op.kernel(kernel)
        if vjp is None:
            op.no_vjp(no_vjp)
        else:
            op.vjp(vjp)
        if onnx is None:
            op.no_onnx(no_onnx)
        else:
            op.onnx(one_operator(onnx) if isinstance(onnx, str) else onnx)
        return op

    return declare


def binary(infer: Rule, kernel: Rule, *, vjp: Rule, onnx: str | Rule | None, no_onnx: str = "") -> Declare:
    """Like `unary`, for two operands that broadcast; `vjp` returns the cotangents of the broadcast operands."""

    def unbroadcast_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor | None, ...]:
        if y.dtype == BOOL:
            return None, None
        cotangents = vjp(g, y, a, b)
        return tuple(None if c is None else unbroadcast(c, x) for c, x in zip(cotangents, (a, b), strict=True))

    return unary(infer, kernel, vjp=unbroadcast_vjp, onnx=onnx, no_onnx=no_onnx)


def zero(like: Tensor) -> Array:
    """Return 0 in the dtype of `like`, for `where`: its first operand is bool, so a Python 0 would become a bool."""
    return np.zeros((), like.dtype)
