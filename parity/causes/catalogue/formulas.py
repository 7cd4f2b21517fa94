"""Functions that are computed by another formula: norms of another order, quotients rounded otherwise, a fast GELU."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ....runtime.ops import elementwise, reduction, rounding
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..operators import operators, settings_in_words
from ..rebuilding import Operands, Results
from .hypothesis import Hypothesis, places, with_attributes, with_other_nodes, with_other_value

VECTOR_NORM = "linalg_vector_norm"
ORDERS = (1.0, 2.0, math.inf, 3.0)
QUICK = 1.702
"""Hendrycks and Gimpel, "Gaussian error linear units" (2016): x * sigmoid(1.702 x)."""


def orders(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each norm of vectors with each other order."""
    for operator in operators(cell.program):
        if operator.name != VECTOR_NORM or not operator.nodes[0].inputs:
            continue
        source, result = operator.nodes[0].inputs[0], operator.nodes[-1].outputs[0]
        axes, keepdims, reference_order = (operator.settings[name] for name in ("dim", "keepdim", "ord"))
        for order in ORDERS:
            if order == reference_order or source is None:
                continue
            words, fix = settings_in_words([("ord", reference_order, order)])
            cause = Cause(
                "attribute", f"in {VECTOR_NORM}, {words}", fix, op=VECTOR_NORM, attribute="ord",
                reference_value=float(reference_order), candidate_value=order,
            )  # fmt: skip
            make = partial(_norm, order=order, axes=axes, keepdims=keepdims)
            yield Hypothesis(cause, partial(with_other_value, cell.program, result, source, make))


def _norm(x: SymbolicTensor, order: float, axes: Any, keepdims: bool) -> SymbolicTensor:
    sizes: Any = elementwise.abs(x)
    if order == math.inf:
        largest: SymbolicTensor = reduction.reduce_max(sizes, axes=axes, keepdims=keepdims)
        return largest
    total: Any = reduction.reduce_sum(sizes**order, axes=axes, keepdims=keepdims)
    root: SymbolicTensor = total ** (1 / order)
    return root


def others(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each quotient that is rounded, rounded otherwise, and each GELU with the sigmoid in its place."""
    program = cell.program
    for node, positions in places(program):
        if node.op == "gelu":
            words = f"the GELU is approximated by x * sigmoid({QUICK} x) in the candidate"
            cause = Cause("structure", words, "use gelu(x)", op="gelu")
            yield Hypothesis(cause, partial(with_other_nodes, program, positions, _quick), len(positions))
        if node.op == "floor_divide":
            words, fix = settings_in_words([("rounding_mode", "floor", "trunc")])
            cause = Cause(
                "attribute", f"in div, {words}", fix, op=node.op, attribute="rounding_mode",
                reference_value="floor", candidate_value="trunc",
            )  # fmt: skip
            yield Hypothesis(cause, partial(with_other_nodes, program, positions, _truncated), len(positions))


def approximations(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each GELU with the other of torch's formulas."""
    for node, positions in places(cell.program):
        if node.op == "gelu":
            formula = node.attributes["approximate"]
            other = "none" if formula == "tanh" else "tanh"
            words, fix = settings_in_words([("approximate", formula, other)])
            cause = Cause(
                "attribute", f"in gelu, {words}", fix, op="gelu", attribute="approximate",
                reference_value=formula, candidate_value=other,
            )  # fmt: skip
            make = partial(with_attributes, cell.program, positions, approximate=other)
            yield Hypothesis(cause, make, len(positions))


def powers(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each square with the magnitude in its place, and each magnitude with the square."""
    for node, positions in places(cell.program):
        is_square = node.op == "mul" and node.inputs[0] is node.inputs[1]
        is_square = is_square or (node.op == "pow" and _number(cell.program, node.inputs[1]) == 2)
        if is_square or node.op == "abs":
            own, other = ("the square", "the magnitude") if is_square else ("the magnitude", "the square")
            cause = Cause("structure", f"{other} is computed in the candidate, {own} in the reference", op=node.op)
            make = partial(with_other_nodes, cell.program, positions, _magnitude if is_square else _square)
            yield Hypothesis(cause, make, len(positions))


def _number(program: Program, value: Value | None) -> float | None:
    data = None if value is None else program.constant_data.get(value)
    return float(data.reshape(())) if data is not None and data.size == 1 else None


def _magnitude(_: Builder, node: Any, operands: Operands) -> Results:
    assert operands[0] is not None
    return (elementwise.abs(operands[0]),)


def _square(_: Builder, node: Any, operands: Operands) -> Results:
    assert operands[0] is not None
    return (elementwise.mul(operands[0], operands[0]),)


def _quick(_: Builder, node: Any, operands: Operands) -> Results:
    (x,) = (operand for operand in operands if operand is not None)
    return (elementwise.mul(x, elementwise.sigmoid(x * QUICK)),)


def _truncated(_: Builder, node: Any, operands: Operands) -> Results:
    first, second = operands
    assert first is not None
    assert second is not None
    return (rounding.trunc(elementwise.div(first, second)),)
