"""Tensors that a Cell is given several times, and that a file computes once for each: what is asked and what is seen.

Attention with positions adds them to its queries and to its keys, which are one tensor of the module. The file gets one
value, through which the gradients of both pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops.registry import get
from ...correspondence.distances import EXACT, distance
from ...sides.records import INPUT
from .crossings import Crossing
from .file_values import FileValues


def with_arguments_computed_once(file: FileValues, tensors: Sequence[Crossing]) -> Program:
    """Return the program with one value for equal nodes that compute a tensor which a Cell is given several times.

    Args:
        file: the values of the program, without boundaries.
        tensors: the tensors that cross the module's boundaries.
    """
    program = file.flat.program
    given = [tensor for tensor in tensors if _is_given_several_times(tensor)]
    first: dict[object, Value] = {}
    same: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in program.nodes:
        inputs = tuple(None if value is None else same.get(value, value) for value in node.inputs)
        kept = Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source)
        nodes.append(kept)
        if len(node.outputs) != 1 or get(node.op).traits.draws or not _varies(program, kept):
            continue
        value = first.setdefault((node.op, inputs, repr(dict(node.attributes))), node.outputs[0])
        if value is not node.outputs[0] and any(_are_its_numbers(file, value, tensor) for tensor in given):
            same[node.outputs[0]] = value
            nodes.pop()
    outputs = tuple(same.get(value, value) for value in program.outputs)
    return program.replace(nodes=tuple(nodes), outputs=outputs) if same else program


def _is_given_several_times(tensor: Crossing) -> bool:
    calls = Counter(key[:2] for key in tensor.keys if key.kind == INPUT)
    return tensor.trained and any(count > 1 for count in calls.values())


def _varies(program: Program, node: Node) -> bool:
    return any(value is not None and value not in program.constant_data for value in node.inputs)


def _are_its_numbers(file: FileValues, value: Value, tensor: Crossing) -> bool:
    """Whether a value has the numbers of a tensor, in any layout."""
    arrays = file.values[value]
    if arrays[0].size != tensor.arrays[0].size or arrays[0].dtype.kind != "f":
        return False
    return distance([np.sort(a, axis=None) for a in arrays], [np.sort(a, axis=None) for a in tensor.arrays]) <= EXACT
