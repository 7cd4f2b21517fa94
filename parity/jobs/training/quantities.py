"""The quantities of each training step, and their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...sides.records import Array, Draw
from .losses.calls import RecordedLoss


class Quantity(NamedTuple):
    """Something that a step computes or changes: one of `KINDS`, and its name."""

    kind: str
    name: str


Quantities = dict[Quantity, Array]

LOSS = Quantity("loss", "the loss")
"""A number that a script yields is recorded as this."""

SQUARES = "exp_avg_sq."
"""Prefix of the names of Adam's means of squares, before the name of a parameter."""

OVERFLOW = Quantity("overflow", "the overflow decision")
"""Whether a step skipped its update because a gradient wasn't finite."""


def optimizer_state(name: str, array: Array) -> Quantities:
    """Return an optimizer's state tensor as it is compared: the square root for a mean of squares.

    Where a gradient is nothing but rounding, an error of three times torch's in the gradient is one of ten times in its
    square.
    """
    if not name.startswith(SQUARES):
        return {Quantity("optimizer state", name): array}
    return {Quantity("optimizer state", f"sqrt({name})"): np.copysign(np.sqrt(np.abs(array)), array)}


@dataclass
class TrainingRecord:
    """The record of one training run.

    Attributes:
        start: parameters and buffers before the first step, by their names in the torch module.
        steps: parameters, buffers, the loss and other quantities after each step.
        trained: whether a parameter was trained, by name.
        draws: random draws, in order.
        gradients: by parameter, what the optimizer got in each step; None where that isn't known.
        passes: for each step, the gradients of each backward pass by parameter; None where that isn't known.
        losses: the script's calls of torch's loss functions, in order.
    """

    start: Quantities
    steps: list[Quantities] = field(default_factory=list)
    trained: dict[str, bool] = field(default_factory=dict)
    draws: dict[Draw, Array] = field(default_factory=dict)
    gradients: list[dict[str, Array]] | None = None
    passes: list[list[dict[str, Array]]] | None = None
    losses: list[RecordedLoss] = field(default_factory=list)

    @property
    def overflowed(self) -> list[bool]:
        """Whether each step skipped its update."""
        return [bool(step.get(OVERFLOW, False)) for step in self.steps]
