"""The network of a side as a program, from which Cells are cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from ..diagnosis.cell_program import Network
from ..results.notes import warnings_as_notes
from ..sides.interpreter_side import InterpreterSide
from ..sides.run import Run


@runtime_checkable
class HasProgram(Protocol):
    """A side whose network can be run as a program in the interpreter."""

    def in_interpreter(self, run: Run | None = None) -> InterpreterSide:
        """Return the side of the program, on the inputs and in the mode of a run, by default the given ones.

        Raises:
            CellbridgeError: there is none.
        """

    def settings(self, path: str) -> dict[str, Any]:
        """The attributes of a Cell that a person sets, and its class."""


@runtime_checkable
class ReadFromFile(Protocol):
    """A side that was read from an ONNX file.

    Attributes:
        reference_in_a_file: returns the reference as a side read from a file, too, or raises `CellbridgeError`; None if
            it isn't known.
    """

    reference_in_a_file: Callable[[], InterpreterSide] | None


def network_of(side: HasProgram, run: Run) -> Network:
    """Return a side's program, on the inputs and in the mode of a run, with the records that it feeds.

    Raises:
        CellbridgeError: the side can't be read as a program.
    """
    with warnings_as_notes():
        return Network.of(side.in_interpreter(run), run)
