"""Values of a Cell that are the same for all inputs: tables, such as masks and positions, stored or computed."""

from __future__ import annotations

from dataclasses import replace

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.ops.registry import get
from ...runtime.programs.interpreter import execute
from ...runtime.tracing import Builder
from ..sides.records import Array
from .cell_program import CellProgram
from .differences import Comparison, Difference, Operand
from .rebuilding import INVALID, Operands, Results, keep, rebuild

MAX_ELEMENTS = 2**22
"""The most elements of all tables of a Cell that are computed."""


def is_fixed(program: Program, value: Value) -> bool:
    """Whether a value is the same for all inputs: stored, or computed from what is stored alone."""
    needed, visited = [value], set[Value]()
    while needed:
        current = needed.pop()
        if current in program.inputs:
            return False
        if current not in visited and current in program.producers:
            needed += [v for v in program.producers[current].inputs if v is not None]
        visited.add(current)
    return True


def array_of(cell: CellProgram, value: Value | None) -> Array | None:
    """Return the numbers of a value; None if they depend on inputs, or can't be computed."""
    if value is None or not is_fixed(cell.program, value):
        return None
    try:
        return execute(cell.program, cell.arrays, wanted=[value])[0]
    except INVALID:
        return None


def exchanged_table(comparison: Comparison, difference: Difference) -> tuple[Operand, Operand] | None:
    """Return where a table is used that both sides make in other nodes, or one side has stored.

    Args:
        comparison: the two programs.
        difference: a run of nodes that one side computes, or that it computes in place of others.

    Returns:
        The operand of the reference and that of the candidate; None if the nodes compute something else.
    """
    programs = comparison.reference.program, comparison.candidate.program
    operand_pairs = comparison.operands_from(difference)
    used = {(node.inputs[n], other.inputs[m]) for (node, n), (other, m) in operand_pairs}
    if len(used) != 1:
        return None
    pair = zip(used.pop(), programs, strict=True)
    return operand_pairs[0] if all(value is not None and is_fixed(program, value) for value, program in pair) else None


def of_several_tables(comparison: Comparison, difference: Difference) -> bool:
    """Whether nodes that one side has in place of others compute tables and something else, or several tables.

    Where one of them is used says only a part of what differs.
    """
    programs = comparison.reference.program, comparison.candidate.program
    used = {(node.inputs[n], other.inputs[m]) for (node, n), (other, m) in comparison.operands_from(difference)}
    tables = [
        pair
        for pair in used
        if all(v is not None and is_fixed(program, v) for v, program in zip(pair, programs, strict=True))
    ]
    return len(used) > 1 and bool(tables)


def with_tables(cell: CellProgram) -> CellProgram | None:
    """Return a Cell with constants in place of the nodes that compute fixed values; None if it computes none.

    Two programs that count positions in other ways may differ in many nodes. With such tables computed they differ in
    one array.

    Raises:
        CellbridgeError: the values can't be computed.
    """
    program = cell.program
    fixed = {constant.value for constant in program.constants}
    nodes: list[Node] = []
    for node in program.nodes:
        if not get(node.op).traits.draws and all(value is None or value in fixed for value in node.inputs):
            fixed.update(node.outputs)
            nodes.append(node)
    own = {id(node) for node in nodes}
    needed = {v for node in program.nodes if id(node) not in own for v in node.inputs} | {*program.outputs}
    tables = [v for node in nodes for v in node.outputs if v in needed]
    if not tables or any(v.type.sizes is None for v in tables):
        return None
    arrays = dict(zip(tables, execute(program, cell.arrays, wanted=tables), strict=True))
    if sum(array.size for array in arrays.values()) > MAX_ELEMENTS:
        return None
    places: dict[Value, str] = {}

    def rule(builder: Builder, position: int, node: Node, operands: Operands) -> Results:
        if id(node) not in own or not any(v in arrays for v in node.outputs):
            return keep(builder, position, node, operands)
        known = {v: builder.constant(arrays[v], v.dtype) for v in node.outputs if v in arrays}
        places.update({known[v].value: str(node.source or "") for v in known})
        return tuple(known.get(v, next(iter(known.values()))) for v in node.outputs)

    return replace(cell, program=without_unused(rebuild(program, rule)), places=places)


def without_unused(program: Program) -> Program:
    """Return a program without nodes and constants that nothing uses."""
    used = {*program.outputs, *program.updates.values()}
    kept: list[Node] = []
    for node in reversed(program.nodes):
        if not used.isdisjoint(node.outputs) or not node.outputs:
            kept.append(node)
            used.update(v for v in node.inputs if v is not None)
    constants = tuple(constant for constant in program.constants if constant.value in used)
    return program.replace(nodes=tuple(reversed(kept)), constants=constants)
