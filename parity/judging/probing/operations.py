"""The program of a side that doesn't run torch, in which its operations and the lengths of its tables are read."""

from __future__ import annotations

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ...inputs.onnx_inputs import tables
from ...results.notes import warnings_as_notes
from ...sides.abilities import HasProgram
from ...sides.side import Side


def program_of(side: Side) -> Program | None:
    """Return the network of a side as a program; None if it has none, or none that can be read."""
    if not isinstance(side, HasProgram):
        return None
    try:
        with warnings_as_notes():
            return side.in_interpreter().program
    except CellbridgeError:
        return None


def vocabularies_of(program: Program) -> list[int]:
    """The lengths of the tables in which the program looks up its inputs, or of all matrices; the largest first."""
    lengths = {length for value in program.inputs if value.dtype.kind in "iu" for length in tables(program, value)}
    matrices = {parameter.data.shape[0] for parameter in program.parameters.values() if parameter.data.ndim == 2}
    return sorted(lengths or matrices, reverse=True)
