"""What a training consists of: the quantities of each step, and how they are called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..sides.records import Array, Draw


class Quantity(NamedTuple):
    """What a step computes or changes: one of `KINDS`, and its name."""

    kind: str
    name: str


Quantities = dict[Quantity, Array]

LOSS = Quantity("loss", "the loss")
"""What a script yields is recorded as this, if it is a number."""

SQUARES = "exp_avg_sq."
"""What Adam's means of squares are called: this, and the name of a parameter."""

OVERFLOW = Quantity("overflow", "the overflow decision")
"""Whether a step left out its update because a gradient wasn't finite."""


def optimizer_state(name: str, array: Array) -> Quantities:
    """What an optimizer keeps of a parameter, as it is compared: of a mean of squares, the square root.

    Where a gradient is mere rounding, its square is off by ten times torch's error when it itself is off by three.
    """
    if not name.startswith(SQUARES):
        return {Quantity("optimizer state", name): array}
    return {Quantity("optimizer state", f"sqrt({name})"): np.copysign(np.sqrt(np.abs(array)), array)}


@dataclass
class Training:
    """What one run came to.

    Attributes:
        start: parameters and buffers before the first step, by their names in the torch module.
        steps: the same after each step, the loss, and what else is known of the step.
        trained: whether a parameter was trained, by name.
        draws: what was drawn at random, in order.
    """

    start: Quantities
    steps: list[Quantities] = field(default_factory=list)
    trained: dict[str, bool] = field(default_factory=dict)
    draws: dict[Draw, Array] = field(default_factory=dict)

    @property
    def overflowed(self) -> list[bool]:
        """Whether each step left out its update."""
        return [bool(step.get(OVERFLOW, False)) for step in self.steps]
