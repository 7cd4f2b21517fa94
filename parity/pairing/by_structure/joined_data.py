"""Products with data that are joined along their features: `linear(concat(x, h), w)` is a sum of two products.

They are divided where the other side has no product with as much data, but one with each of the parts.
"""

from __future__ import annotations

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .rewriting import Rewriting, shape_of, static_values

WEIGHT_AXES = {"linear": 1, "conv": 1, "matmul": 0}
"""By op, the axis of the weight along which the features of its data are."""
Sizes = tuple[int, ...]


def with_products_apart(program: Program, other: Program) -> Program:
    """Return a program of known sizes in which products with joined data are sums, where another program has those.

    Args:
        program: the program.
        other: the other side's.
    """
    return _Apart(program, other).program()


def _joining(program: Program, node: Node, static: frozenset[Value]) -> Node | None:
    """Return the node that joins what a node multiplies with a matrix; None if that isn't so."""
    if node.op not in WEIGHT_AXES or node.attributes.get("groups", 1) != 1:
        return None
    data, weight = node.inputs[:2]
    if data is None or weight is None or weight not in static or data in static:
        return None
    if node.op == "matmul" and len(weight.shape) != 2:
        return None
    joining = program.producers.get(data)
    if joining is None or joining.op != "concat":
        return None
    axis = 1 if node.op == "conv" else len(data.shape) - 1
    return joining if joining.attributes["axis"] % len(data.shape) == axis else None


def _sizes(node: Node) -> Sizes:
    axis = node.attributes["axis"]
    return tuple(shape_of(value)[axis] for value in node.inputs if value is not None)


class _Products:
    """The products of a program by the number of their inputs and of their outputs."""

    def __init__(self, program: Program) -> None:
        static = static_values(program)
        self.outputs: dict[int, set[int]] = {}
        for node in program.nodes:
            weight = node.inputs[1] if node.op in WEIGHT_AXES else None
            if weight is not None and weight in static and len(weight.shape) > 1:
                axis = WEIGHT_AXES[node.op]
                self.outputs.setdefault(shape_of(weight)[axis], set()).add(shape_of(weight)[1 - axis])

    def has(self, inputs: int, outputs: int) -> bool:
        """Whether there is one with so many inputs, and with as many outputs, or with those of several in one."""
        return any(count % outputs == 0 or outputs % count == 0 for count in self.outputs.get(inputs, ()))


class _Apart(Rewriting):
    def __init__(self, program: Program, other: Program) -> None:
        super().__init__(program)
        products = _Products(other)
        for node in program.nodes:
            joining = _joining(program, node, self.static)
            sizes = () if joining is None else _sizes(joining)
            weight = node.inputs[1] if joining is not None else None
            count = 0 if weight is None else shape_of(weight)[1 - WEIGHT_AXES[node.op]]
            if (
                joining is None
                or products.has(sum(sizes), count)
                or not all(products.has(size, count) for size in sizes)
            ):
                self.nodes.append(node)
            else:
                self._divide(node, joining, sizes)

    def _divide(self, node: Node, joining: Node, sizes: Sizes) -> None:
        """Add a sum of products in place of a product."""
        (output,) = node.outputs
        weight, *bias = node.inputs[1:]
        assert weight is not None, "it is static"
        axis, start = WEIGHT_AXES[node.op], 0
        result: Value | None = None
        for number, (data, size) in enumerate(zip(joining.inputs, sizes, strict=True), 1):
            shape = list(weight.shape)
            shape[axis] = size
            bounds = {"starts": (start,), "stops": (start + size,), "steps": (1,), "axes": (axis,)}
            part = self.add(node, "slice", (weight,), weight.type.with_shape(tuple(shape)), **bounds)
            of_last = tuple(bias) if number == len(sizes) else (None,) * len(bias)
            product = self.add(node, node.op, (data, part, *of_last), output.type, **node.attributes)
            start += size
            if result is None:
                result = product
            else:
                result = self.add(node, "add", (result, product), output if number == len(sizes) else output.type)
