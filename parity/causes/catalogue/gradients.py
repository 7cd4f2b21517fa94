"""Gradients that are stopped, or multiplied by a number, and parameters that are frozen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.ops import elementwise
from ....runtime.ops.boundary import stop_gradient
from ....runtime.tracing import Builder, SymbolicTensor
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..descriptions import spelling
from ..evidence import Evidence
from ..naming import name_of_value
from .by_values import place_of
from .hypothesis import Hypothesis, with_changed_value

DIGITS = 4
"""The most digits of a number that a gradient is multiplied by."""


def frozen(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield each parameter that the candidate has no gradient of, frozen."""
    for name, parameter in cell.program.parameters.items():
        if parameter.trainable and evidence.candidate.gradients.parameters.get(name) is None:
            shown = visible_name(name)
            cause = Cause("gradient", f"{shown} is frozen in the candidate only", attribute=name)
            changed = {**cell.program.parameters, name: replace(parameter, trainable=False)}
            yield Hypothesis(cause, partial(cell.program.replace, parameters=changed))


def detached(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each value that enters the Cell, and each output and passed value, without its gradient."""
    program = cell.program
    text = "a gradient is stopped (detach) in the candidate only, at"
    for value in program.inputs:
        if is_floating(value.dtype):
            cause = Cause("gradient", f"{text} {name_of_value(cell, value)}", op="stop_gradient")
            yield Hypothesis(cause, partial(with_changed_value, program, value, stop_gradient))
    for position, (value, key) in enumerate(zip(program.outputs, cell.output_keys, strict=True)):
        if is_floating(value.dtype):
            cause = Cause("gradient", f"{text} {place_of(key)}", op="stop_gradient")
            yield Hypothesis(cause, partial(_detached, program, position))


def _detached(program: Program, position: int) -> Program:
    builder = Builder.from_program(program)
    outputs = list(program.outputs)
    outputs[position] = stop_gradient(SymbolicTensor(builder, outputs[position])).value
    return program.replace(nodes=tuple(builder.nodes), constants=tuple(builder.constants), outputs=tuple(outputs))


def scaled(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield the gradient of each value multiplied by a number that explains a gradient of the Cell."""
    program = cell.program
    for number in _ratios(cell, evidence):
        for value in _floating_values(program):
            name = name_of_value(cell, value)
            summary = f"the gradient of {name} is multiplied by {spelling(number)} in the candidate"
            make = partial(with_changed_value, program, value, partial(_with_gradient_times, number))
            yield Hypothesis(Cause("gradient", summary, candidate_value=number), make)


def _floating_values(program: Program) -> list[Value]:
    values = [*program.inputs, *(v for node in program.nodes for v in node.outputs)]
    return [value for value in values if is_floating(value.dtype)]


def _ratios(cell: CellProgram, evidence: Evidence) -> list[float]:
    """Return the numbers by which whole gradients of the Cell are multiplied in the candidate."""
    keys = [key for key in cell.input_keys if key is not None]
    names = cell.program.parameters
    pairs = [(evidence.truth.values.get(key), evidence.candidate.values.get(key)) for key in keys]
    reference_gradients, candidate_gradients = (
        evidence.truth.gradients.parameters,
        evidence.candidate.gradients.parameters,
    )
    pairs += [(reference_gradients.get(name), candidate_gradients.get(name)) for name in names]
    ratios = (_ratio(array, other) for array, other in pairs if array is not None and other is not None)
    return [*dict.fromkeys(number for number in ratios if number is not None)]


def _ratio(array: Array, other: Array) -> float | None:
    """Return the number that one array is multiplied by in another; None if there is none, or it is 1."""
    squares = float(np.square(array).sum()) if array.shape == other.shape else 0.0
    if not squares:
        return None
    number = float(f"{float((array * other).sum()) / squares:.{DIGITS - 1}e}")
    off = float(np.abs(other - number * array).max())
    return number if number not in (0.0, 1.0) and off < 1e-6 * float(np.abs(other).max()) else None


def _with_gradient_times(number: float, x: SymbolicTensor) -> SymbolicTensor:
    """Return a tensor with the same values, and its gradient multiplied."""
    part = elementwise.mul(x, x.builder.constant(number, x.dtype))
    result: SymbolicTensor = elementwise.add(part, stop_gradient(elementwise.sub(x, part)))
    return result
