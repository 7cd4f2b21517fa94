"""Products with a stack of matrices, of which the other side has parts: matrices of all frequencies, or of one end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .rewriting import Rewriting, shape_of, static_values

Sizes = tuple[int, ...]


def with_stacks_apart(program: Program, other: Program) -> Program:
    """Return a program of known sizes in which a product with a stack is several, where another program has those.

    Args:
        program: the program.
        other: the other side's.
    """
    return _Apart(program, other).program()


def _stack(node: Node, static: frozenset[Value]) -> Sizes:
    """Return the sizes of the stack of matrices that data with as many are multiplied with; none if it is none."""
    if node.op != "matmul":
        return ()
    data, weight = node.inputs
    if data is None or weight is None or weight not in static or data in static:
        return ()
    return shape_of(weight) if len(weight.shape) > 2 and data.shape[:-2] == weight.shape[:-2] else ()


class _Apart(Rewriting):
    def __init__(self, program: Program, other: Program) -> None:
        super().__init__(program)
        static = static_values(other)
        others = {_stack(node, static) for node in other.nodes}
        for node in program.nodes:
            sizes = _stack(node, self.static)
            part = None if not sizes or sizes in others else _part_of(sizes, others)
            if part is None:
                self.nodes.append(node)
            else:
                self._divide(node, *part)

    def _divide(self, node: Node, axis: int, size: int) -> None:
        """Add products with parts of so many matrices in place of a product, and join their results."""
        (output,) = node.outputs
        whole = shape_of(output)[axis]
        products = []
        for start in range(0, whole, size):
            bounds = {"starts": (start,), "stops": (start + size,), "steps": (1,), "axes": (axis,)}
            parts = [
                self.add(node, "slice", (value,), value.type.with_shape(_with(value.shape, axis, size)), **bounds)
                for value in node.inputs
                if value is not None
            ]
            type = output.type.with_shape(_with(output.shape, axis, size))
            products.append(self.add(node, "matmul", tuple(parts), type))
        self.add(node, "concat", tuple(products), output, axis=axis)


def _part_of(sizes: Sizes, others: set[Sizes]) -> tuple[int, int] | None:
    """Return the axis along which a stack consists of stacks of sizes that there are, and their size; None if none."""
    for axis in range(len(sizes) - 2):
        for size in range(sizes[axis] - 1, 0, -1):
            if sizes[axis] % size == 0 and _with(sizes, axis, size) in others:
                return axis, size
    return None


def _with(shape: Sequence[Any], axis: int, size: int) -> tuple[Any, ...]:
    return (*shape[:axis], size, *shape[axis + 1 :])
