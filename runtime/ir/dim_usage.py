"""What Python asks of a symbolic dimension that it doesn't know: a trace may raise another error there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn


class DimUsage(str):
    """In place of what a dimension is compared with: as what else Python uses it."""


AS_KEY = DimUsage("a key of a dict or set")
AS_TEXT = DimUsage("a text")
AS_CLASS = DimUsage("a decision by `isinstance`")


class _Asked(threading.local):
    """Who is told, per thread, that Python asks for what a dimension doesn't know; None: nobody."""

    number: Callable[[Any, str], NoReturn] | None = None
    comparing: Callable[[Any, object], None] | None = None


asked = _Asked()


@contextlib.contextmanager
def answering(number: Callable[[Any, str], NoReturn], comparing: Callable[[Any, object], None]) -> Iterator[None]:
    """Within the context, another error is raised where Python needs a dimension to be a number.

    Args:
        number: called with the dimension and what needs it; it raises.
        comparing: called with the dimension and what it doesn't equal, or a `DimUsage` of it; it may raise.
    """
    before = asked.number, asked.comparing
    asked.number, asked.comparing = number, comparing
    try:
        yield
    finally:
        asked.number, asked.comparing = before


def unknown(dim: Any, what: str, why: str) -> TypeError:
    """The error to raise where Python needs a dimension to be something that isn't known."""
    if asked.number is not None:
        asked.number(dim, what)
    return TypeError(f"dimension {dim} is symbolic: {why}")
