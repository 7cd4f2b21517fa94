"""Branches and loops written out, as the recorded values take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ....runtime.ir.types import INT64, Node, Value
from ....runtime.ops.shaping import reshape
from ....runtime.ops.slicing import concat
from ....runtime.programs.interpreter import execute
from ....runtime.programs.subprograms import inline
from ....runtime.tracing import Builder
from ...sides.records import Array
from ..cell_program import CellProgram
from ..rebuilding import Operands, Results, keep, rebuild

MAX_LEVELS = 8
"""The deepest nesting of branches and loops that is written out."""
MAX_NODES = 5000


def without_control_flow(cell: CellProgram) -> CellProgram:
    """Return a Cell with the branches that it takes and the iterations that it makes in place of `cond` and `loop`.

    Raises:
        ConversionError: the iterations are too many, or there are none of which results could be stacked.
        CellbridgeError: the program doesn't run on the recorded values.
    """
    program = cell.program
    for _ in range(MAX_LEVELS):
        flows = [node for node in program.nodes if node.op in ("cond", "loop")]
        if not flows:
            break
        values = list(dict.fromkeys(value for node in flows for value in node.inputs if value is not None))
        arrays = dict(zip(values, execute(program, cell.arrays, wanted=values), strict=True))
        program = rebuild(program, partial(_written_out, arrays))
        if len(program.nodes) > MAX_NODES:
            raise ConversionError("its loops run too long to be written out")
    return replace(cell, program=program)


def _written_out(
    arrays: Mapping[Value, Array], builder: Builder, position: int, node: Node, operands: Operands
) -> Results:
    if node.op == "cond":
        return _taken_branch(arrays, builder, node, operands)
    return (
        _iterations(arrays, builder, node, operands) if node.op == "loop" else keep(builder, position, node, operands)
    )


def _taken_branch(arrays: Mapping[Value, Array], builder: Builder, node: Node, operands: Operands) -> Results:
    predicate = node.inputs[0]
    assert predicate is not None, "a cond has a predicate"
    branch: Program = node.attributes["then_branch" if arrays[predicate] else "else_branch"]
    return tuple(inline(builder, branch, [operand for operand in operands[1:] if operand is not None]))


def _iterations(arrays: Mapping[Value, Array], builder: Builder, node: Node, operands: Operands) -> Results:
    body, carried = node.attributes["body"], node.attributes["carried"]
    limit, going, *values = (arrays[value] for value in node.inputs if value is not None)
    tensors = [operand for operand in operands[2:] if operand is not None]
    rows: list[list[object]] = []
    iteration = 0
    while going and iteration < limit:
        number = np.asarray(iteration, INT64)
        going, *results = execute(body, [number, *values])
        values[:carried] = results[:carried]
        _, *following = inline(builder, body, [builder.constant(number, INT64), *tensors])
        tensors[:carried] = following[:carried]
        rows.append([reshape(row, shape=(1, *row.shape)) for row in following[carried:]])
        iteration += 1
        if iteration * len(body.nodes) > MAX_NODES:
            raise ConversionError("its loops run too long to be written out")
    stacked = len(body.outputs) - 1 - carried
    if stacked and not rows:
        raise ConversionError("a loop in it makes no iteration")
    return (*tensors[:carried], *(concat(*(row[n] for row in rows), axis=0) for n in range(stacked)))
