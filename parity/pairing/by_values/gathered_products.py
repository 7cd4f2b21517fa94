"""Products of which a file takes rows, and which a module computes from rows: of nodes there, of edges here.

A layer of a graph network that multiplies what it knows of each edge is cheaper if the nodes, which are fewer, are
multiplied before their rows are taken for the edges. The program gets the rows taken first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.namespace import Namespace
from .flat import FlatProgram, without_idle_nodes

PRODUCTS = ("linear", "matmul")


def with_rows_taken_first(flat: FlatProgram) -> Program | None:
    """Return the program in which products are computed of the rows that are taken; None if rows of none are.

    Args:
        flat: the program, without boundaries.
    """
    program = flat.program
    names = program.new_names()
    taking = {node: product for node in program.nodes if (product := _taken_product(flat, node)) is not None}
    if not taking:
        return None
    nodes = [new for node in program.nodes for new in _rows_first(node, taking, names)]
    return without_idle_nodes(program.replace(nodes=tuple(nodes)))


def _taken_product(flat: FlatProgram, node: Node) -> Node | None:
    """Return the product with a stored weight of which a node takes rows, and which nothing else uses."""
    program = flat.program
    whole = node.inputs[0] if node.op == "take" else None
    product = program.producers.get(whole) if whole is not None else None
    if whole is None or product is None or product.op not in PRODUCTS or whole in program.outputs:
        return None
    operand, *weights = product.inputs
    is_stored = all(value is None or value in program.constant_data for value in weights)
    is_matrix = weights[0] is not None and len(weights[0].shape) == 2
    axis = node.attributes["axis"] % len(whole.shape)
    has_rows = operand is not None and len(operand.shape) == len(whole.shape) and axis < len(whole.shape) - 1
    return product if is_stored and is_matrix and has_rows and flat.consumers[whole] == [node] else None


def _rows_first(node: Node, taking: Mapping[Node, Node], names: Namespace) -> tuple[Node, ...]:
    product = taking.get(node)
    if product is None:
        return (node,)
    operand, *weights = product.inputs
    assert operand is not None, "a product has operands"
    shape = (*node.outputs[0].shape[:-1], operand.shape[-1])
    rows = Value(names.unique(f"{operand.name}_rows"), operand.type.with_shape(shape))
    take = replace(node, inputs=(operand, *node.inputs[1:]), outputs=(rows,))
    return take, replace(product, inputs=(rows, *weights), outputs=node.outputs)
