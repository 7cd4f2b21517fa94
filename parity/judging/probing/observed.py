"""What the operations of a network do on the given inputs: seen in one run of a module, or read in a program.

If the integers of the inputs become sizes of tensors, or numbers of steps, a large one takes all memory, or never ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ....runtime.errors import CellbridgeError
from ...inputs.affordable import LOOPS
from ...sides.abilities import RunsModule, RunsProgram
from ...sides.side import Side
from .operations import program_of
from .order import Order, WatchedOrder, order_of_program
from .switches import Switches, of_programs
from .values import Inputs, in_numpy
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
    program = program_of(side)
    return set() if program is None else of_programs([program])


Step = tuple[str, tuple[torch.Size, ...]]
"""A call of an operator of torch: its name, and the shapes of its results."""
MORE = 17
"""How much larger the integers are in a second run."""


def takes_any_integers(side: Side, inputs: Inputs, steps: list[Step] | None) -> bool:
    """Whether the operations of a side and the shapes of their results are the same for larger integers.

    Args:
        side: the side.
        inputs: the given inputs.
        steps: what a module computes on them.
    """
    if isinstance(side, RunsProgram):
        program = side.own_program()
        return not program.symbol_readings and not any(node.op in LOOPS for node in program.nodes)
    if not isinstance(side, RunsModule):
        return True  # what runs only where the reference does, and on its program's values
    try:
        larger = inputs.changed(inputs.indices, in_numpy(lambda x: x + MORE))
        return steps == side.watch_operators(Shapes(), larger).steps
    except CellbridgeError:  # it doesn't take these
        return False


class Shapes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects torch's operators and the shapes of their results."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.steps: list[Step] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        shapes = tuple(leaf.shape for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))
        self.steps.append((func.overloadpacket.__name__, shapes))
        return result
