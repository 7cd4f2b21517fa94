"""`Precomputed`: computes values without an ONNX operator in advance if they don't depend on an input."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ..ir.dims import symbols_in
from ..ir.program import Program
from ..ir.sizes import symbols_used
from ..ir.types import Node, Value
from ..ops.registry import get
from ..programs.interpreter import execute
from ..programs.plan import plan

Array = np.ndarray[Any, Any]


class Precomputed:
    """The values of a program that are the same in every run, computed by the interpreter.

    Args:
        program: the program.
        extra_inputs: parameters and buffers that are passed in each run, and may therefore vary.
    """

    def __init__(self, program: Program, extra_inputs: Collection[Value] = ()) -> None:
        self._program = program
        self._fixed = set(program.constant_data) - set(extra_inputs)
        for node in program.nodes:
            if not get(node.op).traits.draws and not _is_sized(node) and self._fixed.issuperset(_operands(node)):
                self._fixed.update(node.outputs)

    def __contains__(self, value: Value) -> bool:
        return value in self._fixed

    def arrays(self, node: Node) -> list[Array]:
        """Compute the outputs of a node whose outputs are the same in every run."""
        return execute(self._program.replace(inputs=()), (), wanted=node.outputs)

    def sources(self, value: Value) -> list[str]:
        """Return the names of the parameters and buffers that such a value is computed from."""
        used_values = {value, *(operand for step in plan(self._program, [value]) for operand in _operands(step.node))}
        stored = self._program.parameters | self._program.buffers
        return [name for name, item in stored.items() if item.value in used_values]


def _operands(node: Node) -> list[Value]:
    return [value for value in node.inputs if value is not None]


def _is_sized(node: Node) -> bool:
    """Whether a node depends on a symbolic size."""
    return bool(symbols_used(node)) or any(symbols_in(value.shape) for value in node.outputs)
