"""`split_shared`: a boundary for a shared parameter in each Cell that owns it."""

from __future__ import annotations

from collections.abc import Collection

from ..program import Program
from ..types import Node, Value


def split_shared(program: Program, shared: Collection[str] = ()) -> Program:
    """Give every call of a Cell that owns a shared parameter (such as a tied embedding) its own boundary for it.

    This makes the contribution of each Cell to the parameter's gradient observable: the boundary has the kind
    "parameter", its gradient the kind "parameter_gradient", and the slot is the parameter's qualified name. A Cell that
    uses a parameter without owning it gets no boundary, unless the parameter is one of `shared`.
    """
    holders: dict[Value, tuple[str, set[str]]] = {}
    for name, parameter in program.parameters.items():
        if name in shared:
            holders[parameter.value] = (name, {call.path for call in program.calls})
        elif parameter.aliases:
            paths = {alias.rpartition(".")[0] for alias in (name, *parameter.aliases)}
            holders[parameter.value] = (name, paths)
    if not holders:
        return program
    marked: dict[tuple[Value, int], Value] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        inputs = list(node.inputs)
        for i, value in enumerate(node.inputs):
            if value not in holders or program.calls[node.cell].path not in holders[value][1]:
                continue
            key = (value, node.cell)
            if key not in marked:
                name = holders[value][0]
                marked[key] = Value(f"{name}@{node.cell}", value.type)
                attributes = {"call": node.cell, "kind": "parameter", "slot": name}
                nodes.append(Node("boundary", (value,), attributes, (marked[key],), node.cell, node.source))
            inputs[i] = marked[key]
        nodes.append(Node(node.op, tuple(inputs), node.attributes, node.outputs, node.cell, node.source))
    return program.replace(nodes=tuple(nodes))
