"""How the operations of a side are read: those of torch by watching a run, those of other sides in their program."""

from __future__ import annotations

from typing import TypeVar

from torch.utils._python_dispatch import TorchDispatchMode

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ...results.notes import warnings_as_notes
from ...sides.abilities import HasProgram
from ...sides.run import OUTPUTS, Arguments, Call, Run
from ...sides.side import Side
from ...sides.torch_side import TorchSide

Mode = TypeVar("Mode", bound=TorchDispatchMode)


def watch(side: TorchSide, mode: Mode, arguments: Arguments | None = None) -> Mode:
    """Run a module forward in float64 within a mode, on the given inputs or on `arguments`, and return the mode."""
    with mode:
        side.run(Run("float64", OUTPUTS, call=Call(arguments)))
    return mode


def program_of(side: Side) -> Program | None:
    """Return the network of a side as a program; None if it has none, or none that can be read."""
    if not isinstance(side, HasProgram):
        return None
    try:
        with warnings_as_notes():
            return side.in_interpreter().program
    except CellbridgeError:
        return None
