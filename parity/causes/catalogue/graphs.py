"""Graphs as matrices of zeros and ones, whose nodes have, or lack, an edge to themselves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from ....runtime.ir.types import Value
from ....runtime.programs.interpreter import execute
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import name_of_value
from .hypothesis import Hypothesis, with_changed_value

MAX_VALUES = 200
"""The most values among which graphs are looked for."""


def self_loops(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each matrix of zeros and ones whose diagonal is all zeros with one of ones, and the other way round."""
    program = cell.program
    square = [value for value in (*program.inputs, *(v for n in program.nodes for v in n.outputs)) if _is_square(value)]
    arrays = execute(program, cell.arrays, wanted=square[:MAX_VALUES]) if square else []
    for value, array in zip(square, arrays, strict=False):
        diagonal = np.diagonal(array, axis1=-2, axis2=-1)
        is_graph = bool(np.isin(array, (0, 1)).all()) and array.sum() > diagonal.sum()
        if not is_graph or not (diagonal.all() or not diagonal.any()):
            continue
        own = int(diagonal.all())
        other = np.where(np.eye(array.shape[-1], dtype=bool), 1 - own, array).astype(array.dtype)
        words = f"is {1 - own} in the candidate, {own} in the reference: the edges of nodes to themselves"
        cause = Cause("structure", f"the diagonal of {name_of_value(cell, value)} {words}")
        yield Hypothesis(cause, partial(with_changed_value, program, value, partial(_constant, other)))


def _is_square(value: Value) -> bool:
    sizes = value.type.sizes
    return sizes is not None and len(sizes) > 1 and sizes[-1] == sizes[-2] > 1


def _constant(array: Array, x: SymbolicTensor) -> SymbolicTensor:
    return x.builder.constant(array, array.dtype)
