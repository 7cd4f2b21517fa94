"""Products with a stored matrix, written as `linear`, so that they can be compared with those of torch's layers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.tracing import Builder, SymbolicTensor
from .cell_program import CellProgram
from .rebuilding import Operands, Results, append, keep, rebuild


def as_linear(cell: CellProgram) -> CellProgram:
    """Return a Cell with `linear` in place of each `matmul` with a stored matrix and `add` of a stored vector after it.

    Torch's newer exporter writes a linear layer as these two, with a transposed weight that has lost its name. A fault
    in the weight is told from another spelling only where both sides are written alike.

    Raises:
        CellbridgeError: types don't fit.
    """
    program = cell.program
    products = [n for n, node in enumerate(program.nodes) if _is_product(program, node)]
    if not products:
        return cell
    sums = {n: total for n in products if (total := _sum_of(program, program.nodes[n])) is not None}
    of_sums = {total: n for n, total in sums.items()}

    def rule(builder: Builder, position: int, node: Node, operands: Operands) -> Results:
        if position in sums:  # handed on, and multiplied where the sum stands
            x = operands[0]
            assert x is not None
            return (x,)
        if position in of_sums:
            product = program.nodes[of_sums[position]]
            first = int(node.inputs[0] not in product.outputs)
            return _linear(builder, program, product, [operands[first], operands[1 - first]])
        if position in products:
            return _linear(builder, program, node, [operands[0], None])
        return keep(builder, position, node, operands)

    return replace(cell, program=rebuild(program, rule))


def _is_product(program: Program, node: Node) -> bool:
    operand = node.inputs[1] if node.op == "matmul" else None
    if operand is None or node.inputs[0] is None or not node.inputs[0].shape:
        return False
    matrix = program.constant_data.get(_turned(program, operand) or operand)
    return matrix is not None and matrix.ndim == 2


def _turned(program: Program, operand: Value) -> Value | None:
    """Return the stored matrix of which an operand is the transpose; None if it isn't one."""
    node = program.producers.get(operand)
    is_transpose = node is not None and node.op == "transpose" and node.attributes["permutation"] == (1, 0)
    return node.inputs[0] if node is not None and is_transpose and node.inputs[0] in program.constant_data else None


def _sum_of(program: Program, product: Node) -> int | None:
    """Return the position of the node that adds a stored vector to a product, if nothing else uses the product."""
    (y,) = product.outputs
    users = [n for n, node in enumerate(program.nodes) if y in node.inputs]
    if len(users) != 1 or y in program.outputs or program.nodes[users[0]].op != "add":
        return None
    others = [value for value in program.nodes[users[0]].inputs if value is not None and value != y]
    stored = program.constant_data.get(others[0]) if len(others) == 1 else None
    return users[0] if stored is not None and stored.shape == y.shape[-1:] else None


def _linear(builder: Builder, program: Program, product: Node, operands: Operands) -> Results:
    x, bias = operands
    operand = product.inputs[1]
    assert operand is not None
    turned = _turned(program, operand)
    if turned is not None:
        return append(builder, "linear", [x, SymbolicTensor(builder, turned), bias], {})
    weight = np.ascontiguousarray(program.constant_data[operand].T)
    return append(builder, "linear", [x, builder.constant(weight, operand.dtype), bias], {})
