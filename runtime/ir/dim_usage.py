"""Handlers for Python code that needs a symbolic dimension as a number. A trace uses them to raise its own errors."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn


class DimUsage(str):
    """How Python code uses a dimension other than in a comparison, passed in place of the other operand."""


AS_KEY = DimUsage("a key of a dict or set")
AS_TEXT = DimUsage("a string")
AS_CLASS = DimUsage("a decision by `isinstance`")


class _Handlers(threading.local):
    """The current handlers, per thread; None for the default errors."""

    on_number: Callable[[Any, str], NoReturn] | None = None
    on_comparison: Callable[[Any, object], None] | None = None


handlers = _Handlers()


@contextlib.contextmanager
def handle_usage(
    on_number: Callable[[Any, str], NoReturn], on_comparison: Callable[[Any, object], None]
) -> Iterator[None]:
    """Within the context, call these handlers where Python code needs a dimension to be a number.

    Args:
        on_number: called with the dimension and a description of the usage; it raises an error.
        on_comparison: called with the dimension and an operand that it doesn't equal, or a `DimUsage`; it may raise.
    """
    before = handlers.on_number, handlers.on_comparison
    handlers.on_number, handlers.on_comparison = on_number, on_comparison
    try:
        yield
    finally:
        handlers.on_number, handlers.on_comparison = before


def unknown(dim: Any, what: str, why: str) -> TypeError:
    """Return the error to raise where Python code needs the value of a symbolic dimension."""
    if handlers.on_number is not None:
        handlers.on_number(dim, what)
    return TypeError(f"dimension {dim} is symbolic: {why}")
