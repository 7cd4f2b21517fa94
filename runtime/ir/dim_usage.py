"""Handlers for Python code that needs a symbolic dimension as a number, by which a trace raises its own errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn


class DimUsage(str):
    """How Python code uses a dimension other than in a comparison, passed in place of the other operand."""


AS_KEY = DimUsage("a key of a dict or set")
AS_TEXT = DimUsage("a text")
AS_CLASS = DimUsage("a decision by `isinstance`")


class _Handlers(threading.local):
    """The current handlers, per thread; None for the default errors."""

    number: Callable[[Any, str], NoReturn] | None = None
    comparing: Callable[[Any, object], None] | None = None


handlers = _Handlers()


@contextlib.contextmanager
def handle_usage(number: Callable[[Any, str], NoReturn], comparing: Callable[[Any, object], None]) -> Iterator[None]:
    """Within the context, call these handlers where Python code needs a dimension to be a number.

    Args:
        number: called with the dimension and a description of the usage; it raises an error.
        comparing: called with the dimension and an operand that it doesn't equal, or a `DimUsage`; it may raise.
    """
    before = handlers.number, handlers.comparing
    handlers.number, handlers.comparing = number, comparing
    try:
        yield
    finally:
        handlers.number, handlers.comparing = before


def unknown(dim: Any, what: str, why: str) -> TypeError:
    """Return the error to raise where Python code needs to know a symbolic dimension."""
    if handlers.number is not None:
        handlers.number(dim, what)
    return TypeError(f"dimension {dim} is symbolic: {why}")
