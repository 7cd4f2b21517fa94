"""Products with rows that are gathered from data, such as the nodes at the ends of edges: rows of products with all."""

from __future__ import annotations

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .rewriting import Rewriting, shape_of, static_values


def gathers_products(program: Program) -> bool:
    """Whether a program gathers rows of a product with a matrix."""
    static = static_values(program)
    return any(
        (data := _gathered(node, static)) is not None and _is_product(program.producers.get(data), static)
        for node in program.nodes
    )


def with_products_before_gathers(program: Program, other: Program) -> Program:
    """Return a program of known sizes that multiplies data before it gathers rows of them, if another one does.

    Args:
        program: the program.
        other: the other side's.
    """
    return _Before(program).program() if gathers_products(program) or gathers_products(other) else program


def with_columns_as_matrices(program: Program) -> Program:
    """Return a program of known sizes in which a number for each row times a vector is a product with a matrix."""
    return _Columns(program).program()


def _is_product(node: Node | None, static: frozenset[Value]) -> bool:
    if node is None or node.op not in ("linear", "matmul"):
        return False
    data, weight = node.inputs[:2]
    return data is not None and data not in static and weight in static and len(weight.shape) == 2


def _gathered(node: Node | None, static: frozenset[Value]) -> Value | None:
    """Return the data of which a node gathers rows, whose last axis stays; None if it does anything else."""
    data = node.inputs[0] if node is not None and node.op == "take" else None
    if node is None or data is None or data in static:
        return None
    rank = len(data.shape)
    return data if node.attributes["axis"] % rank < rank - 1 else None


class _Before(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        for node in program.nodes:
            gather = _producer(program, node) if _is_product(node, self.static) else None
            rows = _gathered(gather, self.static)
            if gather is None or rows is None:
                self.nodes.append(node)
                continue
            (output,) = node.outputs
            type = output.type.with_shape((*rows.shape[:-1], output.shape[-1]))
            product = self.add(node, node.op, (rows, *node.inputs[1:]), type, **node.attributes)
            self.add(node, "take", (product, *gather.inputs[1:]), output, **gather.attributes)


def _producer(program: Program, node: Node) -> Node | None:
    data = node.inputs[0]
    return None if data is None else program.producers.get(data)


class _Columns(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.origins = self.origins_among({item.value for item in program.parameters.values()})
        for node in program.nodes:
            operands = self._operands(node)
            if operands is None:
                self.nodes.append(node)
                continue
            data, vector = operands
            shape = (1, *vector.shape)
            matrix = self.add(node, "reshape", (vector,), vector.type.with_shape(shape), shape=shape)
            self.add(node, "matmul", (data, matrix), node.outputs[0])

    def _operands(self, node: Node) -> tuple[Value, Value] | None:
        """Return a number for each row, and the stored vector that it is multiplied with; None if that isn't so."""
        if node.op != "mul":
            return None
        for data, vector in (node.inputs, node.inputs[::-1]):
            if data is None or vector is None or data in self.static or not self.origins.get(vector):
                continue
            if shape_of(data)[-1:] == (1,) and len(data.shape) > 1 and len(vector.shape) == 1 < shape_of(vector)[0]:
                return data, vector
        return None
