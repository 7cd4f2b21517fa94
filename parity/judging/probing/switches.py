"""The values at which operations switch: bounds of clamps, thresholds, and numbers compared with.

They are read from a program, or from the calls of torch's operators in a run, which takes less time than a capture.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node
from ....runtime.ops.registry import ops_with

BOUNDS = ("minimum", "maximum", "threshold")
"""Attributes that are such values, whatever the op."""
COMPARING = ops_with(lambda of: of.compares) | {"maximum", "minimum"}
"""Ops that switch where one operand passes the other."""
SWITCHING = frozenset({
    "clamp", "clamp_min", "clamp_max", "hardtanh", "threshold", "softplus", "hardshrink", "softshrink", "maximum",
    "minimum", "gt", "ge", "lt", "le", "eq", "ne",
})  # fmt: skip
"""torch operators whose further operands are such values."""
TABLES = {"bucketize": 1, "searchsorted": 0}
"""torch operators that switch at each number of a table, and which of their operands that is."""
FIXED = {"hardswish": {-3.0, 3.0}, "hardsigmoid": {-3.0, 3.0}}
"""Operators, and ops of programs, that switch at the same values always."""
INFINITE = 1e30
MOST = 24
"""The largest number of values that is used."""


def of_programs(programs: Iterable[Program]) -> set[float]:
    """Return the values at which programs switch."""
    return {value for program in programs for value in _of_program(program)}


def ordinary(values: Iterable[float]) -> list[float]:
    """Return the values in ascending order, without those that stand for infinity; at most `MOST`, nearest to zero."""
    finite = {value for value in values if math.isfinite(value) and abs(value) < INFINITE}
    return sorted(sorted(finite, key=abs)[:MOST])


class Switches(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects the values at which operations switch from the arguments of torch's operators."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values: set[float] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__.removesuffix("_")
        if name in FIXED:
            self.values |= FIXED[name]
        tables = [args[TABLES[name]]] if name in TABLES else []
        if name in SWITCHING:
            given = [*args[1:], *(kwargs or {}).values()]
            self.values |= {_number(value) for value in given if _is_number(value)}
            tables = given
        for table in filter(_is_table, tables):
            self.values.update(table.detach().double().tolist())
        return func(*args, **(kwargs or {}))


def _is_number(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.is_complex() and value.device.type == "cpu"
    return isinstance(value, (int, float))


def _is_table(value: Any) -> bool:
    is_small = isinstance(value, torch.Tensor) and value.ndim == 1 and 1 < value.numel() <= MOST
    return bool(is_small and not value.is_complex() and value.device.type == "cpu")


def _number(value: Any) -> float:
    return float(value.detach().item() if isinstance(value, torch.Tensor) else value)


def _of_program(program: Program) -> Iterator[float]:
    data = program.constant_data
    for node in program.nodes:
        yield from FIXED.get(node.op, ())
        yield from _of_attributes(node)
        if node.op in COMPARING:
            for operand in node.inputs:
                array = None if operand is None else data.get(operand)
                if array is not None and array.size <= MOST and array.dtype.kind in "iuf":
                    yield from map(float, array.reshape(-1))


def _of_attributes(node: Node) -> Iterator[float]:
    for name, value in node.attributes.items():
        if name in BOUNDS and isinstance(value, (int, float)) and not isinstance(value, bool):
            yield float(value)
        elif isinstance(value, Program):
            yield from _of_program(value)
