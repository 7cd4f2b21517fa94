"""The analysis of a program: it is run in float64, and each op's rule adds the bounds of rounding errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.ops.registry import evaluate
from ....runtime.programs.evaluation import Evaluation
from ....runtime.programs.interpreter import bind
from ....runtime.programs.plan import Step, plan
from ...sides.records import Array
from .estimates import Application, Estimate, Units
from .rules import RULES
from .subprograms import ANALYSES


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
