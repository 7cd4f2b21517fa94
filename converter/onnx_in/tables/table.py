"""The table of ONNX operators: for each, the function that translates it to ops of the IR.

A function's docstring is the schema of the operator, with the versions that it covers; its positional parameters are
the operands, its keyword-only ones the attributes, with the defaults of the schema. Its first argument is a `Context`.
It returns a value, or a tuple of values:

    @onnx("Relu")
    def relu(context, X):
        "Relu-6..14(X) -> Y"
        return rectifier.relu(X)

Operands are symbolic tensors. Those listed in `values` determine the form of the result (a shape, axes): they are
`KnownTensor`s if their contents are known on import, and symbolic tensors otherwise. An attribute of earlier versions
that later versions take as an operand is one positional parameter.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....runtime.ops import elementwise
from ....runtime.registration import register
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported

Function = Callable[..., Any]


@dataclass(frozen=True)
class Translation:
    """An entry of the table.

    Attributes:
        function: translates the operator to ops.
        operands: names of its operands, in order.
        attributes: names of its attributes, including those that became operands.
        values: names of the operands that may be a `KnownTensor`.
        variadic: whether the last operand may occur any number of times.
        buffers: names of operands that are state rather than trainable: statistics of a normalization.
        folds: whether the result for known operands is computed on import.
        likes: names of operands whose dtype alone matters.
        required: names of attributes without a default.
        open: whether the function takes attributes of any name.
    """

    function: Function
    operands: tuple[str, ...]
    attributes: frozenset[str]
    values: frozenset[str]
    variadic: bool
    buffers: frozenset[str]
    folds: bool
    likes: frozenset[str]
    required: frozenset[str]
    open: bool

    def operand_names(self, count: int) -> list[str]:
        """The name of each of `count` operands; those of a variadic operator share the last."""
        return [self.operands[min(i, len(self.operands) - 1)] for i in range(count)]


MAX_PARTS = 2**14  # steps, pieces or rows that are translated one by one
TABLE: dict[tuple[str, str], Translation] = {}
"""The translations by domain ("" is the standard one) and operator."""


def require_few(count: int, what: str) -> None:
    """Raise `Unsupported` if there are too many steps, pieces or rows to unroll."""
    if count > MAX_PARTS:
        raise Unsupported(f"{count} {what}; at most {MAX_PARTS} are unrolled")


def onnx(
    *operators: str,
    values: tuple[str, ...] = (),
    buffers: tuple[str, ...] = (),
    domain: str = "",
    folds: bool = True,
    likes: tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Register a translation for operators of a domain; a registered name raises."""

    def decorate(function: Function) -> Function:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        positional = [p for p in parameters if p.kind not in (p.KEYWORD_ONLY, p.VAR_KEYWORD)]
        translation = Translation(
            function,
            tuple(p.name for p in positional),
            frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY or p.default is None),
            frozenset(values + likes),
            any(p.kind is p.VAR_POSITIONAL for p in positional),
            frozenset(buffers),
            folds,
            frozenset(likes),
            frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty),
            any(p.kind is p.VAR_KEYWORD for p in parameters),
        )
        register(TABLE, [(domain, operator) for operator in operators], translation)
        return function

    return decorate


def cast(x: SymbolicTensor, dtype: np.dtype[Any]) -> SymbolicTensor:
    """`x` cast to `dtype`; `x` itself if it has that dtype."""
    if x.dtype == dtype:
        return x
    result: SymbolicTensor = elementwise.cast(x, dtype=dtype)
    return result
