"""The table of functions: ONNX operators whose result has a shape that values of their operands decide.

A recipe is a plain function of tensors and of contents (Python numbers, or tuples of them), written with ops, with the
operands of the operator's newest version in order as positional parameters and its attributes as keyword-only ones.
An importer calls it with contents that it knows, symbolic sizes included; the op `runtime_shaped` calls it when the
program runs.
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
        function: what computes the operator.
        structural: for each operand, whether its contents are taken, rather than a tensor.
        symbolic: whether symbolic sizes may be among the contents.
    """

    function: Function
    structural: tuple[bool, ...]
    symbolic: bool

    def flags(self, count: int) -> list[bool]:
        """`structural` of so many operands; those of a variadic operator are all alike."""
        return [self.structural[min(i, len(self.structural) - 1)] for i in range(count)]


_FUNCTIONS: dict[str, OnnxFunction] = {}


def onnx_function(operator: str, *contents: str, symbolic: bool = True) -> Callable[[Function], Function]:
    """Enter a recipe for an ONNX operator, whose operands named in `contents` are structural."""

    def enter(function: Function) -> Function:
        parameters = inspect.signature(function).parameters.values()
        names = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
        if not set(contents) <= set(names):
            raise ValueError(f"{operator} has the operands {names}, and not all of {contents}")
        entry = OnnxFunction(function, tuple(name in contents for name in names), symbolic)
        register(_FUNCTIONS, [operator], entry)
        return function

    return enter


def get_onnx_function(operator: str) -> OnnxFunction:
    """The recipe for an ONNX operator; `ProgramError` if there is none."""
    if operator not in _FUNCTIONS:
        raise ProgramError(f"there is no recipe for {operator!r}")
    return _FUNCTIONS[operator]
