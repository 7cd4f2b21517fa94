"""`Precomputed`: what ONNX has no operator for, computed here where it depends on no input."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ..interpreter import plan
from ..ir.dims import symbols_in
from ..ir.program import Program
from ..ir.sizes import symbols_used
from ..ir.types import Node, Value
from ..ops import get
from ..ops.random import RANDOM_OPS
from ..ops.registry import evaluate

Array = np.ndarray[Any, Any]


class Precomputed:
    """The values of a program that are the same in every run, and their arrays, by the kernels of the ops.

    Args:
        program: the program.
        handed_in: its parameters and buffers that each run is given, and which are therefore not fixed.
    """

    def __init__(self, program: Program, handed_in: Collection[Value] = ()) -> None:
        self._program = program
        self._arrays = {value: array for value, array in program.constant_data.items() if value not in handed_in}
        self._fixed = set(self._arrays)
        for node in program.nodes:
            if node.op not in RANDOM_OPS and not _is_sized(node) and self._fixed.issuperset(_operands(node)):
                self._fixed.update(node.outputs)

    def __contains__(self, value: Value) -> bool:
        return value in self._fixed

    def array(self, value: Value) -> Array:
        """What a fixed value is."""
        for node in self._nodes(value):
            if node.outputs[0] not in self._arrays:
                operands = [None if operand is None else self._arrays[operand] for operand in node.inputs]
                types = tuple(output.type for output in node.outputs)
                with np.errstate(all="ignore"):
                    results = evaluate(get(node.op), operands, dict(node.attributes), types)
                self._arrays.update(zip(node.outputs, results, strict=True))
        return self._arrays[value]

    def sources(self, value: Value) -> list[str]:
        """Names of the parameters and buffers that a fixed value is computed of."""
        used = {value, *(operand for node in self._nodes(value) for operand in _operands(node))}
        stored = self._program.parameters | self._program.buffers
        return [name for name, item in stored.items() if item.value in used]

    def _nodes(self, value: Value) -> list[Node]:
        return [step.node for step in plan(self._program, [value])]


def _operands(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


def _is_sized(node: Node) -> bool:
    """Whether a size that isn't known plays a part."""
    return bool(symbols_used(node)) or any(symbols_in(value.shape) for value in node.outputs)
