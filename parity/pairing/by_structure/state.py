"""The state of the walk through the candidate: what is chosen, and what was computed with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ....runtime.ir.types import Value
from ...sides.records import Array
from .fillings import Option
from .network import Network
from .reference import Key, Reference
from .units import Unit


@dataclass(eq=False)
class State:
    """How far the walk is.

    Attributes:
        values: the values that were computed, on each sample.
        numbers: for each element of a tensor of the candidate, the number of the reference's; -1 if not chosen.
        taken: first elements of the reference's pieces that are used.
        done: numbers of the units that are filled.
        pieces: of other units, number and number of each piece that is filled.
        agrees: whether each of the values is one of the reference's.
    """

    values: dict[Value, list[Array]]
    numbers: dict[str, Array]
    taken: frozenset[Key] = frozenset()
    done: frozenset[int] = frozenset()
    pieces: frozenset[tuple[int, int]] = frozenset()
    agrees: dict[Value, bool] = field(default_factory=dict)

    def copy(self) -> State:
        """Return a copy; arrays aren't changed in place."""
        return replace(self, values=dict(self.values), numbers=dict(self.numbers), agrees=dict(self.agrees))

    @property
    def agreeing(self) -> int:
        """The number of values that agree."""
        return sum(self.agrees.values())

    @property
    def apart(self) -> int:
        """The number of those that don't."""
        return len(self.agrees) - self.agreeing


@dataclass(eq=False)
class Choice:
    """A choice that may be made otherwise.

    Attributes:
        unit: the unit.
        piece: the number of its piece; None for a whole unit.
        before: the state before.
        options: those left, the best first.
        spare: those left that only exchange rows, without that more agrees.
        agreeing: how many values agreed with the option that was taken; those with which as many do are tried before
            any with which fewer do.
        worse: those with which fewer do, the best first.
        is_guess: whether what enters the unit meets no vector in the reference, though it is a value there: then the
            choices before it are more likely to be wrong.
    """

    unit: Unit
    piece: int | None
    before: State
    options: list[Option]
    spare: list[Option] = field(default_factory=list)
    agreeing: int = 0
    worse: list[Option] = field(default_factory=list)
    is_guess: bool = False


@dataclass
class Result:
    """The end of a walk.

    Attributes:
        numbers: as of `State`.
        tried: how many options were tried beyond one for each choice.
        differences: units whose data aren't a value of the reference, whatever is chosen before.
        unfilled: units for which the reference has nothing.
    """

    numbers: Mapping[str, Array]
    tried: int = 0
    differences: list[Unit] = field(default_factory=list)
    unfilled: list[Unit] = field(default_factory=list)


class Stored(dict[str, Array]):
    """The candidate's tensors, with the reference's elements where they are chosen."""

    def __init__(self, network: Network, reference: Reference, numbers: Mapping[str, Array]) -> None:
        super().__init__()
        self.network = network
        self.reference = reference
        self.numbers = numbers

    def __missing__(self, name: str) -> Array:
        numbers = self.numbers[name]
        chosen = numbers >= 0
        if chosen.all():
            self[name] = self.reference.sources.values(numbers)
        else:
            self[name] = self.network.stored[name].astype(np.float64)
            self[name][chosen] = self.reference.sources.values(numbers[chosen])
        return self[name]


def in_shape(arrays: Sequence[Array], shape: tuple[int, ...]) -> list[Array] | None:
    """Return arrays in a shape of as many elements: the axes in another order, or joined; None if neither fits."""
    source = arrays[0].shape
    if arrays[0].size != int(np.prod(shape)):
        return None
    if (
        source != shape
        and sorted(source) == sorted(shape)
        and len(source) == len(shape)
        and len(set(source)) == len(source)
    ):
        order = [source.index(size) for size in shape]
        return [array.transpose(order) for array in arrays]
    return [array.reshape(shape) for array in arrays] if source[-1:] == shape[-1:] else None
