"""What makes 8 bits too few: outlier channels, and quantizers that are coarse.

An outlier is so much larger than the other channels that their common scale leaves these few steps. A few values may
set a range in which most of the others become 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ....runtime.visible import visible_name
from ...sides.records import Array

FEW = 4.0
"""Steps that the largest element of most channels uses, below which their values are rounded to little."""
TIMES = 32.0
SHOWN = 5


@dataclass(frozen=True)
class Outlier:
    """A channel of a tensor with one scale.

    Attributes:
        axis: the axis of the channels.
        channel: index of the largest channel.
        times: how many times as large it is as the median channel.
        steps: steps that the largest element of the median channel uses.
    """

    axis: int
    channel: int
    times: float
    steps: float


def channel_sizes(numbers: Array) -> dict[int, Array]:
    """Return the largest absolute value of each channel, along axis 1 and the last axis, or the first of a matrix."""
    axes = {0, 1} if numbers.ndim == 2 else {1, numbers.ndim - 1} if numbers.ndim > 2 else set[int]()
    size = np.abs(numbers.astype(np.float64))
    return {axis: size.max(tuple(i for i in range(numbers.ndim) if i != axis), initial=0.0) for axis in sorted(axes)}


def outlier(sizes: Mapping[int, Array], scale: float) -> Outlier | None:
    """Return the outlier channel of a tensor with that scale, if there is one.

    Args:
        sizes: of the channels, by axis.
        scale: size of a step.
    """
    worst = None
    for axis, magnitudes in sizes.items():
        if magnitudes.size < 3 or scale <= 0:
            continue
        typical, largest = float(np.median(magnitudes)), float(magnitudes.max())
        if 0 < typical < FEW * scale and largest > TIMES * typical:
            channel = Outlier(axis, int(magnitudes.argmax()), largest / typical, typical / scale)
            worst = channel if worst is None or channel.times > worst.times else worst
    return worst


def outlier_notes(weights: Iterable[tuple[str, str, Outlier]], values: Iterable[tuple[str, str, Outlier]]) -> list[str]:
    """Return a note on each outlier, given with the Cell and the name of its tensor; the largest first."""
    items = [(*item, "quantize it per channel, or keep the Cell in float32") for item in weights]
    items += [(*item, "keep the Cells that compute and use it in float32, or scale it") for item in values]
    items.sort(key=lambda item: -item[2].times)
    notes = [
        f"{visible_name(path or '(root)')}: {visible_name(name)} has one scale, and channel {entry.channel} of axis "
        f"{entry.axis} is {entry.times:.0f} times as large as most, which use {entry.steps:.1g} steps: {advice}"
        for path, name, entry, advice in items[:SHOWN]
    ]
    more = len(items) - len(notes)
    return notes + ([f"{more} more tensors have such a channel"] if more else [])


SHARE = 1.0 / 16.0
"""Share of a step below which the median of the values that aren't 0 makes a quantizer coarse."""


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
