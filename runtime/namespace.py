"""Unique names within one scope."""

from __future__ import annotations

from collections.abc import Iterable


class Namespace:
    """Unique names within one scope: each name is returned only once.

    Args:
        reserved: names that are never returned.
        first: the first number to append to a name that is already taken.
        joint: the text between a name and its number.
    """

    def __init__(self, reserved: Iterable[str] = (), *, first: int = 1, joint: str = "_") -> None:
        self._taken = set(reserved)
        self._numbers: dict[str, int] = {}
        self._first = first
        self._joint = joint

    def __contains__(self, name: str) -> bool:
        return name in self._taken

    def take(self, name: str) -> None:
        """Reserve a name, so that it is never returned from now on."""
        self._taken.add(name)

    def unique(self, base: str) -> str:
        """Return and reserve `base`, or `base` with a number if it is taken."""
        name, number = base, self._numbers.get(base, self._first)
        while name in self._taken:
            name = f"{base}{self._joint}{number}"
            number += 1
        self._numbers[base] = number
        self._taken.add(name)
        return name


def unique_name(base: str, reserved: Iterable[str], joint: str = "_") -> str:
    """Return `base`, or `base` with a number from 2 on if it is taken."""
    return Namespace(reserved, first=2, joint=joint).unique(base)
