"""Parameters that a file only moves before it uses them: stored as they are used, they are operands like others."""

from __future__ import annotations

from dataclasses import replace

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from .flat import COPYING, FlatProgram
from .passed_parameters import is_copy

MOVED = " moved"
"""Stands after the name of a parameter that is stored in another layout than the file's."""


def with_moved_parameters(program: Program) -> Program:
    """Return the program with parameters in the layout in which they are used.

    A matrix that is only transposed stays as it is: layers write it so. So does a parameter that is copied, to be
    passed to Cells.

    Args:
        program: the program, without boundaries.
    """
    flat = FlatProgram(program)
    parameters = dict(program.parameters)
    moved: set[Node] = set()
    stored: dict[Value | None, Value] = {}
    for name, parameter in program.parameters.items():
        moves = _moves(flat, parameter.value)
        if not moves or (len(moves) == 1 and moves[0].op == "transpose" and parameter.data.ndim == 2):
            continue
        data = parameter.data
        for node in moves:
            data = get(node.op)(data, **node.attributes)
        last = moves[-1].outputs[0]
        stored[last] = Value(parameter.value.name, last.type)
        del parameters[name]  # the module's of this name has another layout
        parameters[f"{name}{MOVED}"] = replace(parameter, value=stored[last], data=data)
        moved.update(moves)
    if not moved:
        return program
    left = (node for node in flat.program.nodes if node not in moved)
    nodes = tuple(
        Node(n.op, tuple(stored.get(v, v) for v in n.inputs), n.attributes, n.outputs, n.cell, n.source) for n in left
    )
    return program.replace(nodes=nodes, parameters=parameters)


def _moves(flat: FlatProgram, value: Value) -> list[Node]:
    """Return the nodes that move a value, one after the other, as long as nothing else uses it."""
    nodes: list[Node] = []
    while value not in flat.program.outputs and len(users := flat.consumers.get(value, [])) == 1:
        if users[0].op not in COPYING or users[0].inputs.count(value) > 1 or is_copy(users[0]):
            break
        nodes.append(users[0])
        value = users[0].outputs[0]
    return nodes if value not in flat.program.outputs else nodes[:-1]
