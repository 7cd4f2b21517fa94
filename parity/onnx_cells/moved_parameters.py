"""Parameters that a file only moves before it uses them: stored as they are used, they are operands like others."""

from __future__ import annotations

from dataclasses import replace

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.ops.registry import get
from .flat import COPYING, FlatProgram


def with_moved_parameters(program: Program) -> Program:
    """Return the program with parameters in the layout in which they are used.

    A matrix that is only transposed stays as it is: layers write it so.

    Args:
        program: the program, without boundaries.
    """
    flat = FlatProgram(program)
    parameters = dict(program.parameters)
    moved: set[Node] = set()
    for name, parameter in program.parameters.items():
        nodes = _moves(flat, parameter.value)
        if not nodes or (len(nodes) == 1 and nodes[0].op == "transpose" and parameter.data.ndim == 2):
            continue
        data = parameter.data
        for node in nodes:
            data = get(node.op)(data, **node.attributes)
        parameters[name] = replace(parameter, value=nodes[-1].outputs[0], data=data)
        moved.update(nodes)
    left = tuple(node for node in flat.program.nodes if node not in moved)
    return program.replace(nodes=left, parameters=parameters) if moved else program


def _moves(flat: FlatProgram, value: Value) -> list[Node]:
    """Return the nodes that move a value, one after the other, as long as nothing else uses it."""
    nodes: list[Node] = []
    while value not in flat.program.outputs and len(users := flat.consumers.get(value, [])) == 1:
        if users[0].op not in COPYING or users[0].inputs.count(value) > 1:
            break
        nodes.append(users[0])
        value = users[0].outputs[0]
    return nodes if value not in flat.program.outputs else nodes[:-1]
