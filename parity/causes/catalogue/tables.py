"""Positions, masks and other values that a Cell computes from sizes alone: counted from elsewhere, turned, inverted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ....runtime.ops import elementwise, shaping
from ....runtime.ops.registry import get
from ....runtime.tracing import Builder, SymbolicTensor
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from ..rebuilding import Operands, Results, append
from .hypothesis import Hypothesis, with_changed_value, with_other_nodes

Change = Callable[[SymbolicTensor], SymbolicTensor]


def tables(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each value that depends on no input and no parameter, changed: everywhere, and for one node that uses it.

    Distances of positions may be right for a mask and wrong for the decay of what is far.
    """
    program = cell.program
    for value in fixed(program):
        users = [at for at, node in enumerate(program.nodes) if value in node.inputs]
        for words, change in _changes(value) if value.shape else ():
            summary = f"{name_of_value(cell, value)} is {words} in the candidate"
            yield Hypothesis(Cause("structure", summary), partial(with_changed_value, program, value, change))
            for at in users if len(users) > 1 else ():
                op = program.nodes[at].op
                cause = Cause("structure", f"{summary} where {op} takes it", op=op)
                yield Hypothesis(cause, partial(with_other_nodes, program, [at], partial(_taking, value, change)))


def fixed(program: Program) -> list[Value]:
    """Return the values that are the same for all inputs and parameters."""
    fixed = {constant.value: None for constant in program.constants}
    for node in program.nodes:
        if not get(node.op).traits.draws and all(value is None or value in fixed for value in node.inputs):
            fixed |= dict.fromkeys(node.outputs)
    return [*fixed]


def _taking(value: Value, change: Change, builder: Builder, node: Node, operands: Operands) -> Results:
    pairs = zip(node.inputs, operands, strict=True)
    changed = [change(x) if v is value and x is not None else x for v, x in pairs]
    return append(builder, node.op, changed, node.attributes)


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
