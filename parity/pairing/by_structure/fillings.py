"""What a candidate's tensors may hold: elements of the reference's, and what is used up with them."""

from __future__ import annotations

from dataclasses import dataclass

from ...sides.records import Array
from .reference import Key


@dataclass(frozen=True, eq=False)
class Filling:
    """Elements of a candidate's tensor.

    Attributes:
        name: name of the tensor.
        places: positions of elements in it.
        numbers: the number of the reference's element for each of them; see `Sources`.
    """

    name: str
    places: Array
    numbers: Array


@dataclass(frozen=True, eq=False)
class Option:
    """What a unit, or a piece of one, may hold.

    Attributes:
        fillings: the elements of its weight, and of its bias.
        taken: the first element of each of the reference's pieces that is used.
        is_reordered: whether rows, or columns, are in another order than anything but a trial gives reason for.
        fits: whether both units have as many pieces.
    """

    fillings: tuple[Filling, ...]
    taken: frozenset[Key]
    is_reordered: bool = False
    fits: bool = True
