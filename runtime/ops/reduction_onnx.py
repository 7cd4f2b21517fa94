"""Lowering of reductions to ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, isqrt
from typing import Any

import numpy as np

from ..ir import dims
from ..ir.dims import Dim
from .common import normalize_axes
from .float64_forms import Writer
from .registry import OnnxGraph

MANY_ROWS = 256
"""At least this many rows of a matrix are added in blocks."""
MANY = 8192
"""In other sums, at least this many elements are added in blocks."""
LEAST_BLOCK = 8


def reduce_onnx(
    graph: OnnxGraph, op_type: str, x: str, axes: tuple[int, ...] | None, keepdims: bool,
    shape: tuple[Dim, ...] | None = None,
) -> str:  # fmt: skip
    """Emit a reduction by a Reduce operator; sum and mean of many elements take two steps, block by block.

    ONNX Runtime adds row by row, so the rounding error grows with the number of rows, unlike torch's, and it
    takes up to 20 times as long as in blocks: 17 ms instead of 1.5 ms for 8192 rows of 1000 with two threads.

    Args:
        graph: the graph to emit to.
        op_type: ReduceSum, ReduceMean, ...
        x: the tensor to reduce.
        axes: the axes to reduce; None for all.
        keepdims: whether to keep the axes, with size 1.
        shape: the shape of `x`, if it isn't an operand of the op being lowered.
    """
    shape = graph.type(x).shape if shape is None else shape
    at = normalize_axes(axes, len(shape))
    if not at:
        return x

    def reduce(x: str, at: Sequence[int], keepdims: bool) -> str:
        return str(graph.op(op_type, x, graph.constant(at, np.int64), keepdims=int(keepdims)))

    if op_type not in ("ReduceSum", "ReduceMean"):
        return reduce(x, at, keepdims)
    last = _trailing_run(at)
    if last != at:
        count = dims.product(shape[axis] for axis in at)
        # if the first and last axes are reduced, as in channel sums, reduce the last ones first
        both_ends = at == (*range(at[-len(last) - 1] + 1), *range(last[0], len(shape)))
        if both_ends or not isinstance(count, int) or count < MANY:
            return reduce(x, at, keepdims)
        x = reduce_onnx(graph, op_type, x, last, True, shape)
        shape = tuple(1 if axis in last else size for axis, size in enumerate(shape))
        x = reduce_onnx(graph, op_type, x, at[: -len(last)], True, shape)
        return x if keepdims else graph.op("Squeeze", x, graph.constant(at, np.int64))
    block = _block(shape, at)
    if block is None:
        return reduce(x, at, keepdims)
    first, end = at[0], at[-1] + 1
    blocks = (*shape[:first], dims.product(shape[first:end]) // block, block, *shape[end:])
    x = graph.op("Reshape", x, graph.dims(blocks), allowzero=1)
    x = reduce(reduce(x, [first + 1], False), [first], False)
    return graph.op("Unsqueeze", x, graph.constant(at, np.int64)) if keepdims else x


def _trailing_run(at: tuple[int, ...]) -> tuple[int, ...]:
    """Return the longest run of consecutive axes at the end of ascending axes."""
    begin = max((i for i in range(1, len(at)) if at[i] != at[i - 1] + 1), default=0)
    return at[begin:]


def _block(shape: Sequence[Dim], at: tuple[int, ...]) -> int | None:
    """Return the number of elements along consecutive axes `at` in a block; None to add all in one step.

    A block has about as many elements as there are blocks; if their number is symbolic, a known divisor of it.
    """
    count = dims.product(shape[axis] for axis in at)
    is_row_sum = at[-1] + 1 < len(shape) and dims.product(shape[: at[0]]) == 1
    if isinstance(count, int):
        if count < (MANY_ROWS if is_row_sum else MANY):
            return None
        multiple, most = count, isqrt(count)
    else:
        multiple, most = gcd(*(coefficient for _, coefficient in count.terms)), isqrt(MANY)
    block = max(size for size in range(1, min(multiple, most) + 1) if multiple % size == 0)
    return block if block >= LEAST_BLOCK else None


def onnx_extremum_of_int64(graph: OnnxGraph, x: str, name: str, axis: int) -> str:
    """Emit the "Max" or "Min" of int64 along an axis, which is kept; see `declarations.onnx_larger`."""
    return str(graph.op("GatherElements", x, graph.op(f"Arg{name}", x, axis=axis, keepdims=1), axis=axis))


def onnx_log_sum_exp(graph: OnnxGraph, x: str, axes: Sequence[int], keepdims: bool, dtype: np.dtype[Any]) -> str:
    """Emit log(sum(exp(x))), computed relative to the maximum.

    ReduceLogSumExp of ONNX Runtime uses 0 as the maximum where -inf comes first, so that the sum underflows.
    """
    if not axes:
        return x
    at = graph.constant(np.array(axes, np.int64))
    largest = graph.op("ReduceMax", x, at, keepdims=1)
    shift = graph.op("Where", graph.op("IsInf", largest), graph.constant(0, dtype), largest)
    total = graph.op("ReduceSum", graph.op("Exp", graph.op("Sub", x, shift)), at, keepdims=int(keepdims))
    logarithm = graph.op("Log", total)
    return str(graph.op("Add", logarithm, shift if keepdims else graph.op("Squeeze", shift, at)))


def log_of_sum(w: Writer, *terms: str) -> str:
    """Emit log(exp(a) + exp(b) + ...), which is minus infinity if all terms are minus infinity."""
    bounds = np.finfo(w.dtype)
    largest = w("Clip", w("Max", *terms), float(bounds.min), float(bounds.max))
    parts = [w("Exp", w("Sub", term, largest)) for term in terms]
    return w("Add", w("Log", w("Sum", *parts)), largest)
