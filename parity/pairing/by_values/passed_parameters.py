"""Parameters that a module passes to Cells inside it: a file that uses them there gets a value that can be passed, too.

A Transformer-XL has two biases that each layer adds to its queries. A boundary is at a value that nodes compute, so a
parameter has none of its own. Without one, a Cell's part of the gradient is missing where the Cell is given the
parameter. A port whose layers have copies of such a parameter gets one for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, ProgramParameter, Type, Value
from ...sides.records import INPUT
from .crossings import Crossing
from .fingerprints import fingerprint
from .tied_parameters import same_numbers


def with_passed_parameters(program: Program, tensors: Sequence[Crossing]) -> Program:
    """Return the program with a copy of each parameter whose numbers the module passes to a Cell, for all its users.

    Args:
        program: the program, without boundaries.
        tensors: the tensors that cross the module's boundaries.
    """
    of_parameters = [
        tensor
        for tensor in tensors
        if tensor.trained and not tensor.varies and any(key.kind == INPUT for key in tensor.keys)
    ]
    if not of_parameters:
        return program
    program = _with_copies_tied(program, of_parameters)
    passed = {fingerprint(tensor.arrays[0]) for tensor in of_parameters}
    names = program.new_names()
    copies = {
        parameter.value: Value(names.unique(f"{parameter.value.name}_passed"), parameter.value.type)
        for parameter in program.parameters.values()
        if fingerprint(parameter.data) in passed
    }
    nodes = [Node("reshape", (value,), {"shape": value.shape}, (copy,)) for value, copy in copies.items()]
    for node in program.nodes:
        inputs = tuple(None if value is None else copies.get(value, value) for value in node.inputs)
        nodes.append(Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source))
    return program.replace(nodes=tuple(nodes), outputs=tuple(copies.get(value, value) for value in program.outputs))


def _with_copies_tied(program: Program, tensors: Sequence[Crossing]) -> Program:
    """Return the program with one parameter in place of those that all have the numbers of a tensor.

    The module adds up its gradients, and so does the program then. Numbers that are all equal make no copies.
    """
    parameters, nodes = dict(program.parameters), []
    for tensor in tensors:
        array = tensor.arrays[0]
        same = {
            name: p
            for name, p in parameters.items()
            if p.trainable and same_numbers(array.reshape(-1), p.data.reshape(-1)) and np.any(array != array.flat[0])
        }
        if len(same) < 2:
            continue
        name, first = next(iter(same.items()))
        tied = Value(f"{name} tied", Type(first.value.dtype, tensor.shape))
        nodes += [Node("reshape", (tied,), {"shape": p.value.shape}, (p.value,)) for p in same.values()]
        parameters = {other: p for other, p in parameters.items() if other not in same}
        parameters[name] = ProgramParameter(tied, first.data.reshape(tensor.shape))
    return program.replace(parameters=parameters, nodes=(*nodes, *program.nodes)) if nodes else program


def is_copy(node: Node) -> bool:
    """Whether a node's result is its operand as it is."""
    return node.op == "reshape" and node.inputs[0] is not None and node.inputs[0].shape == node.outputs[0].shape
