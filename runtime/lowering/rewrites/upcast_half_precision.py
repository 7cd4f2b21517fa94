"""`upcast_half_precision`: lets ops in float16 or bfloat16 compute in float32 and round once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.types import BFLOAT16, FLOAT32, Node, Value, is_half
from ...ops import elementwise
from ...ops.registry import Op, get
from ...tracing import Builder, SymbolicTensor


def upcast_half_precision(builder: Builder, node: Node) -> bool:
    """The rule for `rewrite`: cast half-precision operands of an op to float32, and its results back.

    The interpreter does the same. Ops that only move elements keep their dtype, if ONNX Runtime has a kernel for it;
    either way their results are the same.
    """
    if not _computes_in_half(get(node.op), node):
        return False
    inputs = tuple(
        None if value is None else _as_float32(SymbolicTensor(builder, value)).value for value in node.inputs
    )
    attributes = {name: _wide(item) for name, item in node.attributes.items()}
    wide = [
        builder.new_value(node.op, value.type.with_dtype(FLOAT32)).value if is_half(value.dtype) else value
        for value in node.outputs
    ]
    builder.nodes.append(replace(node, inputs=inputs, attributes=attributes, outputs=tuple(wide)))
    for value, result in zip(node.outputs, wide, strict=True):
        if result is not value:
            cast = Node("cast", (result,), {"dtype": value.dtype}, (value,), node.cell, node.source)
            builder.nodes.append(cast)
    return True


def upcast_bfloat16(builder: Builder, node: Node) -> bool:
    """The rule for `rewrite`: `upcast_half_precision`, for bfloat16 alone."""
    values = (*node.outputs, *_operands(node))
    return any(value.dtype == BFLOAT16 for value in values) and upcast_half_precision(builder, node)


def _operands(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


def _computes_in_half(op: Op, node: Node) -> bool:
    halves = any(is_half(value.dtype) for value in (*node.outputs, *_operands(node)))
    return halves and not (op.half_native and op.traits.bfloat16_kernel) and op is not elementwise.cast


def _as_float32(x: SymbolicTensor) -> Any:
    return elementwise.cast(x, dtype=FLOAT32) if is_half(x.dtype) else x


def _wide(attribute: Any) -> Any:
    return FLOAT32 if isinstance(attribute, np.dtype) and is_half(attribute) else attribute
