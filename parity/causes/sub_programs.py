"""Sub-programs of a node, such as the branches of `cond` and the body of `loop`, compared as the programs of Cells."""

from __future__ import annotations

import numpy as np

from ...runtime.ir.program import Program
from ..sides.records import INPUT, OUTPUT, Key
from .cell_program import CellProgram
from .differences import Comparison


def compare_sub_programs(reference: Program, candidate: Program) -> Comparison | None:
    """Compare two sub-programs, whose inputs and outputs correspond by position; None if they are too large."""
    return Comparison.of(_as_cell(reference), _as_cell(candidate))


def _as_cell(program: Program) -> CellProgram:
    return CellProgram(
        "",
        program,
        tuple(np.zeros(0) for _ in program.inputs),
        tuple(Key("", 0, INPUT, str(position)) for position in range(len(program.inputs))),
        tuple(Key("", 0, OUTPUT, str(position)) for position in range(len(program.outputs))),
        (None,) * len(program.outputs),
        frozenset(),
    )
