"""The network of a side as a program, from which Cells are cut."""

from __future__ import annotations

from ..causes.cell_program import Network
from ..results.notes import warnings_as_notes
from ..sides.abilities import HasProgram
from ..sides.run import Run


def network_of(side: HasProgram, run: Run) -> Network:
    """Return a side's program, on the inputs and in the mode of a run, with the records that it feeds.

    Raises:
        CellbridgeError: the side can't be read as a program.
    """
    with warnings_as_notes():
        return Network.of(side.in_interpreter(run), run)
