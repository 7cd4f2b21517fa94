"""`int64_sum_as_matmul`: replaces sums of int64 by products with ones, which ONNX Runtime computes in integers.

Its ReduceSum on the CPU adds up int64 in float64, which has 53 bits, and takes several times as long.
"""

from __future__ import annotations

from ...ir.dims import product
from ...ir.types import INT64, Node
from ...ops import creation, linear, shaping
from ...ops.common import normalize_axes
from ...tracing import Builder, SymbolicTensor
from .rewrite import take_over_outputs


def int64_sum_as_matmul(builder: Builder, node: Node) -> bool:
    """The rule for `rewrite`."""
    if node.op != "reduce_sum" or node.outputs[0].dtype != INT64:
        return False
    assert node.inputs[0] is not None
    x = SymbolicTensor(builder, node.inputs[0])
    at = normalize_axes(node.attributes["axes"], x.ndim)
    kept = [axis for axis in range(x.ndim) if axis not in at]
    count, others = product(x.shape[axis] for axis in at), product(x.shape[axis] for axis in kept)
    rows = shaping.reshape(shaping.transpose(x, permutation=(*kept, *at)), shape=(others, count))
    ones = creation.full_like(x, 1, (count, 1))
    shaping.reshape(linear.matmul(rows, ones), shape=node.outputs[0].shape)
    take_over_outputs(builder, node)
    return True
