"""Other values for the given inputs: of numbers, of indices, and of masks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from ....converter.dtypes import is_real
from ...sides.run import Arguments
from .probe import Change, Probe, with_tensors

Tensor = torch.Tensor

GOLDEN = 0.6180339887498949
HIDDEN = -1e4
"""A number from which on a floating-point mask hides; a mask that is zero everywhere is given it."""
NEAR = 1e-4
"""The relative difference of two numbers that may be one, computed in two ways."""
LARGEST = 3
"""Numbers of either sign from 10 ** -LARGEST to 10 ** LARGEST are tried."""


@dataclass(frozen=True)
class Inputs:
    """The tensors of the given arguments, by their place among all leaves, and what they seem to be.

    Attributes:
        arguments: the given arguments.
        tensors: the tensors.
        names: their names.
        numbers: places of tensors of floating-point numbers; beside others, not of those that say yes or no by 1 and 0,
            such as an adjacency.
        indices: places of tensors of integers.
        masks: places of tensors that hide positions.
    """

    arguments: Arguments
    tensors: Mapping[int, Tensor]
    names: Mapping[int, str]
    numbers: Sequence[int]
    indices: Sequence[int]
    masks: Sequence[int]

    @classmethod
    def of(cls, arguments: Arguments, tensors: Mapping[int, tuple[str, Tensor]]) -> Inputs:
        """Tell masks from numbers and indices, by name, dtype and values."""
        masks = [place for place, (name, x) in tensors.items() if x.numel() > 1 and _is_mask(name, x)]
        others = [(place, x) for place, (_, x) in tensors.items() if place not in masks and x.dtype != torch.bool]
        real = [place for place, x in others if is_real(x)]
        flags = [place for place in real if _is_yes_or_no(tensors[place][1])]
        numbers = real if len(flags) == len(real) else [place for place in real if place not in flags]
        indices = [place for place, x in others if not x.is_floating_point()]
        by_place = {place: x for place, (_, x) in tensors.items()}
        return cls(arguments, by_place, {place: name for place, (name, _) in tensors.items()}, numbers, indices, masks)

    def changed(self, places: Sequence[int], change: Change) -> Arguments:
        """The arguments with other tensors at these places."""
        return with_tensors(self.arguments, lambda place, x: change(x.detach()) if place in places else x)

    def listed(self, places: Sequence[int]) -> str:
        """The names of tensors, in words."""
        return ", ".join(self.names[place] for place in places)


def _is_mask(name: str, x: Tensor) -> bool:
    if x.dtype == torch.bool:
        return True
    distinct = np.unique(x.detach().double().numpy())
    of_two = len(distinct) <= 2
    if x.is_floating_point() and of_two and bool((distinct <= HIDDEN).any()):
        return True
    return "mask" in name.lower() and of_two


def _is_yes_or_no(x: Tensor) -> bool:
    """Whether a tensor has nothing but zeros and ones, and both."""
    return x.numel() > 1 and bool(((x == 0) | (x == 1)).all()) and bool((x != x.reshape(-1)[0]).any())


def number_probes(inputs: Inputs) -> Iterator[Probe]:
    """Yield probes in which all numbers are changed together, the most revealing first."""
    places = inputs.numbers
    if not places:
        return
    names = inputs.listed(places)
    for name, change in _CHANGES.items():
        yield Probe(f"{names} {name}", inputs.changed(places, change))


def equal_number_probes(inputs: Inputs, *, positions: bool, gradients: bool) -> Iterator[Probe]:
    """Yield probes in which many numbers are equal, all of them together.

    Args:
        inputs: the given inputs.
        positions: whether it is defined which of equal elements a position points to.
        gradients: whether it is defined which of them gets a gradient.
    """
    places = inputs.numbers
    if not places:
        return
    names = inputs.listed(places)
    for name, change in _EQUAL.items():
        yield Probe(f"{names} {name}", inputs.changed(places, change), ties=True, positions=positions)
    yield Probe(f"{names} all zero", inputs.changed(places, torch.zeros_like), tied=True, finite=True)
    if gradients:
        yield Probe(f"{names} of two values", inputs.changed(places, _of_two_values), tied=True, exact=True)


def cotangent_probes() -> Iterator[Probe]:
    """Yield probes with the given inputs and other cotangents: gradients depend on them linearly."""
    for name, change in (("of either sign from 0.001 to 1000", wide), ("times 0.000001", _tiny)):
        yield Probe(f"cotangents {name}", cotangents=change)


def not_finite_probes(inputs: Inputs) -> Iterator[Probe]:
    """Yield probes with NaN, or with an infinity, in elements of each tensor of numbers."""
    if inputs.numbers:
        for name, value in (("NaN", torch.nan), ("infinity", torch.inf), ("minus infinity", -torch.inf)):
            arguments = _in_elements(inputs, value)
            yield Probe(f"{name} in {inputs.listed(inputs.numbers)}", arguments, not_finite=True)


def switch_probes(inputs: Inputs, switches: Sequence[float], *, positions: bool) -> Iterator[Probe]:
    """Yield probes whose numbers lie at, just below and just above the values at which operations switch.

    Args:
        inputs: the given inputs.
        switches: the values.
        positions: whether whole numbers may be compared there: no rounding error decides, unless two of the values are
            one number, computed in two ways.
    """
    if inputs.numbers and switches:
        values = around(switches)
        arguments = inputs.changed(inputs.numbers, lambda x: cycle(x, values))
        name = f"{inputs.listed(inputs.numbers)} at values at which operations switch"
        yield Probe(name, arguments, ties=True, exact=True)
        values = around([value for value in switches if not any(map(partial(_nearly, value), switches))])
        if positions and values:
            arguments = inputs.changed(inputs.numbers, lambda x: cycle(x, values))
            yield Probe(f"{name}, whole numbers too", arguments, ties=True, exact=True, positions=True)


def _nearly(first: float, second: float) -> bool:
    return 0 < abs(first - second) <= NEAR * max(abs(first), abs(second))


def mask_probes(inputs: Inputs) -> Iterator[Probe]:
    """Yield probes in which each mask hides, or shows, part of the positions: more in each row."""
    for place in inputs.masks:
        for value in _values_of_padding(inputs, place):
            for where, flip in (("the end", False), ("the start", True)):
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                arguments = inputs.changed([place], lambda x, v=value, f=flip: _padded(x, v, at_start=f))  # type: ignore[misc]
                yield Probe(f"{inputs.names[place]} padded with {shown} at {where}", arguments)


def _values_of_padding(inputs: Inputs, place: int) -> list[float | int | bool]:
    x = inputs.tensors[place]
    distinct = np.unique(x.detach().double().numpy()).tolist()
    if x.dtype == torch.bool:
        return [distinct[0] == 0] if len(distinct) == 1 else [False, True]
    if x.is_floating_point():
        return [min(distinct)] if min(distinct) < 0 else [HIDDEN] if max(distinct) == 0 else [0.0]
    return [0] if distinct[-1] != 0 else [1]


def _padded(x: Tensor, value: float, *, at_start: bool) -> Tensor:
    """Return a mask with this value in the last (or first) positions of each row: 1 in the first row, 2 in the next."""
    x = x.clone()
    length = x.shape[-1]
    rows = x.shape[0] if x.ndim > 1 else 1
    for row in range(rows):
        count = 1 + row % max(1, length - 1) if length > 1 else 0
        part = x[row] if x.ndim > 1 else x
        (part[..., :count] if at_start else part[..., length - count :]).fill_(value)
    return x


def wide(x: Tensor) -> Tensor:
    """Return numbers of either sign from 0.001 to 1000, evenly spread on a logarithmic scale."""
    n = torch.arange(1, x.numel() + 1, dtype=torch.float64)
    exponents = (n * GOLDEN % 1.0 * 2 - 1) * LARGEST
    signs = torch.where((n * GOLDEN * GOLDEN * 7 % 1.0) < 0.5, -1.0, 1.0)
    return (signs * 10.0**exponents).reshape(x.shape).to(x)


def _tiny(x: Tensor) -> Tensor:
    return x * 1e-6


def around(switches: Sequence[float]) -> list[float]:
    """Return a value below and one above each of these, and those themselves that float32 holds exactly."""
    values: list[float] = []
    for switch in switches:
        step = 0.1 * max(1.0, abs(switch))
        values += [switch - step, switch + step]
        if float(np.float32(switch)) == switch:
            values.append(switch)
    return values


@dataclass(frozen=True)
class Cycle:
    """Returns a tensor of these values for another one; equal to what returns the same."""

    values: tuple[float, ...]

    def __call__(self, x: Tensor) -> Tensor:
        """Return the values in the shape and dtype of a tensor."""
        return cycle(x, self.values)


def cycle(x: Tensor, values: Sequence[float]) -> Tensor:
    """Return a tensor of these values, repeated in an order that mixes them along every axis."""
    places = (torch.arange(x.numel(), dtype=torch.float64) * GOLDEN % 1.0 * len(values)).long()
    return torch.tensor(values, dtype=torch.float64)[places].reshape(x.shape).to(x)


def _in_elements(inputs: Inputs, value: float) -> Arguments:
    """Return the arguments with a number in one place of all tensors of numbers, and of several in one of its own each.

    A maximum of two numbers shows what it does with NaN only where the other one isn't NaN.
    """
    numbers = list(inputs.numbers)

    def change(place: int, x: Tensor) -> Tensor:
        if place not in numbers:
            return x
        flat = x.detach().reshape(-1).clone()
        own = [] if len(numbers) == 1 else [1 + numbers.index(place)]
        for step in [0, *own] if len(flat) else []:
            flat[(len(flat) // 2 + step) % len(flat)] = value
        return flat.reshape(x.shape)

    return with_tensors(inputs.arguments, change)


def in_numpy(change: Callable[[Any], Any]) -> Callable[[Tensor], Tensor]:
    """Return a change of NumPy arrays as one of integer tensors: torch hardly computes with uint16 to uint64."""
    return lambda x: torch.from_numpy(np.asarray(change(x.cpu().numpy()))).to(x.device)


def all_first(x: Tensor) -> Tensor:
    """Return the first number in place of each."""
    return x.reshape(-1)[:1].expand(x.numel()).reshape(x.shape).clone()


def _repeated(x: Tensor) -> Tensor:
    """Round to quarters of the largest magnitude."""
    unit = float(x.double().abs().max()) / 4 if x.numel() else 0.0
    return x if unit == 0 else ((x.double() / unit).round() * unit).to(x)


def _of_two_values(x: Tensor) -> Tensor:
    """Return half the largest magnitude, with the signs of the numbers: many are equal, and none is zero."""
    half = float(x.double().abs().max()) / 2 if x.numel() else 0.0
    return torch.where(x < 0, -half, half).to(x)


_CHANGES: dict[str, Change] = {
    "of either sign from 0.001 to 1000": wide,
    "negated": torch.neg,
    "times 100": lambda x: x * 100,
    "times 0.01": lambda x: x * 0.01,
    "times 0.000001": lambda x: x * 1e-6,
}
_EQUAL: dict[str, Change] = {
    "all zero": torch.zeros_like,
    "with repeated values": _repeated,
    "all equal": all_first,
}
