"""Registration of functions in tables by a decorator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Key = TypeVar("Key")
Entry = TypeVar("Entry")
Function = TypeVar("Function", bound=Callable[..., object])


def register(table: dict[Key, Entry], keys: Iterable[Key], entry: Entry) -> None:
    """Put an entry into a table under each of these keys; raise `ValueError` if one is taken."""
    for key in keys:
        if key in table:
            raise ValueError(f"{key} is already in the table")
        table[key] = entry


def register_as(table: dict[Key, Function], keys: Iterable[Key]) -> Callable[[Function], Function]:
    """Return a decorator that registers a function under these keys; `ValueError` if one is taken."""

    def decorate(function: Function) -> Function:
        register(table, keys, function)
        return function

    return decorate
