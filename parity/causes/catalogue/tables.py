"""Positions, masks and other values that a Cell computes from sizes alone: counted from elsewhere, turned, inverted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.ops import elementwise, shaping
from ....runtime.ops.registry import get
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from ..rebuilding import append
from .hypothesis import Hypothesis, with_changed_value

Change = Callable[[SymbolicTensor], SymbolicTensor]


def tables(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each value that depends on no input and no parameter, changed."""
    for value in fixed(cell.program):
        for words, change in _changes(value) if value.shape else ():
            summary = f"{name_of_value(cell, value)} is {words} in the candidate"
            yield Hypothesis(Cause("structure", summary), partial(with_changed_value, cell.program, value, change))


def fixed(program: Program) -> list[Value]:
    """Return the values that are the same for all inputs and parameters."""
    fixed = {constant.value: None for constant in program.constants}
    for node in program.nodes:
        if not get(node.op).traits.draws and all(value is None or value in fixed for value in node.inputs):
            fixed |= dict.fromkeys(node.outputs)
    return [*fixed]


def _changes(value: Value) -> Iterator[tuple[str, Change]]:
    rank = len(value.shape)
    if value.dtype == np.bool_:
        yield "inverted", partial(_applied, "logical_not")
    else:
        for number in (1, -1):
            yield f"{'larger' if number > 0 else 'smaller'} by 1", partial(_plus, number)
        if is_floating(value.dtype):
            yield "negated", elementwise.neg
    if rank >= 2 and value.shape[-1] == value.shape[-2]:
        order = (*range(rank - 2), rank - 1, rank - 2)
        yield "transposed", partial(shaping.transpose, permutation=order)
    for axis in range(rank):
        yield f"reversed along axis {axis}", partial(shaping.flip, axes=(axis,))
        for step in (1, -1):
            yield f"rolled by {step} along axis {axis}", partial(shaping.roll, shifts=(step,), axes=(axis,))


def _plus(number: int, x: SymbolicTensor) -> SymbolicTensor:
    result: SymbolicTensor = elementwise.add(x, x.builder.constant(number, x.dtype))
    return result


def _applied(op: str, x: SymbolicTensor) -> SymbolicTensor:
    return append(x.builder, op, [x], {})[0]
