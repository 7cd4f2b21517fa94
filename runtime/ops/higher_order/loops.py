"""Loops: `loop` and `scan`. Their bodies are sub-programs, which use only their operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ProgramError
from ...ir.dims import symbol
from ...ir.program import Program
from ...ir.types import BOOL, INT64, is_floating
from ...tracing import SymbolicTensor
from ...traits import Traits
from ...tree import sequence
from .. import comparison, creation, reduction
from ..registry import Array, OnnxGraph, Tensor, Type, operator, require
from . import trips
from .control_flow import cond
from .subprogram_rules import align_cotangents, as_tuple, common_type, floating_cotangents, run


@operator
def loop(
    limit: Tensor, going: Tensor, *operands: Tensor, body: Program, carried: int, symbols: tuple[str, ...] = ()
) -> tuple[Tensor, ...]:
    """Run a body until its condition is false, at most `limit` times.

    Args:
        limit: int64, without dimensions.
        going: bool, without dimensions: the condition of the first iteration.
        operands: the initial carried values, then the captured values, which are the same in every iteration.
        body: takes the number of the iteration (int64, without dimensions) and the operands; returns the condition of
            the next iteration (bool, without dimensions), the new carried values, then the values to stack along a new
            first axis.
        carried: the number of carried values.
        symbols: names for the sizes that are known only at run time: those of carried values whose shapes change, in
            order, and last, if values are stacked, the number of iterations.

    Returns:
        The carried values after the last iteration, then the stacked values.

    torch while_loop; ONNX Loop-21.
    """


loop.traits = Traits(repeats=True, mixed_precision="as given")


@loop.infer
def _(
    limit: Type, going: Type, *operands: Type, body: Program, carried: int, symbols: tuple[str, ...]
) -> tuple[Type, ...]:
    from ...programs.subprograms import own_symbols, result_types

    require(limit == Type(INT64, ()), f"needed an int64 without dimensions as limit, given {limit}")
    require(going == Type(BOOL, ()), f"needed a bool without dimensions as condition, given {going}")
    condition, *results = result_types(body, [Type(INT64, ()), *operands])
    require(
        condition == Type(BOOL, ()),
        f"the first result of the body must be a bool without dimensions, given {condition}",
    )
    require(
        carried <= min(len(results), len(operands)),
        f"{carried} carried values, but {len(operands)} operands and {len(results)} results",
    )
    inner_symbols, fresh = own_symbols(body), iter(symbols)
    types = [
        common_type(a, b, inner_symbols, fresh) for a, b in zip(operands[:carried], results[:carried], strict=True)
    ]
    stacked = results[carried:]
    require(not stacked or bool(symbols), "stacked values need a symbol for the number of iterations")
    return *types, *(Type(t.dtype, (symbol(symbols[-1]), *t.shape)) for t in stacked)


@loop.native_kernel
def _(
    limit: Array, going: Array, *operands: Array, body: Program, carried: int, symbols: tuple[str, ...]
) -> tuple[Array, ...]:
    state, captured = operands[:carried], operands[carried:]
    rows: list[tuple[Array, ...]] = []
    go_on, iteration = bool(going), 0
    while go_on and iteration < limit:
        trips.count()
        condition, *results = run(body, (np.asarray(iteration, np.int64), *state, *captured))
        state = tuple(results[:carried])
        rows.append(tuple(results[carried:]))
        go_on, iteration = bool(condition), iteration + 1
    return *state, *_stack(rows, body, 1 + carried, (np.zeros((), np.int64), *operands))


def _stack(rows: Sequence[tuple[Array, ...]], body: Program, first: int, operands: Sequence[Array]) -> list[Array]:
    """Stack rows along a new first axis; without rows, return empty arrays of the body's result types."""
    from ...programs.subprograms import result_types

    if rows:
        return [np.stack(column) for column in zip(*rows, strict=True)]
    types = result_types(body, [Type(x.dtype, x.shape) for x in operands])[first:]
    return [np.zeros((0, *(d if isinstance(d, int) else 0 for d in t.shape)), t.dtype) for t in types]


@loop.vjp
def _(
    g: Any,
    y: Any,
    limit: Tensor,
    going: Tensor,
    *operands: Tensor,
    body: Program,
    carried: int,
    symbols: tuple[str, ...],
) -> tuple[Any, ...]:
    outputs = as_tuple(y)
    if any(a.shape != b.shape for a, b in zip(operands[:carried], outputs[:carried], strict=False)):
        raise ProgramError("op loop has no gradient where the shapes of carried values change")
    # run the loop again to record the carried values at the start of each iteration
    state = body.inputs[1 : 1 + carried]
    recording = _replace_outputs(body, (*body.outputs, body.inputs[0], *state))
    count = symbols[-1] if len(outputs) > carried else _new_symbol(limit)
    again = as_tuple(loop(limit, going, *operands, body=recording, carried=carried, symbols=(count,)))[len(outputs) :]
    step = _replace_outputs(body, body.outputs[1:])
    step = step.replace(inputs=(*state, body.inputs[0], *body.inputs[1 + carried :]))
    cotangents = floating_cotangents(as_tuple(g), outputs)
    gradients = _backward_scan(
        cotangents, again[1:], again[:1], operands[carried:], step, reverse=True, may_be_empty=True
    )
    return None, None, *align_cotangents(operands, gradients)


@loop.onnx
def _(
    graph: OnnxGraph, limit: str, going: str, *operands: str, body: Program, carried: int, symbols: tuple[str, ...]
) -> Any:
    subgraph = graph.subgraph(body, operands[carried:], unused={1: Type(BOOL, ())})
    return graph.op("Loop", limit, going, *operands[:carried], outputs=len(body.outputs) - 1, body=subgraph)


@operator
def scan(*operands: Tensor, body: Program, carried: int, scanned: int, reverse: bool = False) -> tuple[Tensor, ...]:
    """Run a body on each slice of tensors along their first axis, in order.

    Args:
        operands: the initial carried values, then the tensors to slice (all of one length), then the captured values,
            which are the same in every iteration.
        body: takes the carried values, the slices and the captured values; returns the new carried values, then the
            values to stack along a new first axis.
        carried: the number of carried values.
        scanned: the number of tensors to slice; at least one.
        reverse: whether to go from the last slice to the first; a stacked value has the position of its slice.

    Returns:
        The carried values after the last slice, then the stacked values.

    torch scan and map; ONNX Scan-21.
    """


scan.traits = Traits(repeats=True, mixed_precision="as given")


@scan.infer
def _(*operands: Type, body: Program, carried: int, scanned: int, reverse: bool) -> tuple[Type, ...]:
    from ...programs.subprograms import result_types

    sliced = operands[carried : carried + scanned]
    require(bool(sliced) and all(t.rank for t in sliced), "needed tensors to slice, with a first axis")
    length = sliced[0].shape[0]
    require(all(t.shape[0] == length for t in sliced), f"needed one length, given {', '.join(map(str, sliced))}")
    results = result_types(body, _iteration_types(operands, carried, scanned))
    for before, after in zip(operands[:carried], results[:carried], strict=True):
        require(before == after, f"a carried value has the type {before}, but the body returns {after}")
    return *results[:carried], *(Type(t.dtype, (length, *t.shape)) for t in results[carried:])


def _iteration_types(operands: Sequence[Type], carried: int, scanned: int) -> list[Type]:
    """Return the types of the operands of one iteration."""
    sliced = range(carried, carried + scanned)
    return [t.with_shape(t.shape[1:]) if i in sliced else t for i, t in enumerate(operands)]


@scan.native_kernel
def _(*operands: Array, body: Program, carried: int, scanned: int, reverse: bool) -> tuple[Array, ...]:
    state, sliced, captured = _split_operands(operands, carried, scanned)
    length = len(sliced[0])
    rows: list[tuple[Array, ...]] = []
    for i in reversed(range(length)) if reverse else range(length):
        trips.count()
        results = run(body, (*state, *(x[i] for x in sliced), *captured))
        state = results[:carried]
        rows.append(results[carried:])
    ordered = rows[::-1] if reverse else rows
    return *state, *_stack(ordered, body, carried, (*state, *(_zero_slice(x) for x in sliced), *captured))


def _zero_slice(x: Array) -> Array:
    return np.zeros(x.shape[1:], x.dtype)


@scan.vjp
def _(g: Any, y: Any, *operands: Tensor, body: Program, carried: int, scanned: int, reverse: bool) -> tuple[Any, ...]:
    outputs = as_tuple(y)
    beginnings: tuple[Any, ...] = ()
    if carried:  # run the scan again to record the carried values at the start of each iteration
        recording = _replace_outputs(body, (*body.outputs, *body.inputs[:carried]))
        again = as_tuple(scan(*operands, body=recording, carried=carried, scanned=scanned, reverse=reverse))
        beginnings = again[len(outputs) :]
    _, sliced, captured = _split_operands(operands, carried, scanned)
    cotangents = floating_cotangents(as_tuple(g), outputs)
    return tuple(
        align_cotangents(operands, _backward_scan(cotangents, beginnings, sliced, captured, body, reverse=not reverse))
    )


@scan.onnx
def _(graph: OnnxGraph, *operands: str, body: Program, carried: int, scanned: int, reverse: bool) -> Any:
    scan_inputs = operands[: carried + scanned]
    stacked = len(body.outputs) - carried
    return graph.op(
        "Scan",
        *scan_inputs,
        outputs=len(body.outputs),
        body=graph.subgraph(body, operands[len(scan_inputs) :]),
        num_scan_inputs=scanned,
        scan_input_directions=[int(reverse)] * scanned,
        scan_output_directions=[int(reverse)] * stacked if stacked else None,
    )


# ---- shared helpers ----


def _backward_scan(
    cotangents: Sequence[Tensor],
    beginnings: Sequence[Tensor],
    sliced: Sequence[Tensor],
    captured: Sequence[Tensor],
    body: Program,
    *,
    reverse: bool,
    may_be_empty: bool = False,
) -> list[Tensor]:
    """Return the gradient of a scan, which is a scan in the opposite direction.

    Args:
        cotangents: cotangents of the floating-point outputs of the scan.
        beginnings: the carried values at the start of each iteration, along the first axis.
        sliced: the sliced operands of the scan.
        captured: the captured operands of the scan.
        body: the body of the scan.
        reverse: the direction of the gradient's scan.
        may_be_empty: whether there may be no iteration; then no floating-point tensors may be sliced.

    Returns:
        Cotangents of the floating-point ones among carried values, sliced and captured operands.
    """
    from ...programs.subprograms import gradient, inline, trace_subprogram

    step_back = gradient(body)
    state_count = sum(is_floating(x.dtype) for x in beginnings)
    slice_count = sum(is_floating(x.dtype) for x in sliced)
    sums = [creation.full_like(x, 0) for x in captured if is_floating(x.dtype)]
    sizes = (state_count, len(sums), len(beginnings), len(sliced), len(cotangents) - state_count, len(captured))

    def step(*tensors: Any) -> list[Any]:
        state, so_far, initial, slices, rows, constant = _split(tensors, sizes)
        gradients = inline(tensors[0].builder, step_back, [*initial, *slices, *constant, *state, *rows])
        more = [a + b for a, b in zip(so_far, gradients[state_count + slice_count :], strict=True)]
        return [*gradients[:state_count], *more, *gradients[state_count : state_count + slice_count]]

    operands = [*cotangents[:state_count], *sums, *beginnings, *sliced, *cotangents[state_count:], *captured]
    carried, scanned = state_count + len(sums), len(operands) - state_count - len(sums) - len(captured)
    types = _iteration_types([Type(x.dtype, tuple(x.shape)) for x in operands], carried, scanned)
    back = trace_subprogram(step, types, f"{body.calls[0].class_name}_gradient")

    def scan_back(*tensors: Any) -> tuple[Any, ...]:
        return as_tuple(scan(*tensors, body=back, carried=carried, scanned=scanned, reverse=reverse))

    if may_be_empty and carried and not isinstance(operands[carried].shape[0], int):
        # ONNX Runtime doesn't support a Scan over no elements
        every = [Type(x.dtype, tuple(x.shape)) for x in operands]
        some = reduction.reduce_sum(creation.full_like(sliced[0], 1), axes=None)
        result = as_tuple(
            cond(
                comparison.greater(some, np.asarray(0, np.int64)),
                *operands,
                then_branch=trace_subprogram(scan_back, every, "some"),
                else_branch=trace_subprogram(lambda *tensors: tensors[:carried], every, "none"),
            )
        )
    else:
        result = scan_back(*operands)
    return [*result[:state_count], *result[carried:], *result[state_count:carried]]


def _split(items: Sequence[Any], sizes: Sequence[int]) -> list[Sequence[Any]]:
    """Split the items into consecutive parts of these lengths."""
    starts = np.cumsum([0, *sizes])
    return [items[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def _split_operands(operands: Sequence[Any], carried: int, scanned: int) -> list[Any]:
    """Split the operands of a scan into carried, sliced and captured ones."""
    return _split(operands, (carried, scanned, len(operands) - carried - scanned))


def _replace_outputs(program: Program, outputs: tuple[Any, ...]) -> Program:
    """Return the sub-program with other outputs."""
    return program.replace(outputs=outputs, result=sequence(len(outputs)))


def _new_symbol(like: Tensor) -> str:
    data = getattr(like, "_data", like)  # the data of a Tensor while Python is traced
    return data.builder.new_symbol("iterations") if isinstance(data, SymbolicTensor) else "iterations"
