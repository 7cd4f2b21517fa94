"""Other sizes for axes of the given inputs; axes of the same size are changed together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import torch

from .probe import Probe, with_tensors
from .values import Inputs

MAX_SIZE = 256
"""The largest size that is tried."""
MAX_GROWTH = 16
"""The largest number of elements that is tried, as a multiple of that of the given inputs."""
ALWAYS_AFFORDABLE = 2**16
"""A number of elements that is always tried."""
MAX_CHOICES = 4
"""Number of large sizes that are tried in turn until the reference runs."""

Axes = Sequence[tuple[int, int]]


def size_probes(inputs: Inputs, numbers: Collection[int], *, after_given: bool) -> Iterator[Probe]:
    """Yield probes in which a size is the next one, 1, or larger than the numbers in the networks, if that is possible.

    An even size becomes odd, and an odd one even. All axes of a size are changed together or, if the reference doesn't
    run then, those with the same number.

    Args:
        inputs: the given inputs.
        numbers: integers in the networks, which may be the largest size that they allow.
        after_given: call the networks on the given inputs before, since what they keep may have that size.
    """
    before = (inputs.arguments,) if after_given else ()
    tensors = inputs.tensors
    for size, axes in _axes_by_size(tensors).items():
        by_axis = [tuple(one for one in axes if one[1] == number) for number in sorted({axis for _, axis in axes})]
        for kind, possible in _sizes(size, numbers):
            for some in [axes, *by_axis] if len(by_axis) > 1 else [axes]:
                for other in possible:
                    if _elements(tensors, some, other) > max(ALWAYS_AFFORDABLE, MAX_GROWTH * _elements(tensors, (), 0)):
                        continue
                    changed = with_tensors(inputs.arguments, lambda place, x: _resized(x, place, some, other))  # noqa: B023
                    name = f"size {other} in place of {size} ({_described(inputs, some)})"
                    yield Probe(name, changed, before, choice=f"{kind}, {size}", resized=True)


def _axes_by_size(tensors: Mapping[int, torch.Tensor]) -> dict[int, Axes]:
    """The axes of each size that occurs, except 1."""
    found: dict[int, list[tuple[int, int]]] = {}
    for place, tensor in tensors.items():
        for axis, size in enumerate(tensor.shape):
            if size > 1:
                found.setdefault(size, []).append((place, axis))
    return {size: tuple(axes) for size, axes in found.items()}


def _sizes(size: int, numbers: Collection[int]) -> list[tuple[str, list[int]]]:
    """Sizes to try in place of one, by kind: of each kind, the first that the reference runs on is judged."""
    larger = sorted({n for n in numbers if size < n <= MAX_SIZE}, reverse=True)
    largest = [(larger[0] + 1) | 1, *larger[:MAX_CHOICES]] if larger else []
    return [("other size", [size + 1, size - 1, size + 2, 2 * size]), ("size 1", [1]), ("largest size", largest)]


def _elements(tensors: Mapping[int, torch.Tensor], axes: Axes, size: int) -> int:
    changed = set(axes)
    return sum(
        math.prod(size if (place, axis) in changed else n for axis, n in enumerate(x.shape))
        for place, x in tensors.items()
    )


def _resized(x: torch.Tensor, place: int, axes: Axes, size: int) -> torch.Tensor:
    """Truncate a tensor along these axes, or repeat it from the start."""
    for at, axis in axes:
        if at == place:
            x = x.index_select(axis, torch.arange(size) % x.shape[axis])
    return x


def _described(inputs: Inputs, axes: Axes) -> str:
    by_axis: dict[int, list[str]] = {}
    for place, axis in axes:
        by_axis.setdefault(axis, []).append(inputs.names[place])
    return ", ".join(f"axis {axis} of {', '.join(names)}" for axis, names in by_axis.items())
