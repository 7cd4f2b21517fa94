"""How reductions read in ONNX."""

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
"""From here on, rows of a matrix are added up in blocks."""
MANY = 8192
"""From here on, all others are."""
LEAST_BLOCK = 8


def reduce_onnx(
    graph: OnnxGraph, op_type: str, x: str, axes: tuple[int, ...] | None, keepdims: bool,
    shape: tuple[Dim, ...] | None = None,
) -> str:  # fmt: skip
    """A reduction by one of the Reduce operators; of many elements, sum and mean go in two steps, block by block.

    ONNX Runtime adds one row to the next, the rounding error of which grows with their number where torch's
    doesn't, and it is up to 20 times as slow at that as by blocks: 17 ms and 1.5 for 8192 rows of 1000, two threads.

    Args:
        graph: what to write to.
        op_type: ReduceSum, ReduceMean, ...
        x: what is reduced.
        axes: which axes; None for all.
        keepdims: whether they stay, with size 1.
        shape: of `x`, if that isn't an operand of the op that is written.
    """
    shape = graph.type(x).shape if shape is None else shape
    at = normalize_axes(axes, len(shape))
    if not at:
        return x

    def reduce(x: str, at: Sequence[int], keepdims: bool) -> str:
        return str(graph.op(op_type, x, graph.constant(at, np.int64), keepdims=int(keepdims)))

    if op_type not in ("ReduceSum", "ReduceMean"):
        return reduce(x, at, keepdims)
    last = _last_neighbours(at)
    if last != at:
        count = dims.product(shape[axis] for axis in at)
        # of the first axes and the last ones, as in the sums of channels, ONNX Runtime adds up the last ones first
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


def _last_neighbours(at: tuple[int, ...]) -> tuple[int, ...]:
    """Of ascending axes, those at the end between which there are no others."""
    begin = max((i for i in range(1, len(at)) if at[i] != at[i - 1] + 1), default=0)
    return at[begin:]


def _block(shape: Sequence[Dim], at: tuple[int, ...]) -> int | None:
    """How many elements along neighbouring axes `at` make a block; None to add them up at once.

    As many as there are blocks, as near as it goes; where their number is symbolic, a known divisor of it.
    """
    count = dims.product(shape[axis] for axis in at)
    are_rows = at[-1] + 1 < len(shape) and dims.product(shape[: at[0]]) == 1
    if isinstance(count, int):
        if count < (MANY_ROWS if are_rows else MANY):
            return None
        known, most = count, isqrt(count)
    else:
        known, most = gcd(*(coefficient for _, coefficient in count.terms)), isqrt(MANY)
    block = max(size for size in range(1, min(known, most) + 1) if known % size == 0)
    return block if block >= LEAST_BLOCK else None


def onnx_extremum_of_int64(graph: OnnxGraph, x: str, name: str, axis: int) -> str:
    """The largest ("Max") or smallest ("Min") elements along an axis, which stays: see `declarations.onnx_larger`."""
    return str(graph.op("GatherElements", x, graph.op(f"Arg{name}", x, axis=axis, keepdims=1), axis=axis))


def onnx_log_sum_exp(graph: OnnxGraph, x: str, axes: Sequence[int], keepdims: bool, dtype: np.dtype[Any]) -> str:
    """log(sum(exp(x))) around the largest.

    ReduceLogSumExp of ONNX Runtime takes 0 for the largest where -inf comes first, so that the sum underflows.
    """
    if not axes:
        return x
    at = graph.constant(np.array(axes, np.int64))
    largest = graph.op("ReduceMax", x, at, keepdims=1)
    shift = graph.op("Where", graph.op("IsInf", largest), graph.constant(0, dtype), largest)
    summed = graph.op("ReduceSum", graph.op("Exp", graph.op("Sub", x, shift)), at, keepdims=int(keepdims))
    logarithm = graph.op("Log", summed)
    return str(graph.op("Add", logarithm, shift if keepdims else graph.op("Squeeze", shift, at)))


def log_of_sum(w: Writer, *terms: str) -> str:
    """log(exp(a) + exp(b) + ...), minus infinity of nothing but minus infinities."""
    bounds = np.finfo(w.dtype)
    largest = w("Clip", w("Max", *terms), float(bounds.min), float(bounds.max))
    parts = [w("Exp", w("Sub", term, largest)) for term in terms]
    return w("Add", w("Log", w("Sum", *parts)), largest)
