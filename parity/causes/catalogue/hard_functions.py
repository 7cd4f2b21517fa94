"""Hard sigmoids and swishes of other slopes: x / 6 + 1/2 between 0 and 1 in torch, x / 5 + 1/2 in Keras and ONNX."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops import elementwise
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from .hypothesis import Hypothesis, with_other_value

SLOPES = {1 / 6: "1/6", 0.2: "0.2", 0.25: "0.25", 0.5: "0.5"}
"""Of torch and MobileNetV3 (Howard et al., 2019), of Keras 2 and ONNX's default, and of others, in words."""


@dataclass(frozen=True)
class Line:
    """A value that is slope * x + offset, clipped to two bounds.

    Attributes:
        x: the value that it is computed from.
        result: the value.
        slope: its slope.
        offset: what is added.
        low: the lower bound.
        high: the upper bound.
        factor: whether the result is multiplied by x, as in a hard swish.
    """

    x: Value
    result: Value
    slope: float
    offset: float
    low: float
    high: float
    factor: bool = False


def slopes(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each hard sigmoid and hard swish with each other slope."""
    for line in _lines(cell.program):
        if abs(line.offset - 0.5) > 1e-9 or (line.low, line.high) != (0.0, 1.0):
            continue
        name = "hard swish" if line.factor else "hard sigmoid"
        reference_slope = next(
            (words for slope, words in SLOPES.items() if abs(slope - line.slope) < 1e-9), f"{line.slope:.6g}"
        )
        for slope, words in SLOPES.items():
            if words != reference_slope:
                cause = Cause(
                    "attribute", f"the {name}'s slope is {words} in the candidate, {reference_slope} in the reference",
                    f"use a slope of {reference_slope}", op=name.replace(" ", ""), attribute="slope",
                    reference_value=line.slope, candidate_value=slope,
                )  # fmt: skip
                make = partial(_hard, slope, line.factor)
                yield Hypothesis(cause, partial(with_other_value, cell.program, line.result, line.x, make))


def _hard(slope: float, factor: bool, x: SymbolicTensor) -> SymbolicTensor:
    scaled = elementwise.add(elementwise.mul(x, slope), 0.5)
    result: SymbolicTensor = elementwise.clamp(scaled, minimum=0.0, maximum=1.0)
    return elementwise.mul(x, result) if factor else result


def _lines(program: Program) -> Iterator[Line]:
    """Yield the clipped lines of a program, each with the numbers that its result is multiplied by."""
    numbers = {c.value: float(c.data.reshape(())) for c in program.constants if c.data.size == 1}
    made = {node.outputs[0]: node for node in program.nodes if len(node.outputs) == 1}
    users: dict[Value, list[Node]] = {}
    for node in program.nodes:
        for value in node.inputs:
            if value is not None:
                users.setdefault(value, []).append(node)
    for node in program.nodes:
        if node.op in ("hardsigmoid", "hardswish") and node.inputs[0] is not None:
            yield Line(node.inputs[0], node.outputs[0], 1 / 6, 0.5, 0.0, 1.0, factor=node.op == "hardswish")
        if node.op not in ("clamp", "hardtanh") or None in (
            low := node.attributes["minimum"],
            high := node.attributes["maximum"],
        ):
            continue
        value, slope, offset = node.inputs[0], 1.0, 0.0
        while value in made and (step := _step(made[value], numbers)) is not None:
            source, scale, shift = step
            slope, offset, value = slope * scale, offset + slope * shift, source
        result = node.outputs[0]
        low, high = float(low), float(high)
        while len(after := users.get(result, [])) == 1 and (step := _step(after[0], numbers)) is not None:
            _, scale, shift = step
            slope, offset, low, high = slope * scale, offset * scale + shift, low * scale + shift, high * scale + shift
            result = after[0].outputs[0]
        if value is not None:
            yield Line(value, result, slope, offset, low, high)


def _step(node: Node, numbers: dict[Value, float]) -> tuple[Value, float, float] | None:
    """Return the operand of a node that computes scale * x + shift, and both numbers; None if it doesn't."""
    if node.op not in ("add", "sub", "mul", "div") or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    if first is None or second is None:
        return None
    if first in numbers and node.op in ("add", "mul"):
        first, second = second, first
    if second not in numbers or first in numbers:
        return None
    number = numbers[second]
    scale = number if node.op == "mul" else 1 / number if node.op == "div" else 1.0
    shift = number if node.op == "add" else -number if node.op == "sub" else 0.0
    return first, scale, shift
