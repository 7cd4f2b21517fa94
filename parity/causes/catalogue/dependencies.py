"""What a value of a Cell depends on, by way of Cells inside that are called, too: the program lacks their nodes."""

from __future__ import annotations

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...sides.records import OUTPUT_GRADIENT
from ..cell_program import CellProgram


def needed(cell: CellProgram, program: Program, value: Value) -> tuple[set[Node], set[int]]:
    """Return the nodes that a value depends on, and the positions of the outputs that are passed to Cells it needs."""
    keys = dict(zip(program.inputs, cell.input_keys, strict=True))
    nodes: set[Node] = set()
    passed: set[int] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        node, key = program.producers.get(value), keys.get(value)
        if node is not None and node not in nodes:
            nodes.add(node)
            waiting += [operand for operand in node.inputs if operand is not None]
        if key is not None and key.kind == OUTPUT_GRADIENT:
            to = {n for n, k in enumerate(cell.output_keys) if (k.path, k.call) == (key.path, key.call)} - passed
            passed |= to
            waiting += [program.outputs[position] for position in to]
    return nodes, passed
