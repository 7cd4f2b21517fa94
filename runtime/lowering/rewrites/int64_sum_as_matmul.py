"""`exact_sums`: sums of int64 are products with ones, which ONNX Runtime computes in integers.

Its ReduceSum (1.31) on the CPU adds up int64 in float64, which has 53 bits, and takes several times as long.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.dims import product
from ...ir.program import Program
from ...ir.types import INT64, Node
from ...ops import creation, linear, shaping
from ...ops.common import normalize_axes
from ...tracing import Builder, Traced


def exact_sums(program: Program) -> Program:
    """The same program, sub-programs too."""
    nodes: list[Node] = []
    builder = Builder.continuing(program)
    builder.nodes = nodes
    for node in program.nodes:
        programs = {name: exact_sums(item) for name, item in node.attributes.items() if isinstance(item, Program)}
        if programs:
            nodes.append(replace(node, attributes={**node.attributes, **programs}))
        elif node.op == "reduce_sum" and node.outputs[0].dtype == INT64:
            with builder.at(node.cell, node.source):
                _append_product(builder, node)
        else:
            nodes.append(node)
    return program.replace(nodes=tuple(nodes), constants=tuple(builder.constants))


def _append_product(builder: Builder, node: Node) -> None:
    assert node.inputs[0] is not None
    x = Traced(builder, node.inputs[0])
    at = normalize_axes(node.attributes["axes"], x.ndim)
    kept = [axis for axis in range(x.ndim) if axis not in at]
    count, others = product(x.shape[axis] for axis in at), product(x.shape[axis] for axis in kept)
    rows = shaping.reshape(shaping.transpose(x, permutation=(*kept, *at)), shape=(others, count))
    ones = creation.full_like(x, 1, (count, 1))
    total = linear.matmul(rows, ones)
    shape = {"shape": node.outputs[0].shape}
    builder.nodes.append(Node("reshape", (total.value,), shape, node.outputs, node.cell, node.source))
