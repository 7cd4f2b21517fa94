"""Products that a file computes at once and a module in parts: queries, keys and values, or gate and up.

Each Cell of the module that computes a part gets a product of its own, with its rows of the weight. What else uses the
whole product gets the parts joined again. Then each of these Cells is compared like any other, with its gradients.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.program import Program
from ....runtime.ir.types import INT64, Constant, Node, ProgramParameter, Type, Value
from ....runtime.namespace import Namespace
from ....runtime.ops.registry import get
from ...correspondence.layouts import Layout, layout_of_places
from ...sides.records import Array
from .flat import FlatProgram, without_idle_nodes

MOVING = ("reshape", "transpose", "slice")
PART = " part "
"""Stands in the name of a part, between that of the whole and a number."""


@dataclass(frozen=True)
class Product:
    """A product with a weight, perhaps with a bias.

    Attributes:
        nodes: the nodes that compute it, in order; the last one's output is the product.
        axis: the axis of the product along which each feature has its own row of the weight.
        stored: the weight and the bias, each with the axis along which it has these rows.
    """

    nodes: tuple[Node, ...]
    axis: int
    stored: tuple[tuple[Value, int], ...]

    @property
    def value(self) -> Value:
        """The product."""
        return self.nodes[-1].outputs[0]


@dataclass(frozen=True)
class Part:
    """A tensor that holds some features of a product.

    Attributes:
        value: the tensor.
        features: the numbers of the features, in order.
        layout: how the tensor is read from these features of the product.
    """

    value: Value
    features: Array
    layout: Layout


def divide_products(program: Program, places: Collection[Value]) -> Program:
    """Return a program in which tensors at places that are parts of a product are products of their own.

    Parts must have no features in common, and nothing else may use the weight. What is read from a part stays that.
    """
    parts: dict[Value, dict[Value, Part]] = {}
    products: dict[Value, Product] = {}
    uses: dict[Value, int] = {}
    for node in program.nodes:
        for value in node.inputs:
            if value is not None:
                uses[value] = uses.get(value, 0) + 1
    for value in dict.fromkeys(places):
        *_, whole = (value, *_origins(program, value))
        product = _product(program, whole) if whole is not value else None
        if product is not None and all(uses[stored] == 1 for stored, _ in product.stored):
            part = _part(program, product, value)
            if part is not None:
                products[whole] = product
                parts.setdefault(whole, {})[value] = part
    for whole, of_product in parts.items():
        own = [part for value, part in of_product.items() if of_product.keys().isdisjoint(_origins(program, value))]
        taken = np.concatenate([part.features for part in own])
        if len(np.unique(taken)) == len(taken):
            program = _Division(program, products[whole], own, places).program()
    return program


def with_sliced_products_divided(flat: FlatProgram) -> Program | None:
    """Return the program with a product for each slice of one; None if no product is sliced into parts.

    A gate of a recurrence may be a part of a product with the state, plus a part of one with the input.
    """
    slices = [node.outputs[0] for node in flat.program.nodes if node.op == "slice"]
    divided = divide_products(flat.program, slices)
    return None if divided is flat.program else divided


def _origins(program: Program, value: Value) -> Iterator[Value]:
    """Yield the values of which a value has elements in another order, the nearest first."""
    while (node := program.producers.get(value)) is not None and node.op in MOVING and node.inputs[0] is not None:
        value = node.inputs[0]
        yield value


def _product(program: Program, value: Value) -> Product | None:
    """Return the product with a stored weight that a value is; None if it isn't one."""
    stored = {parameter.value for parameter in program.parameters.values()}
    node = program.producers.get(value)
    if node is None or not all(isinstance(dim, int) for dim in value.shape):
        return None
    if node.op == "linear" and node.inputs[1] in stored and len(node.inputs[1].shape) == 2:
        weights = [value for value in node.inputs[1:] if value is not None]
        if not all(weight in stored for weight in weights):
            return None
        return Product((node,), len(value.shape) - 1, tuple((weight, 0) for weight in weights))
    if node.op == "matmul" and node.inputs[1] in stored and len(node.inputs[1].shape) == 2:
        return Product((node,), len(value.shape) - 1, ((node.inputs[1], 1),))
    if node.op == "conv" and node.attributes["groups"] == 1:
        weights = [value for value in node.inputs[1:] if value is not None]
        return Product((node,), 1, tuple((weight, 0) for weight in weights)) if stored.issuperset(weights) else None
    if node.op == "add":
        for factor, bias in (node.inputs, node.inputs[::-1]):
            if factor is None or bias not in stored or bias.shape != value.shape[-1:]:
                continue
            inner = program.producers.get(factor)
            if inner is not None and inner.op in ("matmul", "linear") and factor.shape == value.shape:
                product = _product(program, factor)
                if product is not None:
                    return replace(product, nodes=(*product.nodes, node), stored=(*product.stored, (bias, 0)))
    return None


def _sizes(value: Value) -> tuple[int, ...]:
    assert all(isinstance(dim, int) for dim in value.shape), "only products of known shapes are divided"
    return tuple(dim for dim in value.shape if isinstance(dim, int))


def _part(program: Program, product: Product, value: Value) -> Part | None:
    """Return which features of a product a value has, and where; None if it has all, or parts of features."""
    chain: list[Node] = []
    current = value
    while current is not product.value:
        node = program.producers[current]
        chain.append(node)
        assert node.inputs[0] is not None, "a moving node has an operand"
        current = node.inputs[0]
    shape = _sizes(product.value)
    places: Array = np.arange(math.prod(shape)).reshape(shape)
    for node in reversed(chain):
        places = get(node.op)(places, **node.attributes)
    indices = np.unravel_index(places.reshape(-1), shape)
    features, numbers = np.unique(indices[product.axis], return_inverse=True)
    if len(features) == shape[product.axis] or places.size != len(features) * math.prod(shape) // shape[product.axis]:
        return None
    first = np.unique(numbers, return_index=True)[1]
    order = np.argsort(first)  # features in the order in which the tensor has them
    rank = np.argsort(order)
    narrow = tuple(len(features) if axis == product.axis else size for axis, size in enumerate(shape))
    inside = [rank[numbers] if axis == product.axis else index for axis, index in enumerate(indices)]
    layout = layout_of_places(np.ravel_multi_index(inside, narrow), narrow, places.shape)
    return None if layout is None else Part(value, features[order], layout)


@dataclass
class _Division:
    """A program in which one product is divided."""

    before: Program
    product: Product
    parts: list[Part]
    places: Collection[Value]
    names: Namespace = field(init=False)

    def __post_init__(self) -> None:
        self.names = self.before.new_names()

    def program(self) -> Program:
        """Return the program."""
        size = _sizes(self.product.value)[self.product.axis]
        rest = np.setdiff1d(np.arange(size), np.concatenate([part.features for part in self.parts]))
        pieces = [part.features for part in self.parts] + ([rest] if len(rest) else [])
        parameters = dict(self.before.parameters)
        name_of = {parameter.value: name for name, parameter in parameters.items()}
        old = {value: parameters.pop(name_of[value]) for value, _ in self.product.stored}
        made: list[Node] = []
        narrow: list[Value] = []
        for number, features in enumerate(pieces):
            weights: dict[Value, Value] = {}
            for value, axis in self.product.stored:
                data = np.take(old[value].data, features, axis)
                stored = self._new(f"{value.name}{PART}{number}", value, data.shape)
                weights[value] = stored
                name = f"{name_of[value]}{PART}{number}"
                parameters[name] = ProgramParameter(stored, data, old[value].trainable)
            narrow.append(self._multiply(weights, len(features), made))
        constants = list(self.before.constants)
        self._join(narrow, np.argsort(np.concatenate(pieces)), made, constants)
        reading = {part.value: (part.layout, value) for part, value in zip(self.parts, narrow, strict=False)}
        nodes: list[Node] = []
        for node in self.before.nodes:
            if node is self.product.nodes[-1]:
                nodes += made
            elif node.outputs[0] in reading:
                nodes += self._read(*reading[node.outputs[0]], node)
            elif node not in self.product.nodes:
                nodes.append(node)
        whole = self.before.replace(nodes=tuple(nodes), parameters=parameters, constants=tuple(constants))
        return without_idle_nodes(whole, {*self.places, *self._independent()})

    def _independent(self) -> Iterator[Value]:
        """Yield what is stored or computed, used or not, but for the product and what only moves elements."""
        yield from self.before.constant_data
        for node in self.before.nodes:
            if node.op not in MOVING and node not in self.product.nodes:
                yield from node.outputs

    def _new(self, name: str, like: Value, shape: Sequence[Dim]) -> Value:
        return Value(self.names.unique(name), Type(like.dtype, tuple(shape)))

    def _multiply(self, weights: Mapping[Value, Value], count: int, nodes: list[Node]) -> Value:
        """Add the product with other weights, which has so many features."""
        values = dict(weights)
        for node in self.product.nodes:
            (output,) = node.outputs
            shape = [count if axis == self.product.axis else size for axis, size in enumerate(output.shape)]
            values[output] = self._new(f"{output.name} part", output, shape)
            inputs = tuple(None if value is None else values.get(value, value) for value in node.inputs)
            nodes.append(Node(node.op, inputs, node.attributes, (values[output],), node.cell, node.source))
        return values[self.product.value]

    def _join(self, parts: Sequence[Value], order: Array, nodes: list[Node], constants: list[Constant]) -> None:
        """Add the nodes that join the parts, in the order of the features, as the whole product."""
        last, whole = self.product.nodes[-1], self.product.value
        attributes = {"axis": self.product.axis}
        if np.array_equal(order, np.arange(len(order))):
            nodes.append(Node("concat", tuple(parts), attributes, (whole,), last.cell, last.source))
            return
        joined = self._new(f"{whole.name} joined", whole, whole.shape)
        places = Value(self.names.unique(f"{whole.name} order"), Type(INT64, order.shape))
        constants.append(Constant(places, order))
        nodes.append(Node("concat", tuple(parts), attributes, (joined,), last.cell, last.source))
        nodes.append(Node("take", (joined, places), attributes, (whole,), last.cell, last.source))

    def _read(self, layout: Layout, value: Value, node: Node) -> list[Node]:
        """Return the nodes that read a tensor from its features, in place of the node that did."""
        nodes: list[Node] = []
        steps = layout.steps or [("reshape", {"shape": layout.target}, layout.target)]
        for number, (op, attributes, shape) in enumerate(steps, 1):
            output = (
                node.outputs[0] if number == len(steps) else self._new(f"{node.outputs[0].name} read", value, shape)
            )
            nodes.append(Node(op, (value,), attributes, (output,), node.cell, node.source))
            value = output
        return nodes
