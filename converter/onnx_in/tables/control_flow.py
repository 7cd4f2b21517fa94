"""ONNX control flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import BOOL
from ....runtime.ops import shaping
from ....runtime.ops.common import normalize_axis
from ..context import Context
from ..table import Unsupported, onnx
from ..values import Known, known

LONGEST = 1024  # iterations of a loop that is unrolled


def truth(value: Any) -> bool | None:
    """Whether a condition holds, as far as it is known."""
    if not isinstance(value, Known) or value.symbolic or value.data.size != 1:
        return None
    return bool(value.data.reshape(-1)[0])


@onnx("If", values=("cond",), folds=False)
def if_(context: Context, cond: Any, *, then_branch: Any, else_branch: Any) -> Any:
    """If-1..25(cond) { then_branch, else_branch } -> *outputs"""
    chosen = truth(cond)
    if chosen is None:
        raise Unsupported("a condition that is known only when the program runs")
    return context.run(then_branch if chosen else else_branch, ())


@onnx("Loop", values=("M", "cond", "v_initial"), folds=False)
def loop(context: Context, M: Any = None, cond: Any = None, *v_initial: Any, body: Any) -> Any:
    """Loop-1..25(M, cond, *v_initial) { body } -> *v_final_and_scan_outputs"""
    carried = list(v_initial)
    count = None if M is None else int(M.data.reshape(-1)[0]) if isinstance(M, Known) and not M.symbolic else -1
    going = True if cond is None else truth(cond)
    if going is None or count == -1:
        raise Unsupported("a number of iterations that is known only when the program runs")
    collected: list[list[Any]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    i = 0
    while going and (count is None or i < count):
        if i >= LONGEST:
            raise Unsupported(f"more than {LONGEST} iterations")
        results = context.run(body, (known(np.array(i, np.int64)), known(np.array(True, BOOL)), *carried))
        going = truth(results[0])
        if going is None:
            raise Unsupported("a condition that is known only when the program runs")
        carried = list(results[1 : 1 + len(carried)])
        for rows, item in zip(collected, results[1 + len(carried) :], strict=True):
            rows.append(item)
        i += 1
    return *carried, *(stacked(context, rows, 0) for rows in collected)


def stacked(context: Context, rows: list[Any], axis: int) -> Any:
    """Results of iterations as one tensor, along a new axis."""
    if not rows:
        raise Unsupported("no iteration, so that the shapes of what is collected aren't known")
    tensors = [context.tensor(row) for row in rows]
    at = normalize_axis(axis, tensors[0].ndim + 1)
    return shaping.concat(*(shaping.reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:])) for x in tensors), axis=at)


@onnx("Scan", values=("initial_state_and_scan_inputs",), folds=False)
def scan(
    context: Context, *initial_state_and_scan_inputs: Any, body: Any, num_scan_inputs: int,
    scan_input_axes: Any = None, scan_input_directions: Any = None, scan_output_axes: Any = None,
    scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    """Scan-9..25(*initial_state_and_scan_inputs) { body } -> *final_state_and_scan_outputs"""
    operands = initial_state_and_scan_inputs
    carried = list(operands[: len(operands) - num_scan_inputs])
    xs = [context.tensor(x) for x in operands[len(carried) :]]
    axes = [normalize_axis(a, x.ndim) for a, x in zip(scan_input_axes or [0] * len(xs), xs, strict=True)]
    length = xs[0].shape[axes[0]] if xs else 0
    if not isinstance(length, int) or length > LONGEST:
        raise Unsupported("a number of iterations that is known only when the program runs, or is large")
    backward = scan_input_directions or [0] * len(xs)
    count = len(body.output) - len(carried)
    collected: list[list[Any]] = [[] for _ in range(count)]
    for i in range(length):
        rows = []
        for x, axis, reverse in zip(xs, axes, backward, strict=True):
            at = length - 1 - i if reverse else i
            row = shaping.slice(x, starts=(at,), stops=(at + 1,), steps=(1,), axes=(axis,))
            rows.append(shaping.reshape(row, shape=(*x.shape[:axis], *x.shape[axis + 1 :])))
        results = context.run(body, (*carried, *rows))
        carried = list(results[: len(carried)])
        for items, item in zip(collected, results[len(carried) :], strict=True):
            items.append(item)
    if len(collected) != count:
        raise ShapeError(f"the body gives {len(collected)} outputs to collect, {count} are needed")
    turned = scan_output_directions or [0] * count
    results_axes = scan_output_axes or [0] * count
    finals = (items[::-1] if turn else items for items, turn in zip(collected, turned, strict=True))
    return *carried, *(stacked(context, items, axis) for items, axis in zip(finals, results_axes, strict=True))
