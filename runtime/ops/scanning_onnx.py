"""Lowering of cumulative ops to ONNX: a Scan along their axis, which needs memory only for input and output."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.types import FLOAT32, FLOAT64, INT64, is_floating
from .common import LAST, normalize_axis
from .float64_forms import Writer
from .reduction_onnx import MANY_ROWS
from .registry import OnnxGraph, Type

CUMPROD_DTYPES = {np.dtype(kind) for kind in ("float32", "float64", "int32", "int64", "uint32", "uint64")}  # of CumProd


def accumulation_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which to accumulate numbers; like ATen, float64 for float32."""
    return FLOAT64 if is_floating(dtype) else dtype


def cumulative_sum(graph: OnnxGraph, x: str, axis: int) -> str:
    """Emit CumSum-14, in float64 for many elements."""
    type, at = graph.type(x), graph.constant(axis, np.int64)
    size = type.shape[axis]
    if type.dtype != FLOAT32 or (isinstance(size, int) and size < MANY_ROWS):
        return str(graph.op("CumSum", x, at))
    return graph.cast(graph.op("CumSum", graph.op("Cast", x, to=FLOAT64), at), FLOAT32)


def cumulative_product(graph: OnnxGraph, x: str, axis: int) -> str:
    """Emit CumProd-26, in float64 like the interpreter."""
    type, at = graph.type(x), graph.constant(axis, np.int64)
    return graph.cast(graph.op("CumProd", graph.cast(x, accumulation_dtype(type.dtype)), at), type.dtype)


def accumulate(graph: OnnxGraph, operands: Sequence[str], axis: int, first: float, step: Callable[..., str]) -> str:
    """Emit the repeated application of `step` to its last result, which starts as `first`, and the next elements."""
    type = graph.type(operands[0])
    kind = type.with_dtype(accumulation_dtype(type.dtype))

    def body(graph: OnnxGraph, *inputs: str) -> tuple[str, ...]:
        return (step(Writer(graph, kind.dtype), *inputs),)

    elements = [_prepend(graph, first, graph.cast(x, kind.dtype), kind, axis) for x in operands]
    (result,) = _scan(graph, kind, axis, [(first, kind.dtype)], elements, body)
    return graph.cast(result, type.dtype)


def extrema(graph: OnnxGraph, x: str, axis: int, worst: float, comparison: str) -> tuple[str, ...]:
    """Emit the cumulative best element along an axis and its index, the last one among equal elements.

    Args:
        graph: the graph to emit to.
        x: the elements; NaN is the best.
        axis: the axis.
        worst: a number that no element is worse than.
        comparison: "Less" if the largest is the best, "Greater" if the smallest is.
    """
    type = graph.type(x)
    dtype = type.dtype

    def body(graph: OnnxGraph, best: str, index: str, element: str, position: str) -> tuple[str, ...]:
        w = Writer(graph, dtype)
        worse = w(comparison, element, best)
        if is_floating(dtype):
            worse = w("Or", worse, w("And", w("IsNaN", best), w("Not", w("IsNaN", element))))
        return w("Where", worse, best, element), w("Where", worse, index, position)

    size = graph.op("Squeeze", graph.dims((type.shape[axis],)))
    positions = graph.op("Range", graph.constant(-1, np.int64), size, graph.constant(1, np.int64))
    elements = [_prepend(graph, worst, x, type, axis), (positions, Type(INT64, ()))]
    return _scan(graph, type, axis, [(worst, dtype), (0, INT64)], elements, body)


Elements = tuple[str, Type]
"""A tensor that a Scan slices along its first axis, and the type of the slices."""


def _prepend(graph: OnnxGraph, first: float, x: str, type: Type, axis: int) -> Elements:
    """Return `x` with `axis` first and with an additional element at its start.

    ONNX Runtime's Scan fails without elements, and crashes without them along another axis.
    """
    at = normalize_axis(axis, type.rank)
    shape = graph.dims((*type.shape[:at], 1, *type.shape[at + 1 :]))
    longer = graph.op("Concat", graph.op("Expand", graph.constant(first, type.dtype), shape), x, axis=at)
    return graph.op("Transpose", longer, perm=[at, *range(at), *range(at + 1, type.rank)]), _row(type, at)


def _row(type: Type, axis: int) -> Type:
    return type.with_shape((*type.shape[:axis], *type.shape[axis + 1 :]))


def _scan(
    graph: OnnxGraph, type: Type, axis: int, first: Sequence[tuple[float, np.dtype[Any]]],
    elements: Sequence[Elements], step: Callable[..., tuple[str, ...]],
) -> tuple[str, ...]:  # fmt: skip
    """Emit a Scan and return the states of `step` along an axis, without those of the additional first element.

    Args:
        graph: the graph to emit to.
        type: type of a tensor with the axis.
        axis: the axis.
        first: the initial states, each one number for all positions, and their dtypes.
        elements: the operands of the steps, with an additional first element.
        step: maps states and elements to states.

    Returns:
        Tensors of the shape of `type`.
    """
    at = normalize_axis(axis, type.rank)
    row = _row(type, at)
    states = [row.with_dtype(dtype) for _, dtype in first]

    def body(graph: OnnxGraph, *inputs: str) -> tuple[str, ...]:
        now = step(graph, *inputs)
        return *now, *now

    initial = [graph.op("Expand", graph.constant(x, dtype), graph.dims(row.shape)) for x, dtype in first]
    results = graph.op(
        "Scan",
        *initial,
        *(tensor for tensor, _ in elements),
        outputs=2 * len(first),
        body=graph.body("accumulate", [*states, *(part for _, part in elements)], [*states, *states], body),
        num_scan_inputs=len(elements),
    )
    begin_end_axis = [graph.constant([number], np.int64) for number in (1, LAST, 0)]
    permutation = [*range(1, at + 1), 0, *range(at + 1, type.rank)]
    rows = (graph.op("Slice", result, *begin_end_axis) for result in results[len(first) :])
    return tuple(graph.op("Transpose", result, perm=permutation) for result in rows)
