"""`Reader`: translates the equations of a jaxpr, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.extend.core import Literal

from ...runtime.errors import CellbridgeError, ConversionError
from ...runtime.ir.types import Source, as_dtype
from ...runtime.tracing import Builder, SymbolicTensor
from ..unsupported import Unsupported
from .sources import source_of
from .tables import control_flow, indexing, layers, numbers, shapes
from .tables.table import TABLE

FAMILIES = (control_flow, indexing, layers, numbers, shapes)
LARGEST = 2**20
"""The most elements of a result that is computed while the function is read."""


@dataclass
class Found:
    """What was found while a function was read.

    Attributes:
        unsupported: uses of primitives that can't be translated, as (primitive, Cell, place).
        notes: remarks on the translation.
    """

    unsupported: list[tuple[str, str, str]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)


MISSING = object()
"""Stands for a value that can't be computed, because a primitive can't be translated."""


class Incomplete(Exception):
    """Raised where an output of a jaxpr is missing; the primitives are in the list already."""


class Reader:
    """Translates jaxprs to nodes of one builder.

    Args:
        builder: the builder of the program, or of a sub-program.
        findings: what was found, which readers of sub-programs share.
        calling: the line of the call whose body is read; None outside of calls.
    """

    def __init__(self, builder: Builder, findings: Found, calling: Source | None = None) -> None:
        self.builder, self.findings, self.calling = builder, findings, calling

    def inside(self, tensors: Iterable[Any]) -> Reader:
        """Return the reader for the sub-program that tensors belong to."""
        builder = next((x.builder for x in tensors if isinstance(x, SymbolicTensor)), self.builder)
        return Reader(builder, self.findings, self.calling)

    def note(self, text: str) -> None:
        """Add a remark."""
        self.findings.notes[text] = None

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the dtype of a name, half precision included."""
        return as_dtype(name)

    def constant(self, array: np.ndarray[Any, Any]) -> SymbolicTensor:
        """Return a constant of the program."""
        return self.builder.constant(array)

    def constant_value(self, x: SymbolicTensor) -> np.ndarray[Any, Any] | None:
        """Return the array of a constant; None for what is computed when the program runs."""
        for constant in self.builder.constants:
            if constant.value is x.value:
                return np.asarray(constant.data).astype(constant.value.dtype)
        return None

    def adds(self, jaxpr: Any) -> bool:
        """Whether the function with which a scatter combines values adds them."""
        return [str(equation.primitive) for equation in jaxpr.eqns] in (["add"], ["add_any"])

    def run(self, closed: Any, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Translate a jaxpr with its constants.

        Args:
            closed: a ClosedJaxpr, or a Jaxpr without constants.
            operands: SymbolicTensors, one for each of its inputs.

        Returns:
            Its outputs.
        """
        jaxpr = getattr(closed, "jaxpr", closed)
        environment: dict[Any, Any] = dict(zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=False))
        environment |= dict(zip(jaxpr.invars, map(self._array, operands), strict=True))

        def read(variable: Any) -> Any:
            return _literal(variable) if isinstance(variable, Literal) else environment[variable]

        for equation in jaxpr.eqns:
            results = self._translate(equation, [read(variable) for variable in equation.invars])
            environment |= dict(zip(equation.outvars, results, strict=True))
        outputs = [read(variable) for variable in jaxpr.outvars]
        if any(x is MISSING for x in outputs):
            raise Incomplete
        return tuple(map(self._tensor, outputs))

    def _array(self, operand: SymbolicTensor) -> Any:
        """Return the array of an operand that is a number known now, as the padding that `jnp.pad` hands on."""
        array = self.constant_value(operand) if operand.ndim == 0 else None
        return operand if array is None else array

    def _tensor(self, value: Any) -> SymbolicTensor:
        return value if isinstance(value, SymbolicTensor) else self.constant(np.asarray(value))

    def _translate(self, equation: Any, operands: list[Any]) -> Sequence[Any]:
        """Return the results of an equation: arrays if all operands are known, else tensors of the program."""
        if any(x is MISSING for x in operands):
            return [MISSING] * len(equation.outvars)
        sizes = [int(np.prod(variable.aval.shape)) for variable in equation.outvars]
        if not any(isinstance(x, SymbolicTensor) for x in operands) and sum(sizes) <= LARGEST:
            results = equation.primitive.bind(*operands, **equation.params)
            return list(results) if equation.primitive.multiple_results else [results]
        name = str(equation.primitive)
        operand_types = ", ".join(variable.aval.str_short() for variable in equation.invars)
        source = source_of(equation, f"{name}({operand_types})", self.calling)
        try:
            translation = TABLE.get(name)
            if translation is None:
                raise Unsupported("")
            inside = Reader(self.builder, self.findings, source)
            with self.builder.at(0, source):
                results = translation(inside, *map(self._tensor, operands), **equation.params)
        except Unsupported as reason:
            label = f"{name} ({reason})" if str(reason) else name
            self.findings.unsupported.append(
                (label, "", f"of {operand_types}" + (f", {source}" if source.file else ""))
            )
            return [MISSING] * len(equation.outvars)
        except Incomplete:
            return [MISSING] * len(equation.outvars)
        except CellbridgeError as error:
            if isinstance(error, ConversionError):
                raise
            raise ConversionError(f"{name}({operand_types}) can't be translated: {error}") from error
        return list(results) if isinstance(results, (tuple, list)) else [results]


def _literal(variable: Any) -> np.ndarray[Any, Any]:
    return np.asarray(variable.val, variable.aval.dtype)


def trace(function: Any, *arguments: Any) -> Any:
    """Return the jaxpr of a function for arguments of these shapes."""
    return jax.make_jaxpr(function)(*arguments)
