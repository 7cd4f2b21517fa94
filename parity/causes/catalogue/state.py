"""Updates of buffers with another momentum."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..descriptions import spelling
from ..evidence import Evidence
from .hypothesis import Hypothesis

MAX_DIGITS = 4


def momentum(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield other numbers for the momentum m of moving statistics, (1 - m) * old + m * new.

    m follows from the candidate's update by least squares.
    """
    program = cell.program
    for name in program.updates:
        terms = _terms(program, name)
        update = evidence.candidate.state.updates.get(name, evidence.candidate.state.buffers.get(name))
        if terms is None or update is None:
            continue
        kept, factor = terms[0], 1.0 - terms[0]
        old, new = program.buffers[name].data.astype(np.float64), evidence.truth.state.updates.get(name)
        if new is None or factor == 0:
            continue
        statistic = (new - kept * old) / factor
        direction = statistic - old
        estimate = float(((update - old) * direction).sum() / (np.square(direction).sum() or 1.0))
        for digits in range(1, MAX_DIGITS + 1):
            number = float(f"{estimate:.{digits - 1}e}")
            summary = f"momentum is {spelling(number)} in the candidate, {spelling(round(factor, 12))} in the reference"
            cause = Cause(
                "attribute", summary, attribute="momentum", reference_value=round(factor, 12), candidate_value=number
            )
            yield Hypothesis(cause, partial(_with_momentum, program, factor, number))


def _terms(program: Program, name: str) -> tuple[float, float] | None:
    """Return the factors of the old value and of the new statistic in an update; None if it isn't such a sum."""
    update = program.updates[name]
    add = program.producers.get(update)
    while add is not None and add.op in ("stop_gradient", "cast") and add.inputs[0] is not None:
        add = program.producers.get(add.inputs[0])
    if add is None or add.op != "add":
        return None
    buffer = program.buffers[name].value
    numbers = {c.value: float(c.data) for c in program.constants if c.data.size == 1}
    products = [program.producers.get(v) for v in add.inputs if v is not None]
    factors = [(_factor(node, numbers), node is not None and buffer in node.inputs) for node in products]
    old = next((factor for factor, is_old in factors if is_old), None)
    new = next((factor for factor, is_old in factors if not is_old), None)
    return None if old is None or new is None else (old, new)


def _factor(node: Node | None, numbers: dict[Value, float]) -> float | None:
    if node is None or node.op != "mul":
        return None
    return next((numbers[v] for v in node.inputs if v in numbers), None)


def _with_momentum(program: Program, factor: float, number: float) -> Program:
    """Return the program with the factors of all updates changed: 1 - m, and m times the correction of the variance."""
    constants = []
    updates = [terms for name in program.updates if (terms := _terms(program, name)) is not None]
    kept, new = {terms[0] for terms in updates}, {terms[1] for terms in updates}
    for constant in program.constants:
        value = float(constant.data) if constant.data.size == 1 else None
        if value in kept:
            constants.append(replace(constant, data=np.asarray(1.0 - number)))
        elif value in new:
            constants.append(replace(constant, data=np.asarray(value / factor * number)))
        else:
            constants.append(constant)
    return program.replace(constants=tuple(constants))
