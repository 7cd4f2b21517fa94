"""Another value of the same type in the place of an operand or result, and values that are scaled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.ops import elementwise
from ....runtime.ops.registry import get
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ...sides.records import OUTPUT_GRADIENT
from ..cell_program import CellProgram
from ..descriptions import spelling
from ..evidence import Evidence
from ..naming import name_of_value
from ..rebuilding import rebuild
from .by_values import place_of
from .hypothesis import Hypothesis, with_changed_value, with_values
from .numbers import likely_numbers

MAX_VALUES = 40
"""The most values that are tried in the place of another."""
MAX_EXCHANGED = 40
"""The most values of which each two are exchanged."""


def results(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each output or passed value with another value in its place; a Cell may be left out that way."""
    program = cell.program
    for position, (value, key) in enumerate(zip(program.outputs, cell.output_keys, strict=True)):
        output_name = place_of(key)
        for other in _of_same_type(program, value, before=len(program.nodes)):
            outputs = (*program.outputs[:position], other, *program.outputs[position + 1 :])
            in_candidate, in_reference = (name_of_value(cell, value) for value in (other, value))
            summary = f"{output_name} is {in_candidate} in the candidate, {in_reference} in the reference"
            yield Hypothesis(Cause("structure", summary), partial(program.replace, outputs=outputs))


def exchanges(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each two values of one type in each other's place, wherever they are used."""
    program = cell.program
    values = [*program.inputs, *(v for node in program.nodes for v in node.outputs)][:MAX_EXCHANGED]
    for number, first_value in enumerate(values):
        for other in values[number + 1 :]:
            if first_value.type == other.type and first_value.shape:
                first, second = name_of_value(cell, first_value), name_of_value(cell, other)
                cause = Cause("structure", f"{first} and {second} are exchanged in the candidate")
                yield Hypothesis(cause, partial(with_values, program, {first_value: other, other: first_value}))


def operands(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each operand of each node with another value in its place."""
    program = cell.program
    for position, node in enumerate(program.nodes):
        names = get(node.op).operand_names(len(node.inputs))
        for number, value in enumerate(node.inputs):
            for other in () if value is None else _of_same_type(program, value, before=position):
                assert value is not None
                in_candidate, in_reference = (name_of_value(cell, value) for value in (other, value))
                summary = (
                    f"{names[number]} of {node.op} is {in_candidate} in the candidate, {in_reference} in the reference"
                )
                cause = Cause("structure", summary, op=node.op)
                yield Hypothesis(cause, partial(_with_operand, program, position, number, other))


def _of_same_type(program: Program, value: Value, before: int) -> list[Value]:
    """Return the other values of the type of a value that are known before a node, the nearest first."""
    values = [v for node in reversed(program.nodes[:before]) for v in node.outputs]
    values += [*program.inputs, *(p.value for p in program.parameters.values())]
    return [v for v in values if v is not value and v.type == value.type][:MAX_VALUES]


def _with_operand(program: Program, position: int, number: int, other: Value) -> Program:
    node = program.nodes[position]
    changed = replace(node, inputs=(*node.inputs[:number], other, *node.inputs[number + 1 :]))
    return rebuild(program.replace(nodes=(*program.nodes[:position], changed, *program.nodes[position + 1 :])))


def scales(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield each value that enters the Cell, and each result of a node, multiplied by a number."""
    program = cell.program
    for value in [*program.inputs, *(v for node in program.nodes for v in node.outputs)]:
        if not is_floating(value.dtype):
            continue
        make = partial(_scaled, program, value)
        for number in (-1.0, *likely_numbers(cell, evidence, 1.0, make)):
            summary = f"{name_of_value(cell, value)} is multiplied by {spelling(number)} in the candidate"
            yield Hypothesis(Cause("structure", summary, candidate_value=number), partial(make, number))


def _scaled(program: Program, value: Value, number: float) -> Program:
    """Return the program with a value multiplied wherever it is used."""
    return with_changed_value(program, value, lambda x: elementwise.mul(x, x.builder.constant(number, x.dtype)))


def left_out_cells(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each Cell inside left out: what it returns is what is passed to it."""
    program = cell.program
    passed = {key.path: value for value, key in zip(program.outputs, cell.output_keys, strict=True) if key.path}
    for value, key in zip(program.inputs, cell.input_keys, strict=True):
        if key is None or key.kind != OUTPUT_GRADIENT or key.path not in passed:
            continue
        other = passed[key.path]
        if other.type == value.type:
            name = visible_name(key.path)
            cause = Cause("structure", f"{name} is left out of the candidate", f"call {name}")
            yield Hypothesis(cause, partial(with_values, program, {value: other}))
