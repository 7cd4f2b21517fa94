"""Sums of three terms that a file adds up in another order: `x + y @ w + b` adds a product to `x` before its bias.

The module returns the product with its bias from a Cell. So the bias is added to the product first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from .flat import COPYING, FlatProgram

PRODUCTS = ("linear", "matmul", "conv")


def with_biases_added_first(flat: FlatProgram, is_tensor: Callable[[Value], bool]) -> Program:
    """Return the program in which biases are added to their products before other terms.

    Args:
        flat: the program.
        is_tensor: whether a value is a tensor of the module; a sum that is one stays.
    """
    program = flat.program
    stored = _computed_from_parameters(program)
    names = program.new_names()
    regrouped: dict[Node, tuple[Node, ...]] = {}
    for node in program.nodes:
        if node.op != "add":
            continue
        for inner_sum, bias in (node.inputs, node.inputs[::-1]):
            inner = program.producers.get(inner_sum) if inner_sum is not None else None
            if bias not in stored or inner is None or inner.op != "add" or inner in regrouped:
                continue
            (result,) = inner.outputs
            is_alone = flat.consumers[result] == [node] and result not in program.outputs
            if not is_alone or result.shape != node.outputs[0].shape:
                continue
            whole = (x for x in inner.inputs if x is not None and x.shape == result.shape)
            products = [x for x in whole if _is_product(program, x)]
            if len(products) == 1 and not is_tensor(result):
                (product,) = products
                biased = Value(names.unique(f"{product.name}_biased"), product.type)
                terms = tuple(biased if x is product else x for x in inner.inputs)
                regrouped[inner] = ()
                regrouped[node] = replace(node, inputs=(product, bias), outputs=(biased,)), replace(node, inputs=terms)
                break
    if not regrouped:
        return program
    return program.replace(nodes=tuple(new for node in program.nodes for new in regrouped.get(node, (node,))))


def _computed_from_parameters(program: Program) -> set[Value]:
    """Return the parameters, and the values that are computed from parameters and constants alone."""
    known = set(program.constant_data)
    from_parameters = {parameter.value for parameter in program.parameters.values()}
    for node in program.nodes:
        operands = [value for value in node.inputs if value is not None]
        if operands and all(value in known or value in from_parameters for value in operands):
            (known if not from_parameters.intersection(operands) else from_parameters).update(node.outputs)
    return from_parameters


def _is_product(program: Program, value: Value) -> bool:
    """Whether a value is a product with a weight, perhaps in another layout."""
    node = program.producers.get(value)
    while node is not None and node.op in COPYING and node.inputs[0] is not None:
        node = program.producers.get(node.inputs[0])
    return node is not None and node.op in PRODUCTS
