"""Words of messages."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """The first line of an error."""
    return str(error).partition("\n")[0]


def times_in_words(count: int) -> str:
    """Return how often something happens: `never`, `once`, `twice`, `3 times`."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
