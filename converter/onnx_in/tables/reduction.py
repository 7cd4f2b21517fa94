"""ONNX reductions, cumulative operators, and selection of extremes."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import INT64, Type
from ....runtime.ops import shaping, sorting
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .shaping import length_of, unknown_shape
from .table import onnx


def _register(name: str) -> None:
    def reduce(
        context: Context, data: SymbolicTensor, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        count = length_of(axes)
        rank = data.ndim if keepdims else data.ndim - count if isinstance(count, int) and count else None
        types = () if context.declared()[0] is not None else unknown_shape(context, data, rank)
        return context.runtime_shaped(
            name, data, axes, types=types, keepdims=keepdims, noop_with_empty_axes=noop_with_empty_axes
        )

    reduce.__doc__ = f"{name}-1..28(data, axes?) -> reduced"
    onnx(name, values=("axes",))(reduce)


for _name in (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
):  # fmt: skip
    _register(_name)


def _register_arg(name: str, op: Any) -> None:
    def find(
        context: Context, data: SymbolicTensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Any:
        at = normalize_axis(axis, data.ndim)
        if not select_last_index:
            return op(data, axis=at, keepdims=bool(keepdims))
        last = op(shaping.flip(data, axes=(at,)), axis=at, keepdims=bool(keepdims))
        return context.full((), data.shape[at] - 1, INT64) - last

    find.__doc__ = f"{name}-1..13(data) -> reduced"
    onnx(name)(find)


_register_arg("ArgMax", sorting.argmax)
_register_arg("ArgMin", sorting.argmin)


@onnx("TopK", values=("K", "k"))
def topk(
    context: Context,
    X: SymbolicTensor,
    K: Any = None,
    *,
    axis: int = -1,
    largest: int = 1,
    sorted: int = 1,
    k: Any = None,
) -> Any:
    """TopK-1..24(X, K) -> Values, Indices"""
    types: tuple[Type | None, ...] = ()
    if context.declared()[0] is None:
        (values,) = unknown_shape(context, X, X.ndim)
        assert values is not None, "the rank is known"
        types = values, values.with_dtype(INT64)
    count = K if K is not None else k
    return context.runtime_shaped("TopK", X, count, types=types, axis=axis, largest=largest, sorted=sorted)


@onnx("CumSum", values=("axis",))
def cumsum(context: Context, x: SymbolicTensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """CumSum-11..14(x, axis) -> y"""
    return context.runtime_shaped("CumSum", x, axis, types=(x.value.type,), exclusive=exclusive, reverse=reverse)


@onnx("CumProd", values=("axis",))
def cumprod(context: Context, x: SymbolicTensor, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    """CumProd-26(x, axis) -> y"""
    return context.runtime_shaped("CumProd", x, axis, types=(x.value.type,), exclusive=exclusive, reverse=reverse)
