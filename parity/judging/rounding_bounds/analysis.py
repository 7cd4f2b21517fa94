"""Bounds of the rounding errors of a program, by an analysis of its steps, and of the bodies of loops and branches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.ops.higher_order import trips
from ....runtime.ops.registry import evaluate
from ....runtime.programs.evaluation import Evaluation
from ....runtime.programs.interpreter import bind
from ....runtime.programs.plan import Step, plan
from ...sides.records import Array
from .estimates import Application, Estimate, Units
from .rules import RULES

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


def analyse(program: Program, inputs: Sequence[Array], outputs: Sequence[Value], units: Units) -> list[Estimate]:
    """Run a program in float64, and bound the rounding errors of running it in the working dtype.

    Inputs, parameters and constants are taken to be rounded to the working dtype, and otherwise exact.

    Args:
        program: the program, in float64.
        inputs: one array per input.
        outputs: values of the program.
        units: the unit roundoffs of the working dtype.

    Returns:
        The estimates of the wanted values.

    Raises:
        UsageError: the inputs don't fit the program.
        CellbridgeError: an op failed.
    """
    with np.errstate(all="ignore"):
        return _run(program, [units.rounded(array) for array in inputs], outputs, units)


def _run(program: Program, inputs: Sequence[Estimate], outputs: Sequence[Value], units: Units) -> list[Estimate]:
    values = {value: units.rounded(array) for value, array in program.constant_data.items()}
    values |= dict(zip(program.inputs, inputs, strict=True))
    run = _Analysis(values, bind(program, [x.value for x in inputs]), units)
    run.run(plan(program, outputs))
    return [run.values[value] for value in outputs]


class _Analysis(Evaluation):
    """The evaluation of a program on estimates."""

    def __init__(self, values: dict[Value, Any], sizes: dict[str, int], units: Units) -> None:
        super().__init__(values, sizes)
        self.units = units

    def new_sizes(self, step: Step, results: tuple[Any, ...]) -> dict[str, Dim]:
        """Return the sizes that the values of the results determine."""
        return super().new_sizes(step, tuple(result.value for result in results))

    def apply(self, step: Step, operands: list[Any]) -> tuple[Estimate, ...]:
        """Return the estimates of a step's outputs."""
        attributes = self.attributes(step)
        of_bodies = ANALYSES.get(step.op.name)
        estimates = None if of_bodies is None else of_bodies(self._run_body, operands, **attributes)
        if estimates is not None:
            return tuple(estimates)
        arrays = [None if x is None else x.value for x in operands]
        outputs = evaluate(step.op, arrays, attributes, tuple(value.type for value in step.node.outputs))
        if not any(is_floating(y.dtype) for y in outputs):
            return tuple(Estimate(y, None) for y in outputs)
        if not operands:
            return tuple(self.units.rounded(y) for y in outputs)
        rule = RULES.get(step.op.name)
        bounds = None
        if rule is not None and all(x is None or (x.is_known and x.value.size) for x in operands):
            bounds = rule(Application(step.op, operands, attributes, outputs, self.units))
        if bounds is None:
            return tuple(Estimate(y, None) for y in outputs)
        return tuple(
            Estimate(y, bound if is_floating(y.dtype) else None) for y, bound in zip(outputs, bounds, strict=True)
        )

    def _run_body(self, body: Program, operands: Sequence[Estimate]) -> list[Estimate]:
        return _run(body, operands, body.outputs, self.units)
