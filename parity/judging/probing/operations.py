"""How the operations of a side are read that doesn't run torch: in its program."""

from __future__ import annotations

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
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
