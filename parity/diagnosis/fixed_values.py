"""Values of a Cell that are the same for all inputs: tables, such as masks and positions, stored or computed."""

from __future__ import annotations

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.programs.interpreter import execute
from ..sides.records import Array
from .cell_program import CellProgram
from .differences import Comparison, Difference
from .rebuilding import INVALID

Operand = tuple[Node, int]
"""A node, and which of its operands is meant."""


def is_fixed(program: Program, value: Value) -> bool:
    """Whether a value is the same for all inputs: stored, or computed from what is stored alone."""
    needed, seen = [value], set[Value]()
    while needed:
        one = needed.pop()
        if one in program.inputs:
            return False
        if one not in seen and one in program.producers:
            needed += [v for v in program.producers[one].inputs if v is not None]
        seen.add(one)
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
    made = [{v for node in nodes for v in node.outputs} for nodes in (difference.nodes, difference.other_nodes)]
    found: list[tuple[Operand, Operand]] = []
    for i, j in comparison.pairs:
        if i is None or j is None:
            continue
        node, other = programs[0].nodes[i], programs[1].nodes[j]
        for position, values in enumerate(zip(node.inputs, other.inputs, strict=False)):
            if any(value in own for value, own in zip(values, made, strict=True)):
                found.append(((node, position), (other, position)))
    used = {(node.inputs[n], other.inputs[m]) for (node, n), (other, m) in found}
    if len(used) != 1:
        return None
    pair = zip(used.pop(), programs, strict=True)
    return found[0] if all(value is not None and is_fixed(program, value) for value, program in pair) else None
