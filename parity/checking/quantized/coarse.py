"""Coarse quantizers: a few values set a range in which most of the others become 0."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ....runtime.visible import visible_name
from ...sides.records import Array

SHARE = 1.0 / 16.0
"""Share of a step below which the median of the values that aren't 0 makes a quantizer coarse."""
SHOWN = 5


@dataclass(frozen=True)
class Coarse:
    """A tensor with a coarse quantizer.

    Attributes:
        cell: path of the Cell that computes it.
        tensor: its name.
        typical: median of the absolute values that aren't 0.
        step: the size of a step.
        low: the smallest number that the quantizer represents.
        high: the largest one.
    """

    cell: str
    tensor: str
    typical: float
    step: float
    low: float
    high: float


def typical_size(numbers: Array) -> float:
    """Return the median of the absolute values that are finite and not 0; 0 if there are none."""
    sizes = np.abs(numbers[np.isfinite(numbers) & (numbers != 0)])
    return float(np.median(sizes)) if sizes.size else 0.0


def is_coarse(typical: float, step: float) -> bool:
    """Whether most values that aren't 0 are a small share of a step."""
    return 0 < typical < SHARE * step


def coarse_notes(tensors: Iterable[Coarse]) -> list[str]:
    """Return a note on each tensor, the coarsest first."""
    coarsest = sorted(tensors, key=lambda tensor: tensor.typical / tensor.step)
    notes = [
        f"{visible_name(entry.cell or '(root)')}: most values of {visible_name(entry.tensor)} become 0: they are about "
        f"{entry.typical:.1g}, and a step is {entry.step:.1g}, because its quantizer reaches from {entry.low:.1g} to "
        f"{entry.high:.1g}: keep the Cell in float32, or bound the values that need this range"
        for entry in coarsest[:SHOWN]
    ]
    more = len(coarsest) - len(notes)
    return notes + ([f"{more} more tensors have such a quantizer"] if more else [])
