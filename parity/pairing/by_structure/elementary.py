"""A program in elementary steps: each node uses one stored tensor, as code that is written by hand does.

A linear layer is a product and a sum, a layer norm is a standardization, a product and a sum, the products of several
experts with one stacked tensor are products with a matrix each, and an attention has scores. Then a layer of one side
and the code of the other one have the same values between their steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.ops.registry import get
from .rewriting import Rewriting, products_of_static

MOST_STACKED = 64
"""The most matrices of one tensor that are taken apart."""


def elementary(program: Program) -> Program:
    """Return a program of known sizes with layers divided into elementary steps."""
    division = _Division(program)
    for node in program.nodes:
        divide = _DIVISIONS.get(node.op)
        if divide is None:
            division.nodes.append(node)
        else:
            divide(division, node)
    return division.program()


class _Division(Rewriting):
    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.deep = products_of_static(program, self.static)

    def affine(self, node: Node, x: Value, weight: Value | None, bias: Value | None, shape: tuple[int, ...]) -> None:
        """Add a product and a sum with vectors, which are given a shape, and end with the node's output."""
        steps = [(op, vector) for op, vector in (("mul", weight), ("add", bias)) if vector is not None]
        (output,) = node.outputs
        for number, (op, vector) in enumerate(steps, 1):
            vector = self.reshaped(node, vector, shape)
            x = self.add(node, op, (x, vector), output if number == len(steps) else output.type)


def _along(vector: Value | None, after: int) -> tuple[int, ...]:
    """Return the shape of a vector along an axis that so many others follow."""
    size = 0 if vector is None else math.prod(dim for dim in vector.shape if isinstance(dim, int))
    return (size, *([1] * after))


def _product(division: _Division, node: Node) -> None:
    x, weight, bias = node.inputs
    (output,) = node.outputs
    if bias is None:
        division.nodes.append(node)
        return
    after = 0 if node.op == "linear" else len(output.shape) - 2
    product = division.add(node, node.op, (x, weight, None), output.type, **node.attributes)
    division.affine(node, product, None, bias, _along(bias, after))


def _matmul(division: _Division, node: Node) -> None:
    """Divide the products with a stack of matrices; a vector is a matrix of one column."""
    x, weight = node.inputs
    assert x is not None
    assert weight is not None
    (output,) = node.outputs
    if len(weight.shape) == 1 < len(x.shape) and weight in division.static and x not in division.static:
        matrix = division.add(
            node, "reshape", (weight,), weight.type.with_shape((*weight.shape, 1)), shape=(*weight.shape, 1)
        )
        column = division.add(node, "matmul", (x, matrix), output.type.with_shape((*output.shape, 1)))
        division.add(node, "reshape", (column,), output, shape=output.shape)
        return
    count = weight.shape[0]
    is_stacked = len(weight.shape) == len(x.shape) == 3 and x.shape[0] == count and weight in division.static
    is_stacked = is_stacked and x not in division.static and weight not in division.deep
    if not is_stacked or not isinstance(count, int) or not 0 < count <= MOST_STACKED:
        division.nodes.append(node)
        return
    products = []
    for number in range(count):
        matrices = []
        for value in (x, weight):
            bounds = {"starts": (number,), "stops": (number + 1,), "steps": (1,), "axes": (0,)}
            part = division.add(node, "slice", (value,), value.type.with_shape((1, *value.shape[1:])), **bounds)
            shape = value.shape[1:]
            matrices.append(division.add(node, "reshape", (part,), value.type.with_shape(shape), shape=shape))
        product = division.add(node, "matmul", tuple(matrices), output.type.with_shape(output.shape[1:]))
        shape = (1, *output.shape[1:])
        products.append(division.add(node, "reshape", (product,), output.type.with_shape(shape), shape=shape))
    division.add(node, "concat", tuple(products), output, axis=0)


def _norm(division: _Division, node: Node) -> None:
    x, weight, *others = node.inputs
    bias = others[0] if others else None
    (output,) = node.outputs
    if weight is None and bias is None:
        division.nodes.append(node)
        return
    absent = (x, None) if node.op == "rms_norm" else (x, None, None)
    standard = division.add(node, node.op, absent, output.type, **node.attributes)
    after = len(output.shape) - 2 if node.op == "group_norm" else 0
    vector = weight if weight is not None else bias
    assert vector is not None, "a norm without both was kept"
    shape = _along(vector, after) if after else tuple(dim for dim in vector.shape if isinstance(dim, int))
    division.affine(node, standard, weight, bias, shape)


def _batch_norm(division: _Division, node: Node) -> None:
    x, mean, variance, weight, bias = node.inputs
    assert x is not None
    assert mean is not None
    assert variance is not None
    (output,) = node.outputs
    shape = _along(mean, len(output.shape) - 2)
    eps = division.constant("eps", node.attributes["eps"], variance)
    moved = division.add(node, "add", (variance, eps), variance.type)
    root = division.reshaped(node, division.add(node, "sqrt", (moved,), variance.type), shape)
    centred = division.add(node, "sub", (x, division.reshaped(node, mean, shape)), output.type)
    is_all = weight is None and bias is None
    standard = division.add(node, "div", (centred, root), output if is_all else output.type)
    if not is_all:
        division.affine(node, standard, weight, bias, shape)


def _attention(division: _Division, node: Node) -> None:
    """Divide an attention, and compute the scores, which code that is written by hand has, too."""
    q, k, v, mask, dropped = node.inputs
    assert q is not None
    assert k is not None
    assert v is not None
    if dropped is not None:
        division.nodes.append(node)
        return
    (output,) = node.outputs
    attributes = {name: node.attributes[name] for name in ("causal", "scale")}
    (weights_type,) = get("attention_weights").infer_types(
        [q.type, k.type, None if mask is None else mask.type], attributes
    )
    rank = len(k.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    turned = division.add(
        node, "transpose", (k,), k.type.with_shape(tuple(k.shape[i] for i in order)), permutation=order
    )
    scores = division.add(node, "matmul", (q, turned), weights_type)
    size = q.shape[-1]
    scale = node.attributes["scale"] or (size**-0.5 if isinstance(size, int) else None)
    if scale is not None:
        scores = division.add(node, "mul", (scores, division.constant("scale", scale, q)), weights_type)
    if mask is not None and is_floating(mask.dtype):
        division.add(node, "add", (scores, mask), weights_type)
    weights = division.add(node, "attention_weights", (q, k, mask), weights_type, **attributes)
    division.add(node, "matmul", (weights, v), output)


def _product_with_root(division: _Division, node: Node) -> None:
    """Divide by a root instead of multiplying with its inverse, as a batch norm does."""
    (output,) = node.outputs
    for position, value in enumerate(node.inputs):
        producer = None if value is None else division.before.producers.get(value)
        if producer is not None and producer.op == "rsqrt" and value in division.static:
            factor = node.inputs[1 - position]
            root = division.add(producer, "sqrt", producer.inputs, producer.outputs[0].type)
            division.add(node, "div", (factor, root), output)
            return
    division.nodes.append(node)


_DIVISIONS: dict[str, Callable[[_Division, Node], None]] = {
    "linear": _product,
    "conv": _product,
    "matmul": _matmul,
    "conv_transpose": _product,
    "scaled_dot_product_attention": _attention,
    "mul": _product_with_root,
    "layer_norm": _norm,
    "rms_norm": _norm,
    "group_norm": _norm,
    "batch_norm": _batch_norm,
}
