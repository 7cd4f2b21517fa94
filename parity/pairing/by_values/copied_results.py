"""Results of a file that are copies, in another layout, of values that it goes on computing with.

A module that returns a tensor and computes with it has one tensor at both boundaries. In a file that returns it in
another layout, the value behind the copy would stay wrong if the module's tensor were put in the place of a wrong
result.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .flat import COPYING, FlatProgram


def with_results_before_uses(flat: FlatProgram) -> Program:
    """Return a file's program in which all else that uses the origin of a result uses a copy of the result for it."""
    program = flat.program
    names = program.new_names()
    for result in dict.fromkeys(program.outputs):
        copying = _copying(program, result)
        origin = copying[0].inputs[0] if copying else None
        if origin is None or origin in program.outputs or len(flat.consumers.get(origin, ())) < 2:
            continue
        back: list[Node] = []
        value = result
        for node in reversed(copying):
            (earlier,) = node.inputs
            assert earlier is not None, "what is copied is an operand"
            copy = Value(names.unique(f"{earlier.name}_again"), earlier.type)
            attributes = {"shape": earlier.shape}
            if node.op == "transpose":
                attributes = {"permutation": _inverse(node.attributes["permutation"])}
            back.append(Node(node.op, (value,), attributes, (copy,), node.cell, node.source))
            value = copy
        program = _with_back(program, origin, copying, back)
    return program


def _copying(program: Program, result: Value) -> list[Node]:
    """Return the nodes that copy a computed value to a result in another layout, in order."""
    nodes: list[Node] = []
    value: Value | None = result
    while value is not None and (node := program.producers.get(value)) is not None and node.op in COPYING:
        nodes.append(node)
        value = node.inputs[0]
    return nodes[::-1] if value in program.producers else []


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(permutation.index, range(len(permutation))))


def _with_back(program: Program, origin: Value, copying: Sequence[Node], back: Sequence[Node]) -> Program:
    """Return a program with a value copied to a result where it is computed, and back for all that uses it."""
    last = back[-1].outputs[0]
    nodes: list[Node] = []
    for node in program.nodes:
        if node in copying:
            continue
        inputs = tuple(last if value is origin else value for value in node.inputs)
        nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
        if origin in node.outputs:
            nodes += [*copying, *back]
    return program.replace(nodes=tuple(nodes))
