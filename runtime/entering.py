"""Tables whose entries are functions that enter themselves, by a decorator."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Entry = TypeVar("Entry", bound=Callable[..., object])


def entering(table: dict[str, Entry], names: Iterable[str]) -> Callable[[Entry], Entry]:
    """A decorator that enters a function under these names; `ValueError` where one is taken."""

    def enter(entry: Entry) -> Entry:
        for name in names:
            if name in table:
                raise ValueError(f"{name} is already in the table")
            table[name] = entry
        return entry

    return enter
