"""Attributes of ops, and scalar constants, with another value."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Any

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..descriptions import plain, spelling
from ..evidence import Evidence
from ..written_numbers import forms_of
from .hypothesis import Hypothesis, places, with_attributes
from .numbers import likely_numbers

WORDS = {
    "approximate": ("none", "tanh"),
    "mode": ("nearest", "linear", "bilinear", "bicubic", "constant", "reflect", "replicate", "circular"),
}
"""Values of attributes that are words."""
MAX_PADDING = 6
MAX_PERMUTED_RANK = 5
PADDINGS = ("padding", "pads")
FROM_ZERO = ("axis", "correction")
"""Attributes that may be 0."""
PADDING_INDEX = "padding_index"
USUAL_PADDING = (0, 1)
"""The rows that tables of words have for padding."""


def attributes(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield each attribute with each other value that people write."""
    several = len({node.op for node in cell.program.nodes}) > 1
    for node, positions in places(cell.program):
        for name, value in node.attributes.items():
            for other in _alternatives(cell, evidence, positions, node, name):
                summary = f"{name} is {spelling(other)} in the candidate, {spelling(value)} in the reference"
                cause = Cause(
                    "attribute", f"in {node.op}, {summary}" if several else summary, op=node.op, attribute=name,
                    reference_value=plain(value), candidate_value=plain(other), source="",
                )  # fmt: skip
                yield Hypothesis(
                    cause, partial(with_attributes, cell.program, positions, **{name: other}), len(positions)
                )


def _alternatives(
    cell: CellProgram, evidence: Evidence, positions: tuple[int, ...], node: Node, name: str
) -> Iterator[Any]:
    value = node.attributes[name]
    if name == PADDING_INDEX:  # before other rows, which agree if no word is in them
        yield from (index for index in (None, *USUAL_PADDING) if index != value)
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield from (word for word in WORDS.get(name, ()) if word != value)
    elif isinstance(value, float):
        yield from likely_numbers(
            cell, evidence, value, lambda number: with_attributes(cell.program, positions, **{name: number})
        )
    elif isinstance(value, int):
        rank = len(node.inputs[0].shape) if node.inputs and node.inputs[0] is not None else 0
        others = range(rank) if name == "axis" else {value - 1, value + 1, 2 * value, value // 2, 1}
        yield from sorted(other for other in set(others) if other != value and (other > 0 or name in FROM_ZERO))
    elif isinstance(value, tuple) and value:
        yield from _other_tuples(name, value)


def _other_tuples(name: str, value: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if all(isinstance(item, tuple) and len(item) == 2 for item in value) and name in PADDINGS:
        for low in range(MAX_PADDING):
            for high in range(MAX_PADDING):
                other = ((low, high),) * len(value)
                if other != value:
                    yield other
    elif all(isinstance(item, int) for item in value):
        if name == "permutation" and len(value) <= MAX_PERMUTED_RANK:
            yield from (order for order in permutations(value) if order != value)
            return
        if name == "axes":
            yield from ((axis,) for axis in value if len(value) > 1)
        for step in (-1, 1, 2, 3):
            yield tuple(item + step for item in value)
        for index in range(len(value)) if len(value) > 1 else ():
            for step in (-1, 1):
                yield (*value[:index], value[index] + step, *value[index + 1 :])


def constants(cell: CellProgram, evidence: Evidence) -> Iterator[Hypothesis]:
    """Yield each scalar constant with the number that explains the outputs best."""
    for value, reference in _numbers(cell.program):
        make = partial(_with_constant, cell.program, value)
        for number in likely_numbers(cell, evidence, reference, make):
            yield _other_number(cell.program, value, reference, number)


def written(names: Mapping[float, str], cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each scalar constant with each number of the other side, as it may be written here.

    Args:
        names: what each number of the other side is called there; empty if it has no name.
        cell: the Cell.
    """
    others = {form: "" for number in sorted(names) for form in forms_of(number)} | dict(names)
    for value, reference in _numbers(cell.program):
        for number, name in others.items():
            if number != reference:
                yield _other_number(cell.program, value, reference, number, name)


def _numbers(program: Program) -> Iterator[tuple[Value, float]]:
    """Yield the scalar constants that are no integers, with their numbers."""
    for constant in program.constants:
        if constant.data.size == 1 and is_floating(constant.value.dtype):
            number = float(constant.data.reshape(()))
            if not math.isnan(number):
                yield constant.value, number


def _other_number(program: Program, value: Value, reference: float, number: float, name: str = "") -> Hypothesis:
    users = [node.op for node in program.nodes if value in node.inputs]
    what = f"the number in {users[0] if users else 'the result'}"
    summary = f"{name}, {what}," if name else what
    cause = Cause(
        "attribute", f"{summary} is {spelling(number)} in the candidate, {spelling(reference)} in the reference",
        f"use {name}={spelling(reference)}" if name else f"use {spelling(reference)}",
        op=users[0] if users else "", attribute=name, reference_value=reference, candidate_value=number,
    )  # fmt: skip
    return Hypothesis(cause, partial(_with_constant, program, value, number))


def _with_constant(program: Program, value: Value, number: float) -> Program:
    return program.replace(
        constants=tuple(
            replace(c, data=np.full(c.data.shape, number, np.float64)) if c.value is value else c
            for c in program.constants
        )
    )
