"""Ops with sub-programs: the bounds of loops, branches and functions come from analysing their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import is_floating
from ....runtime.ops.higher_order import trips
from .estimates import Estimate

Estimates = Sequence[Estimate]
RunBody = Callable[[Program, Estimates], Estimates]
Analysis = Callable[..., Estimates | None]
"""Takes `RunBody`, the operands and the op's attributes; returns the outputs, or None if nothing is known of them."""


def cond(run: RunBody, operands: Estimates, *, then_branch: Program, else_branch: Program, **_: Any) -> Estimates:
    """The branch that is taken in float64."""
    predicate, *rest = operands
    return run(then_branch if predicate.value else else_branch, rest)


def loop(run: RunBody, operands: Estimates, *, body: Program, carried: int, **_: Any) -> Estimates | None:
    """As many iterations as there are in float64."""
    limit, going, *rest = operands
    state, captured = rest[:carried], rest[carried:]
    rows: list[Estimates] = []
    go_on = bool(going.value)
    while go_on and len(rows) < limit.value:
        trips.count()
        number = Estimate(np.asarray(len(rows), np.int64), None)
        condition, *results = run(body, [number, *state, *captured])
        state = results[:carried]
        rows.append(results[carried:])
        go_on = bool(condition.value)
    return [*state, *_stack(rows)] if rows else None


def scan(
    run: RunBody, operands: Estimates, *, body: Program, carried: int, scanned: int, reverse: bool, **_: Any
) -> Estimates | None:
    """An iteration for each slice."""
    state: Estimates = operands[:carried]
    sliced, captured = operands[carried : carried + scanned], operands[carried + scanned :]
    rows: list[Estimates] = []
    length = len(sliced[0].value)
    for number in reversed(range(length)) if reverse else range(length):
        trips.count()
        results = run(body, [*state, *(_slice(x, number) for x in sliced), *captured])
        state = results[:carried]
        rows.append(results[carried:])
    return [*state, *_stack(rows[::-1] if reverse else rows)] if rows else None


def onnx_function(run: RunBody, operands: Estimates, *, body: Program, **_: Any) -> Estimates:
    """The body, which defines the operator."""
    return run(body, operands)


ANALYSES: dict[str, Analysis] = {"cond": cond, "loop": loop, "scan": scan, "onnx_function": onnx_function}
"""The analyses by the names of ops."""


def _slice(x: Estimate, number: int) -> Estimate:
    return Estimate(x.value[number], None if x.bound is None else x.bound[number])


def _stack(rows: Sequence[Estimates]) -> list[Estimate]:
    """Stack the estimates of all iterations; a bound that isn't known in one of them isn't known at all."""
    stacked = []
    for column in zip(*rows, strict=True):
        bounds = [np.broadcast_to(x.bound, x.value.shape) for x in column if x.bound is not None]
        is_known = is_floating(column[0].value.dtype) and len(bounds) == len(column)
        stacked.append(Estimate(np.stack([x.value for x in column]), np.stack(bounds) if is_known else None))
    return stacked
