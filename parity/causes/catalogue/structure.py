"""Terms left out, operands exchanged, other functions, and functions too many."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, is_floating
from ....runtime.ops.registry import family, get
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..descriptions import place_of_node
from ..evidence import Evidence
from ..naming import cells_of_nodes
from ..rebuilding import Operands, Results, append
from ..roles import role_of
from .hypothesis import Hypothesis, places, with_other_nodes

ACTIVATIONS = family("activation")


def other_functions(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each node with another op of its family; attributes that it doesn't have get their defaults."""
    for node, positions in places(cell.program):
        for other in family(get(node.op).traits.family):
            if other != node.op:
                cause = Cause(
                    "structure", f"{other} is computed in the candidate, {node.op} in the reference", op=node.op
                )
                yield Hypothesis(cause, partial(_with_op, cell.program, positions, other), len(positions))


def _with_op(program: Program, positions: tuple[int, ...], op: str) -> Program:
    def other(builder: Builder, node: Node, operands: Operands) -> Results:
        names = get(op).attribute_defaults
        attributes = {name: value for name, value in node.attributes.items() if name in names}
        if op == "max_pool":
            attributes["dilation"] = (1,) * len(attributes["kernel"])
        results = append(builder, op, operands, get(op).attributes(attributes))
        # a maximum also has positions, which are of no use to what takes a mean
        return (*results, *results)[: len(node.outputs)]

    return with_other_nodes(program, positions, other)


def omissions(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each node left out, with one of its operands in its place, and each optional operand left out."""
    for node, positions in places(cell.program):
        names = get(node.op).operand_names(len(node.inputs))
        location = f" ({place_of_node(node)})" if place_of_node(node) else ""
        role = None
        for number, value in enumerate(node.inputs):
            if value is None:
                continue
            if len(node.outputs) == 1 and value.type == node.outputs[0].type:
                what = "".join(cells_of_nodes(cell, [node])[0])
                fix = f"call {what}" if what else ""
                role = role or (None if what else role_of(cell, node))
                words = role.left_out if role is not None else f"{what or node.op} is left out of the candidate"
                cause = Cause("structure", f"{words}{location}", fix, op=node.op)
                yield Hypothesis(
                    cause, partial(with_other_nodes, cell.program, positions, _passing(number)), len(positions)
                )
            if number >= get(node.op).required_inputs and not get(node.op).variadic:
                summary = f"{names[number]} of {node.op} is absent in the candidate"
                cause = Cause("structure", summary, op=node.op)
                yield Hypothesis(
                    cause, partial(with_other_nodes, cell.program, positions, _without(number)), len(positions)
                )


def _passing(number: int) -> Any:
    def other(_: Builder, __: Node, operands: Operands) -> Results:
        operand = operands[number]
        assert operand is not None
        return (operand,)

    return other


def _without(number: int) -> Any:
    def other(builder: Builder, node: Node, operands: Operands) -> Results:
        return append(builder, node.op, [None if i == number else x for i, x in enumerate(operands)], node.attributes)

    return other


def exchanges(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each two operands of a node in each other's place."""
    for node, positions in places(cell.program):
        names = get(node.op).operand_names(len(node.inputs))
        for i in range(len(node.inputs)):
            for j in range(i + 1, len(node.inputs)):
                if node.inputs[i] is not None and node.inputs[j] is not None and node.inputs[i] is not node.inputs[j]:
                    summary = f"{names[i]} and {names[j]} of {node.op} are exchanged in the candidate"
                    cause = Cause("structure", summary, op=node.op)
                    yield Hypothesis(
                        cause, partial(with_other_nodes, cell.program, positions, _exchanging(i, j)), len(positions)
                    )


def _exchanging(i: int, j: int) -> Any:
    def other(builder: Builder, node: Node, operands: Operands) -> Results:
        operands = list(operands)
        operands[i], operands[j] = operands[j], operands[i]
        return append(builder, node.op, operands, node.attributes)

    return other


def additions(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield an activation, and a gradient that is stopped, behind each node and at each operand."""
    for node, positions in places(cell.program):
        if len(node.outputs) == 1 and is_floating(node.outputs[0].dtype):
            for op in (*ACTIVATIONS, "stop_gradient"):
                make = partial(with_other_nodes, cell.program, positions, _followed_by(op))
                yield Hypothesis(_in_addition(op, f"behind {node.op}"), make, len(positions))
        names = get(node.op).operand_names(len(node.inputs))
        for number, value in enumerate(node.inputs):
            if value is not None and is_floating(value.dtype):
                for op in (*ACTIVATIONS, "stop_gradient"):
                    make = partial(with_other_nodes, cell.program, positions, _preceded_by(op, number))
                    yield Hypothesis(_in_addition(op, f"for {names[number]} of {node.op}"), make, len(positions))


def _in_addition(op: str, where: str) -> Cause:
    if op == "stop_gradient":
        return Cause("gradient", f"a gradient is stopped (detach) in the candidate only, {where}", op=op)
    return Cause("structure", f"{op} is computed in the candidate in addition, {where}", op=op)


def _followed_by(op: str) -> Any:
    def other(builder: Builder, node: Node, operands: Operands) -> Results:
        results: list[SymbolicTensor | None] = [*append(builder, node.op, operands, node.attributes)]
        return append(builder, op, results, get(op).attributes({}))

    return other


def _preceded_by(op: str, number: int) -> Any:
    def other(builder: Builder, node: Node, operands: Operands) -> Results:
        (changed,) = append(builder, op, [operands[number]], get(op).attributes({}))
        return append(
            builder, node.op, [changed if i == number else x for i, x in enumerate(operands)], node.attributes
        )

    return other
