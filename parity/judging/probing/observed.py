"""What the operations of a network do on the given inputs: seen in one run of a module, or read in a program."""

from __future__ import annotations

from dataclasses import dataclass

from ....runtime.errors import CellbridgeError
from ...results.notes import warnings_as_notes
from ...sides.abilities import HasProgram, RunsModule
from ...sides.side import Side
from .data_dependent import Shapes, Step
from .order import Order, WatchedOrder, order_of_program
from .switches import Switches, of_programs
from .work import CountedWork, work_of_program


@dataclass(frozen=True)
class Observed:
    """What the operations of a network do.

    Attributes:
        work: the work of a run forward; 0 if it isn't known.
        order: what they do with equal elements.
        switches: the values at which they switch, as far as these can be read.
        steps: the operators that torch calls, with the shapes of their results; None for a program.
    """

    work: float
    order: Order
    switches: set[float]
    steps: list[Step] | None


def observe(side: Side) -> Observed:
    """Return what the operations of a side do on the given inputs."""
    if isinstance(side, RunsModule):
        with CountedWork() as work, WatchedOrder() as order, Switches() as switches:
            steps = side.watch_operators(Shapes()).steps
        return Observed(work.work, order.order, switches.values, steps)
    return Observed(work_of_program(side), order_of_program(side), _switches(side), None)


def _switches(side: Side) -> set[float]:
    if not isinstance(side, HasProgram):
        return set()
    try:
        with warnings_as_notes():
            return of_programs([side.in_interpreter().program])
    except CellbridgeError:  # its operations can't be read
        return set()
