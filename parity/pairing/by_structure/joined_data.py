"""Products with data that are joined along their features: `linear(concat(x, h), w)` is a sum of two products.

They are divided where the other side has no product with as much data, but one with each of the parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .rewriting import Rewriting, shape_of

WEIGHT_AXES = {"linear": 1, "conv": 1, "matmul": 0}
"""By op, the axis of the weight along which the features of its data are."""
Sizes = tuple[int, ...]
Size = tuple[int, int]
Weight = tuple[frozenset[Value], Sizes]


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


def _weight(node: Node) -> Value:
    weight = node.inputs[1]
    assert weight is not None, "a product has it"
    return weight


def _sizes(node: Node) -> Sizes:
    axis = node.attributes["axis"]
    return tuple(shape_of(value)[axis] for value in node.inputs if value is not None)


class _Products:
    """The products of a program by the number of their inputs and of their outputs."""

    def __init__(self, program: Program) -> None:
        self.rewriting = Rewriting(program)
        self.origins = self.rewriting.origins_among({item.value for item in program.parameters.values()})
        self.outputs: dict[int, set[int]] = {}
        self.weights: dict[Weight, Size] = {}
        for node in program.nodes:
            weight = node.inputs[1] if node.op in WEIGHT_AXES else None
            if weight is not None and weight in self.rewriting.static and len(weight.shape) > 1:
                inputs, outputs = size = _size(node)
                self.outputs.setdefault(inputs, set()).add(outputs)
                self.weights[self.weight(weight)] = size
        self.count = Counter(self.weights.values())
        """How many matrices there are of a size; each counts once, however often it is used."""

    def weight(self, value: Value) -> Weight:
        """Return what is equal for two values that are one matrix: a loop may transpose it at each step."""
        return self.origins.get(value) or frozenset((value,)), shape_of(value)

    def has(self, inputs: int, outputs: int) -> bool:
        """Whether there is one with so many inputs, and with as many outputs, or with those of several in one."""
        return any(count % outputs == 0 or outputs % count == 0 for count in self.outputs.get(inputs, ()))


def _size(node: Node) -> Size:
    """Return the number of inputs and of outputs of a product."""
    shape, axis = shape_of(_weight(node)), WEIGHT_AXES[node.op]
    return shape[axis], shape[1 - axis]


class _Apart(Rewriting):
    def __init__(self, program: Program, other: Program) -> None:
        super().__init__(program)
        joinings = {node: joining for node in program.nodes if (joining := _joining(program, node, self.static))}
        divided = self._divided(joinings, _Products(program), _Products(other))
        for node in program.nodes:
            if node in divided:
                self._divide(node, joinings[node], _sizes(joinings[node]))
            else:
                self.nodes.append(node)

    def _divided(self, joinings: Mapping[Node, Node], own: _Products, others: _Products) -> set[Node]:
        """Return the products to divide: the other side lacks one of their size, and has those of the parts."""
        divided: set[Node] = set()
        unclear: dict[Weight, list[Node]] = {}
        count = Counter(own.count)
        counted: set[Weight] = set()
        for node, joining in joinings.items():
            inputs, outputs = _size(node)
            sizes = _sizes(joining)
            weight = own.weight(_weight(node))
            if not all(others.has(size, outputs) for size in sizes):
                continue
            if others.has(inputs, outputs):
                unclear.setdefault(weight, []).append(node)
                continue
            divided.add(node)
            if weight not in counted:
                counted.add(weight)
                count.update((size, outputs) for size in sizes)
        for nodes in unclear.values():
            size, parts = _size(nodes[0]), [(part, _size(nodes[0])[1]) for part in _sizes(joinings[nodes[0]])]
            if 0 < others.count[size] < count[size] and all(others.count[part] > count[part] for part in parts):
                divided.update(nodes)
                count[size] -= 1
                count.update(parts)
        return divided

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
