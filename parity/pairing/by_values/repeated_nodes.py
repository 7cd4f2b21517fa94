"""Nodes that a port repeats, where the module has one tensor: each of their values would have a part of its gradient.

A decoder computes its keys again in each step. Attention adds positions to its queries and to its keys, which are one
tensor of the module. A sequence is shifted by a step for its keys, its values and its gates in turn. What is repeated
becomes one value, through which all of the gradient passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.lowering.passes.share import hashable
from ....runtime.ops.registry import get
from ...correspondence.distances import EXACT, distance
from ...sides.records import INPUT
from .crossings import Crossing
from .file_values import FileValues

NOT_MOVES = ("boundary", "stop_gradient", "guard")
"""Ops that do more than to move a tensor."""


def with_moves_done_once(program: Program) -> Program:
    """Return the program with one value for all that move the same tensors in the same way.

    Values that are computed and not only moved stay apart: each may be the result of a Cell of its own.
    """
    moves = {node for node in program.nodes if _is_move(program, node)}
    first = _first_of_each(program, lambda node: node in moves or node.op == "full")
    return _with_first(program, first, {v for node in moves for v in node.outputs if v is not first[v]})


def with_products_computed_once(program: Program, tensors: Sequence[Crossing]) -> Program:
    """Return the program with one value for products of the same values.

    Args:
        program: the program.
        tensors: the tensors that cross the module's boundaries. Products of the shape of one that several Cells compute
            for themselves stay, since they have a gradient each.
    """
    several = {tensor.shape for tensor in tensors if len(tensor.computations) > 1}
    first = _first_of_each(program, _is_the_same_each_time)
    products = {
        v for node in program.nodes if get(node.op).traits.products for v in node.outputs if v.shape not in several
    }
    return _with_first(program, first, {v for v, other in first.items() if v is not other and v in products})


def with_arguments_computed_once(file: FileValues, tensors: Sequence[Crossing]) -> Program:
    """Return the program with one value for equal nodes that compute a tensor which a Cell is given several times.

    Args:
        file: the values of the program, without boundaries.
        tensors: the tensors that cross the module's boundaries.
    """
    program = file.flat.program
    given = [tensor for tensor in tensors if _is_given_several_times(tensor)]
    if not given:
        return program
    first = _first_of_each(program, _is_the_same_each_time)
    stored = program.constant_data
    repeats = {
        value
        for value, other in first.items()
        if value is not other
        and any(operand not in stored for operand in program.producers[value].inputs if operand is not None)
        and any(_are_its_numbers(file, other, tensor) for tensor in given)
    }
    return _with_first(program, first, repeats)


def _with_first(program: Program, first: Mapping[Value, Value], repeats: set[Value]) -> Program:
    """Return the program with the first value that is computed in the same way in place of each repeat."""
    if not repeats:
        return program

    def kept(values: Sequence[Value | None]) -> tuple[Value | None, ...]:
        return tuple(first[value] if value in repeats else value for value in values)

    outputs = tuple(first[value] if value in repeats else value for value in program.outputs)
    again = {value for value, other in first.items() if value is not other}
    used: set[Value | None] = {*outputs, *program.updates.values()}
    nodes: list[Node] = []
    for node in reversed(program.nodes):
        is_needed = not again.issuperset(node.outputs) or not used.isdisjoint(node.outputs)
        if not node.outputs or (is_needed and repeats.isdisjoint(node.outputs)):
            inputs = kept(node.inputs)
            used.update(inputs)
            nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
    return program.replace(nodes=tuple(reversed(nodes)), outputs=outputs)


def _first_of_each(program: Program, is_compared: Callable[[Node], bool]) -> dict[Value, Value]:
    """Return for each value of the nodes that are compared the first one that is computed in the same way."""
    first: dict[Value, Value] = {}
    stored: dict[Value, Hashable] = {constant.value: hashable(constant.data) for constant in program.constants}
    known: dict[Hashable, tuple[Value, ...]] = {}
    for node in filter(is_compared, program.nodes):
        operands = tuple(None if v is None else stored.get(v, first.get(v, v)) for v in node.inputs)
        how = node.op, operands, tuple((name, hashable(value)) for name, value in sorted(node.attributes.items()))
        first |= dict(zip(node.outputs, known.setdefault(how, node.outputs), strict=True))
    return first


def _is_the_same_each_time(node: Node) -> bool:
    return not get(node.op).traits.draws and not any(isinstance(item, Program) for item in node.attributes.values())


def _is_move(program: Program, node: Node) -> bool:
    """Whether a node only moves elements of what the program computes, and of constants."""
    stored = program.constant_data
    parameters = {parameter.value for parameter in program.parameters.values()}
    operands = [value for value in node.inputs if value is not None]
    return (
        bool(get(node.op).traits.moves)
        and node.op not in NOT_MOVES
        and len(node.outputs) == 1
        and parameters.isdisjoint(operands)
        and any(value not in stored for value in operands)
    )


def _is_given_several_times(tensor: Crossing) -> bool:
    calls = Counter(key[:2] for key in tensor.keys if key.kind == INPUT)
    return tensor.trained and any(count > 1 for count in calls.values())


def _are_its_numbers(file: FileValues, value: Value, tensor: Crossing) -> bool:
    """Whether a value has the numbers of a tensor, in any layout."""
    arrays = file.values[value]
    if arrays[0].size != tensor.arrays[0].size or arrays[0].dtype.kind != "f":
        return False
    return distance([np.sort(a, axis=None) for a in arrays], [np.sort(a, axis=None) for a in tensor.arrays]) <= EXACT
