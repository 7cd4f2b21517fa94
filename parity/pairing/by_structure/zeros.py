"""What a program computes with zeros, left out: the first step of a recurrence multiplies a state that is zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Constant, Node, Value, is_floating
from ....runtime.ops.registry import evaluate, get
from ...sides.records import Array
from .rewriting import VECTORS, Rewriting, shape_of

MOST_EVALUATED = 1 << 20
"""The most elements of a constant that is computed to see whether it is zero."""
PRODUCTS = ("linear", "matmul", "mul")


@dataclass
class ZeroProduct:
    """A product of zeros with a matrix that doesn't depend on the inputs.

    Attributes:
        node: the node that was left out.
        bias: what is added to the product; None if nothing is.
    """

    node: Node
    bias: Value | None = None


class WithoutZeros(Rewriting):
    """A program of known sizes without products with constants that are zero, and without sums with them.

    A product with infinite numbers, which isn't zero, is taken for zero, too.

    Attributes:
        products: the products that were left out, by their results.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.products: dict[Value, ZeroProduct] = {}
        stored = {p.value for p in program.parameters.values()} | {b.value for b in program.buffers.values()}
        self.arrays: dict[Value, Array] = {
            value: np.asarray(data) for value, data in program.constant_data.items() if value not in stored
        }
        self.equal: dict[Value, Value] = {}
        """Values in place of others, which are sums of them and of zeros."""
        self.narrow: dict[Value, Value] = {}
        """Vectors in place of sums of them and of zeros, which have more axes."""
        for node in program.nodes:
            self._add(node)

    def _add(self, node: Node) -> None:
        inputs = tuple(None if v is None else self.equal.get(v, v) for v in node.inputs)
        if node.op in VECTORS:
            shapes = [None if v is None or v in self.narrow else v.shape for v in inputs]
            if node.outputs[0].shape in shapes:  # a vector is broadcast to that
                inputs = tuple(None if v is None else self.narrow.get(v, v) for v in inputs)
        node = Node(node.op, inputs, node.attributes, node.outputs, node.cell, node.source)
        if self._is_zero_product(node):
            (output,) = node.outputs
            self.arrays[output] = zeros = np.zeros(shape_of(output), output.dtype)
            self.constants.append(Constant(output, zeros))
            if node.op != "mul" and node.inputs[1] in self.static:
                self.products[output] = ZeroProduct(node)
            return
        left = self._summand(node)
        if left is not None and left.shape == node.outputs[0].shape:
            self.equal[node.outputs[0]] = left
            return
        if left is not None:
            self.narrow[node.outputs[0]] = left
        self._evaluate(node)
        self.nodes.append(node)

    def _is_zero(self, value: Value | None) -> bool:
        return value is not None and is_floating(value.dtype) and value in self.arrays and not self.arrays[value].any()

    def _is_zero_product(self, node: Node) -> bool:
        if node.op not in PRODUCTS or len(node.outputs) != 1 or node.outputs[0] in self.before.outputs:
            return False
        if node.op == "linear" and node.inputs[2] is not None:
            return False
        return any(self._is_zero(value) for value in node.inputs)

    def _summand(self, node: Node) -> Value | None:
        """Return what a sum with zeros is equal to; None if a node is no such sum."""
        if node.op not in ("add", "sub") or node.outputs[0] in self.before.outputs:
            return None
        first, second = node.inputs
        pairs = [(first, second)] if node.op == "sub" else [(first, second), (second, first)]
        for kept, zero in pairs:
            if self._is_zero(zero) and kept is not None and kept.dtype == node.outputs[0].dtype:
                if zero in self.products:
                    self.products[zero].bias = kept
                return kept
        return None

    def _evaluate(self, node: Node) -> None:
        """Compute a constant of constants."""
        if not node.outputs or any(value is not None and value not in self.arrays for value in node.inputs):
            return
        if any(np.prod(shape_of(value), dtype=int) > MOST_EVALUATED for value in node.outputs):
            return
        operands = [None if value is None else self.arrays[value] for value in node.inputs]
        results = evaluate(get(node.op), operands, node.attributes, tuple(value.type for value in node.outputs))
        self.arrays.update(zip(node.outputs, results, strict=True))
