"""How elementwise ops are declared: the rules that many share, and decorators that set an op's four rules at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.types import BOOL, FLOAT64, INT64, is_floating
from ..lowering.workarounds import is_needed
from .common import broadcast_shapes, same_dtype, unbroadcast
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Op, Rule, Tensor, Type, operator, require

Declare = Callable[[Callable[..., Any]], Op]

# ---- infer rules ----


def floating(*types: Type) -> Type:
    """Floating-point operands of one dtype that broadcast, the same dtype out."""
    wrong = [str(t) for t in types if not is_floating(t.dtype)]
    require(not wrong, f"needed floating-point operands, given {', '.join(wrong)}; cast first")
    return broadcast(*types)


def numeric(*types: Type) -> Type:
    """Operands of any one dtype but bool that broadcast, the same dtype out."""
    require(all(t.dtype != BOOL for t in types), "needed numbers, given bool; cast first")
    return broadcast(*types)


def broadcast(*types: Type) -> Type:
    """Operands of any one dtype that broadcast as NumPy's do, the same dtype out."""
    same_dtype(*types)
    return types[0].with_shape(broadcast_shapes(*(t.shape for t in types)))


# ---- onnx rules ----


def one_operator(name: str) -> Rule:
    """The ONNX operator `name`."""
    return lambda graph, *inputs: graph.op(name, *inputs)


def from_writer(form: Callable[..., str]) -> Rule:
    """What `form` writes with a `Writer` for the dtype of the first operand."""
    return lambda graph, *inputs: form(Writer(graph, graph.type(inputs[0]).dtype), *inputs)


def or_float64(name: str, float64_form: Callable[[Writer, str], str]) -> Rule:
    """The ONNX operator `name`, or `float64_form` for float64, where ONNX Runtime has no kernel for it."""
    narrow, wide = one_operator(name), from_writer(float64_form)
    return lambda graph, x: (wide if graph.type(x).dtype == FLOAT64 else narrow)(graph, x)


def or_bool(name: str, logical: str) -> Rule:
    """The ONNX operator `name`, or for bool, which it doesn't take, its logical counterpart."""
    return lambda graph, a, b: graph.op(logical if graph.type(a).dtype == BOOL else name, a, b)


def onnx_larger(graph: OnnxGraph, a: str, b: str, dtype: np.dtype[Any]) -> str:
    """The larger of two tensors of a dtype; of bools: or.

    ONNX Runtime before 1.32 orders int64 wrongly in Max, Min, Clip, Sign and the reductions, where processors have
    AVX-512 and numbers differ by 2^31 and more in their last 32 bits only. Its comparisons are right.
    """
    if dtype == INT64 and is_needed("order of int64"):
        return str(graph.op("Where", graph.op("Less", a, b), b, a))
    return str(graph.op("Or" if dtype == BOOL else "Max", a, b))


def onnx_smaller(graph: OnnxGraph, a: str, b: str, dtype: np.dtype[Any]) -> str:
    """The smaller of two tensors of a dtype; of bools: and. See `onnx_larger`."""
    if dtype == INT64 and is_needed("order of int64"):
        return str(graph.op("Where", graph.op("Less", b, a), b, a))
    return str(graph.op("And" if dtype == BOOL else "Min", a, b))


# ---- ops ----


def unary(
    infer: Rule, kernel: Rule, *, vjp: Rule | None = None, no_vjp: str = "", onnx: str | Rule | None, no_onnx: str = ""
) -> Declare:
    """Declare an op; `onnx` is a rule or the one ONNX operator that the op is.

    `no_vjp` says why it has no gradient, `no_onnx` why it has no ONNX form (None).
    """

    def declare(declaration: Callable[..., Any]) -> Op:
        op = operator(declaration)
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
    """As `unary`, on two operands that broadcast; `vjp` gives cotangents of the operands as they are broadcast."""

    def unbroadcast_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor | None, ...]:
        if y.dtype == BOOL:
            return None, None
        cotangents = vjp(g, y, a, b)
        return tuple(None if c is None else unbroadcast(c, x) for c, x in zip(cotangents, (a, b), strict=True))

    return unary(infer, kernel, vjp=unbroadcast_vjp, onnx=onnx, no_onnx=no_onnx)


def zero(like: Tensor) -> Array:
    """0 in the dtype of `like`; for `where`, whose first operand is bool, so that a Python 0 would be one."""
    return np.zeros((), like.dtype)
