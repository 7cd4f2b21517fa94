"""Results of a call of which one is a part of another: a layer returns its last state beside all states.

In a file, all states are put together from what the last one is, too. There, the gradient of all states would arrive at
the last one in addition to its own. So the last one becomes a copy, which everything else uses.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...results.cell_report import is_inside
from ...sides.records import INPUT, OUTPUT, Key
from .crossings import Crossing
from .flat import COPYING

MOVES = (*COPYING, "concat")
"""Ops that put a tensor together from others, in any layout."""


def with_results_apart(program: Program, places: dict[Crossing, Value]) -> Program:
    """Return the program with copies at the places of results that others of the same call are put together from.

    Args:
        program: the program.
        places: the places of the tensors; those of such results are changed.
    """
    for tensor in [tensor for tensor in places if tensor.trained]:
        calls = {key[:2] for key in tensor.keys if key.kind == OUTPUT and key.path}
        for other in [other for other in places if other is not tensor and other.trained] if calls else ():
            shared = {key[:2] for key in other.keys if key.kind == OUTPUT} & calls
            between = _moves_between(program, places[tensor], places[other]) if shared else set()
            if between:
                part = places[tensor]
                program, places[tensor] = _apart(program, part, places[other], between, places.values())
                inner = [key for key in tensor.keys if _is_within(key, shared)]
                if inner:  # a cell inside has the gradient of all states in its last result
                    tensor.keys[:] = [key for key in tensor.keys if key not in inner]
                    places[replace(tensor, keys=inner)] = part
    return program


def _is_within(key: Key, calls: Collection[tuple[str, int]]) -> bool:
    """Whether a boundary is inside one of these calls, or where one of them is given a tensor."""
    return any(is_inside(key.path, path) or (key[:2] == (path, n) and key.kind == INPUT) for path, n in calls)


def _moves_between(program: Program, part: Value, whole: Value) -> set[Node]:
    """Return the nodes that put a tensor together from a part of it; none if it is computed otherwise."""
    reached, moves = {part}, list[Node]()
    for node in program.nodes:
        if node.op in MOVES and not reached.isdisjoint(node.inputs):
            reached.update(node.outputs)
            moves.append(node)
    if part is whole or whole not in reached:
        return set()
    needed, between = {whole}, set[Node]()
    for node in reversed(moves):
        if not needed.isdisjoint(node.outputs):
            between.add(node)
            needed.update(value for value in node.inputs if value in reached)
    return between


def _apart(
    program: Program, part: Value, whole: Value, between: Collection[Node], kept: Collection[Value]
) -> tuple[Program, Value]:
    """Return a program in which nothing but another tensor is computed from a part of it, and the copy for the rest.

    Args:
        program: the program.
        part: the part.
        whole: the tensor.
        between: the nodes that put it together.
        kept: values that stay in the program.
    """
    names = program.new_names()
    copy = Value(names.unique(f"{part.name}_copy"), part.type)
    used = {value for node in program.nodes if node not in between for value in node.inputs} | {*program.outputs, *kept}
    other = {part: part}
    nodes: list[Node] = []
    for node in program.nodes:
        if node in between:
            for value in node.outputs:
                other[value] = value if value is whole else Value(names.unique(f"{value.name}_put"), value.type)
            inputs = tuple(None if value is None else other.get(value, value) for value in node.inputs)
            outputs = tuple(other[value] for value in node.outputs)
            nodes.append(Node(node.op, inputs, node.attributes, outputs, node.cell, node.source))
        if node not in between or (whole not in node.outputs and not used.isdisjoint(node.outputs)):
            inputs = tuple(copy if value is part else value for value in node.inputs)
            nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
        if part in node.outputs:
            nodes.append(Node("reshape", (part,), {"shape": part.shape}, (copy,), node.cell, node.source))
    outputs = tuple(copy if value is part else value for value in program.outputs)
    return program.replace(nodes=tuple(nodes), outputs=outputs), copy
