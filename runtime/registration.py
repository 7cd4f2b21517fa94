"""Tables whose entries are functions that enter themselves, by a decorator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Key = TypeVar("Key")
Entry = TypeVar("Entry")
Function = TypeVar("Function", bound=Callable[..., object])


def register(table: dict[Key, Entry], keys: Iterable[Key], entry: Entry) -> None:
    """Put an entry into a table under each of these keys; `ValueError` where one is taken."""
    for key in keys:
        if key in table:
            raise ValueError(f"{key} is already in the table")
        table[key] = entry


def registering(table: dict[Key, Function], keys: Iterable[Key]) -> Callable[[Function], Function]:
    """A decorator that enters a function under these keys; `ValueError` where one is taken."""

    def registered(function: Function) -> Function:
        register(table, keys, function)
        return function

    return registered
