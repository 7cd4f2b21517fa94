"""Unique names within one scope."""

from __future__ import annotations

from collections.abc import Iterable


class Namespace:
    """Unique names within one scope: each name is returned only once.

    Args:
        taken: names that are never returned.
        first: the first number to append to a name that is already taken.
        joint: the text between a name and its number.
    """

    def __init__(self, taken: Iterable[str] = (), *, first: int = 1, joint: str = "_") -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}
        self._first = first
        self._joint = joint

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, name: str) -> None:
        """Reserve a name, so that it is never returned from now on."""
        self._taken.add(name)

    def unique(self, wanted: str) -> str:
        """Return and reserve `wanted`, or `wanted` with a number if it is taken."""
        name, number = wanted, self._numbers.get(wanted, self._first)
        while name in self._taken:
            name = f"{wanted}{self._joint}{number}"
            number += 1
        self._numbers[wanted] = number
        self._taken.add(name)
        return name


def unique_name(wanted: str, taken: Iterable[str], joint: str = "_") -> str:
    """Return `wanted`, or `wanted` with a number from 2 on if it is taken."""
    return Namespace(taken, first=2, joint=joint).unique(wanted)
