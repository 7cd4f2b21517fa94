"""The messages of errors, in short."""

from __future__ import annotations


def first_line(error: Exception) -> str:
    """The first line of an error."""
    return str(error).partition("\n")[0]
