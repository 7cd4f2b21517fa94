"""Other sizes for axes of the given inputs; axes of the same size are changed together."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import torch

from ...sides.run import Arguments
from .probe import Probe, with_tensors
from .values import Inputs

MAX_SIZE = 256
"""The largest size that is tried."""
MAX_GROWTH = 16
"""The largest number of elements that is tried, as a multiple of that of the given inputs."""
ALWAYS_AFFORDABLE = 2**16
"""A number of elements that is always tried."""
MAX_CHOICES = 8
"""Number of large sizes that are tried in turn until the reference runs."""
OTHER, ONE = "other size", "size 1"

Axes = Sequence[tuple[int, int]]


def size_probes(inputs: Inputs, numbers: Collection[int], *, after_given: bool) -> Iterator[Probe]:
    """Yield probes in which a size is the next one, 1, or larger than the numbers in the networks, if that is possible.

    An even size becomes odd, and an odd one even. All axes of a size are changed together or, if the reference doesn't
    run then, those with the same number. One of two equal axes of a tensor is changed alone, too, and axes of different
    sizes by the same factor.

    Args:
        inputs: the given inputs.
        numbers: integers in the networks, which may be the largest size that they allow.
        after_given: call the networks on the given inputs before, since what they keep may have that size.
    """
    before = (inputs.arguments,) if after_given else ()
    tensors = inputs.tensors
    for size, axes in _axes_by_size(tensors).items():
        by_axis = [
            tuple(place_and_axis for place_and_axis in axes if place_and_axis[1] == number)
            for number in sorted({axis for _, axis in axes})
        ]
        for kind, possible in _sizes(size, numbers):
            for some in [axes, *by_axis] if len(by_axis) > 1 else [axes]:
                for other in possible:
                    if _is_affordable(tensors, some, other):
                        yield _probe(inputs, some, {size: other}, before, f"{kind}, {size}")
        for alone in by_axis if _are_of_one_tensor(axes) else []:
            for other in (size + 2, 2 * size):
                if _is_affordable(tensors, alone, other):
                    yield _probe(inputs, alone, {size: other}, before, f"axis {alone[0][1]} alone, {size}")
    for axis, axes in _last_axes_in_proportion(tensors).items():
        sizes = {tensors[place].shape[number] for place, number in axes}
        unit = math.gcd(*sizes)
        for factor in (unit + 1, 2 * unit):
            yield _probe(inputs, axes, {n: n // unit * factor for n in sizes}, before, f"in proportion, axis {axis}")


def _probe(inputs: Inputs, axes: Axes, sizes: Mapping[int, int], before: tuple[Arguments, ...], choice: str) -> Probe:
    """Return a probe with other sizes of some axes.

    Size 1 is tried after another one: what has the given size elsewhere is broadcast to 1, which nobody may have meant.
    """

    def change(place: int, x: torch.Tensor) -> torch.Tensor:
        return _resized(x, [axis for at, axis in axes if at == place], sizes, mixed=place not in inputs.masks)

    changed = with_tensors(inputs.arguments, change)
    new, old = (", ".join(map(str, some)) for some in (sizes.values(), sizes))
    name = f"size {new} in place of {old} ({_described(inputs, axes)})"
    after = choice.replace(ONE, OTHER) if choice.startswith(ONE) else ""
    return Probe(name, changed, before, choice=choice, after=after, resized=True)


def _are_of_one_tensor(axes: Axes) -> bool:
    """Whether a tensor has several of these axes."""
    return len({place for place, _ in axes}) < len(axes)


def _last_axes_in_proportion(tensors: Mapping[int, torch.Tensor]) -> dict[int, Axes]:
    """By number, -1 or -2, the axes that have different sizes in several tensors."""
    axes_by_number: dict[int, Axes] = {}
    for number in (-1, -2):
        axes = [(place, x.ndim + number) for place, x in tensors.items() if x.ndim + number > 0]
        if len({tensors[place].shape[axis] for place, axis in axes} - {1}) > 1:
            axes_by_number[number] = [(place, axis) for place, axis in axes if tensors[place].shape[axis] > 1]
    return axes_by_number


def _is_affordable(tensors: Mapping[int, torch.Tensor], axes: Axes, size: int) -> bool:
    return _elements(tensors, axes, size) <= max(ALWAYS_AFFORDABLE, MAX_GROWTH * _elements(tensors, (), 0))


def _axes_by_size(tensors: Mapping[int, torch.Tensor]) -> dict[int, Axes]:
    """The axes of each size that occurs."""
    axes_by_size: dict[int, list[tuple[int, int]]] = {}
    for place, tensor in tensors.items():
        for axis, size in enumerate(tensor.shape):
            if size > 0:
                axes_by_size.setdefault(size, []).append((place, axis))
    return {size: tuple(axes) for size, axes in axes_by_size.items()}


def _sizes(size: int, numbers: Collection[int]) -> list[tuple[str, list[int]]]:
    """Sizes to try in place of one, by kind: of each kind, the first that the reference runs on is judged."""
    if size == 1:
        return [(OTHER, [2, 3])]
    larger = sorted({n for n in numbers if size < n <= MAX_SIZE}, reverse=True)
    largest = [(larger[0] + 1) | 1, *larger[:MAX_CHOICES]] if larger else []
    return [(OTHER, [size + 1, size - 1, size + 2, 2 * size]), (ONE, [1]), ("largest size", largest)]


def _elements(tensors: Mapping[int, torch.Tensor], axes: Axes, size: int) -> int:
    changed = set(axes)
    return sum(
        math.prod(size if (place, axis) in changed else n for axis, n in enumerate(x.shape))
        for place, x in tensors.items()
    )


def _resized(x: torch.Tensor, axes: Sequence[int], sizes: Mapping[int, int], *, mixed: bool) -> torch.Tensor:
    """Truncate a tensor along axes, or repeat it; `sizes` are the new sizes by the old ones.

    With `mixed`, each repetition has its elements in another order: equal ones would hide what depends on their order.
    """
    for axis in axes:
        size, other = x.shape[axis], sizes[x.shape[axis]]
        parts = [x.reshape(-1).roll(n if mixed else 0).reshape(x.shape) for n in range(-(-other // size))]
        x = torch.cat(parts, dim=axis).narrow(axis, 0, other)
    return x


def _described(inputs: Inputs, axes: Axes) -> str:
    by_axis: dict[int, list[str]] = {}
    for place, axis in axes:
        by_axis.setdefault(axis, []).append(inputs.names[place])
    return ", ".join(f"axis {axis} of {', '.join(names)}" for axis, names in by_axis.items())
