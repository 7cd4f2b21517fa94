"""Names in one place, each of which is given once."""

from __future__ import annotations

from collections.abc import Iterable


class Namespace:
    """Names in one place, each of which is given once.

    Args:
        taken: names that are never given.
        first: the number that a name gets which is taken, counted on from there.
        joint: what stands between a name and its number.
    """

    def __init__(self, taken: Iterable[str] = (), *, first: int = 1, joint: str = "_") -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        self._first = first
        self._joint = joint

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, name: str) -> None:
        """Let a name not be given from now on."""
        self._taken.add(name)

    def free(self, wanted: str) -> str:
        """A name that is `wanted`, or that with a number if it was given before; taken from now on."""
        name, number = wanted, self._numbers.get(wanted, self._first)
        while name in self._taken:
            name = f"{wanted}{self._joint}{number}"
            number += 1
        self._numbers[wanted] = number
        self._taken.add(name)
        return name


def free_name(wanted: str, taken: Iterable[str], joint: str = "_") -> str:
    """`wanted`, or that with a number from 2 on if it is taken."""
    return Namespace(taken, first=2, joint=joint).free(wanted)
