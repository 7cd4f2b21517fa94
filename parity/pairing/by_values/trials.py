"""Trials: how much more of a file is right with a tensor of the module in place of a value."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import Value
from ...correspondence.distances import EXACT, Arrays, distance
from .crossings import Crossing
from .file_values import FileValues

CLOSE = 1e-2
"""Distance up to which a value may be the place of a tensor: whether it is right is judged later."""
DIGITS = 10.0
"""The most digits of a value that count."""


class Trials:
    """Tries tensors in places of a file, and counts the trials.

    Attributes:
        count: how many have been made.
        norms: the norm of each tensor on the first sample.

    Args:
        file: the values of the file's program.
        tensors: the tensors that cross the module's boundaries, in order.
        places: the places found so far; others may add to them.
        lacking: parts of tensors that the file lacks beside others that it has.
    """

    def __init__(
        self,
        file: FileValues,
        tensors: Sequence[Crossing],
        places: Mapping[Crossing, Value],
        lacking: Mapping[Crossing, Sequence[Arrays]],
    ) -> None:
        self.count = 0
        self.norms = {tensor: norm_of(tensor.arrays) for tensor in tensors}
        self._file = file
        self._places = places
        self._targets: dict[Crossing, list[tuple[Arrays, float]]] = {
            tensor: [(arrays, norm_of(arrays)) for arrays in (tensor.arrays, *lacking.get(tensor, ()))]
            for tensor in tensors
        }

    def gain(self, tensor: Crossing, value: Value) -> float:
        """Return how many more digits agree in total if a value is replaced by a tensor; -inf if that doesn't run.

        The tensor in another layout says nothing of its place.
        """
        self.count += 1
        try:
            changed = self._file.trial(value, tensor.arrays)
        except CellbridgeError:
            return -math.inf
        for copy in self._file.flat.copies(value):
            changed.pop(copy, None)
        before = {result: self._file.values[result] for result in changed}
        gain = 0.0
        for other, place in self._places.items():
            if place in changed and other.floating:
                gain += _digits(changed[place], other.arrays) - _digits(before[place], other.arrays)
        norms = {result: (norm_of(arrays), norm_of(before[result])) for result, arrays in changed.items()}
        for other in [other for other in self.norms if other not in self._places]:
            if other is not tensor and other.floating:
                gain += self._most_digits(other, changed, {v: new for v, (new, _) in norms.items()})
                gain -= self._most_digits(other, before, {v: old for v, (_, old) in norms.items()})
        return gain

    def agreeing(self, tensor: Crossing, value: Value, others: Sequence[Crossing]) -> set[Crossing]:
        """Return those of other tensors that the file computes from a tensor in the place of a value."""
        changed = self._file.trial(value, tensor.arrays)
        return {t for t in others if any(distance(arrays, t.arrays) <= EXACT for arrays in changed.values())}

    def _most_digits(self, tensor: Crossing, among: Mapping[Value, Arrays], norms: Mapping[Value, float]) -> float:
        """Return the number of digits that the closest of these arrays has in common with a tensor."""
        digits = (
            _digits(arrays, target)
            for target, norm in self._targets[tensor]
            for value, arrays in among.items()
            if arrays[0].shape == target[0].shape and is_similar(norms[value], norm)
        )
        return max(digits, default=0.0)


def _digits(arrays: Arrays, truth: Arrays) -> float:
    """Return the number of digits that agree; 0 if the arrays aren't close."""
    apart = distance(arrays, truth)
    return 0.0 if apart > CLOSE else min(DIGITS, -math.log10(max(apart, 1e-300)))


def norm_of(arrays: Arrays) -> float:
    """Return the norm of the first array; NaN for integers."""
    first = arrays[0]
    return float(np.linalg.norm(first)) if first.dtype.kind == "f" else math.nan


def is_similar(norm: float, other: float) -> bool:
    """Whether arrays of these norms may be close; integers and arrays that aren't finite always may."""
    if not (math.isfinite(norm) and math.isfinite(other)):
        return True
    return abs(norm - other) <= 2 * CLOSE * max(norm, other)
