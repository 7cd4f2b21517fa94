"""Nodes that a file repeats, where the module has one tensor: each of their values would have a part of its gradient.

A decoder computes its keys again in each step. Attention adds positions to its queries and to its keys, which are one
tensor of the module. What is repeated becomes one value, through which all of the gradient passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.lowering.passes.share import hashable
from ....runtime.ops.registry import get
from ...correspondence.distances import EXACT, distance
from ...sides.records import INPUT
from .crossings import Crossing
from .file_values import FileValues

PRODUCTS = ("linear", "matmul", "conv", "conv_transpose")


def with_products_computed_once(program: Program, tensors: Sequence[Crossing]) -> Program:
    """Return the program with one value for products of the same values.

    Args:
        program: the program.
        tensors: the tensors that cross the module's boundaries. Products of the shape of one that several Cells compute
            for themselves stay, since they have a gradient each.
    """
    several = {tensor.shape for tensor in tensors if len(tensor.computations) > 1}
    first = _first_of_each(program)
    products = {v for node in program.nodes if node.op in PRODUCTS for v in node.outputs if v.shape not in several}
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
    first = _first_of_each(program)
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


def _first_of_each(program: Program) -> dict[Value, Value]:
    """Return for each value that a node computes the first one that is computed in the same way."""
    first: dict[Value, Value] = {}
    known: dict[Hashable, tuple[Value, ...]] = {}
    for node in program.nodes:
        if get(node.op).traits.draws or any(isinstance(item, Program) for item in node.attributes.values()):
            continue
        operands = tuple(None if value is None else first.get(value, value) for value in node.inputs)
        how = node.op, operands, tuple((name, hashable(value)) for name, value in sorted(node.attributes.items()))
        first |= dict(zip(node.outputs, known.setdefault(how, node.outputs), strict=True))
    return first


def _is_given_several_times(tensor: Crossing) -> bool:
    calls = Counter(key[:2] for key in tensor.keys if key.kind == INPUT)
    return tensor.trained and any(count > 1 for count in calls.values())


def _are_its_numbers(file: FileValues, value: Value, tensor: Crossing) -> bool:
    """Whether a value has the numbers of a tensor, in any layout."""
    arrays = file.values[value]
    if arrays[0].size != tensor.arrays[0].size or arrays[0].dtype.kind != "f":
        return False
    return distance([np.sort(a, axis=None) for a in arrays], [np.sort(a, axis=None) for a in tensor.arrays]) <= EXACT
