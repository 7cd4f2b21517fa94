"""The table of functions for ONNX operators whose output shapes depend on the values of their operands.

A function takes tensors and contents (Python numbers, or tuples of them) and is composed of ops. Its positional
parameters are the operands of the operator's newest version in order, its keyword-only ones the attributes. An importer
calls it with contents that it knows, including symbolic sizes; the op `runtime_shaped` calls it when the program runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ProgramError
from ..registration import register

Function = Callable[..., Any]


@dataclass(frozen=True)
class OnnxFunction:
    """An entry of the table.

    Attributes:
        function: the function that computes the operator.
        structural: for each operand, whether the function takes its contents rather than a tensor.
        symbolic: whether symbolic sizes may be among the contents.
    """

    function: Function
    structural: tuple[bool, ...]
    symbolic: bool

    def flags(self, count: int) -> list[bool]:
        """Return `structural` for `count` operands; those of a variadic operator are all alike."""
        return [self.structural[min(i, len(self.structural) - 1)] for i in range(count)]


_FUNCTIONS: dict[str, OnnxFunction] = {}


def onnx_function(operator: str, *contents: str, symbolic: bool = True) -> Callable[[Function], Function]:
    """Register the function for an ONNX operator, whose operands named in `contents` are structural."""

    def decorate(function: Function) -> Function:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        if not set(contents) <= set(names):
            raise ValueError(f"{operator} has the operands {names}, and not all of {contents}")
        entry = OnnxFunction(function, tuple(name in contents for name in names), symbolic)
        register(_FUNCTIONS, [operator], entry)
        return function

    return decorate


def get_onnx_function(operator: str) -> OnnxFunction:
    """Return the function for an ONNX operator; `ProgramError` if there is none."""
    if operator not in _FUNCTIONS:
        raise ProgramError(f"there is no function for the ONNX operator {operator!r}")
    return _FUNCTIONS[operator]
