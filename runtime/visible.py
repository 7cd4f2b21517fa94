"""Making text safe to display that contains names from a file or a model.

A name may contain terminal escape sequences, marks that change the writing direction, newlines that forge a line, or
lone surrogates that can't be encoded. Each such character is shown as an escape, as in a Python string literal.
"""

from __future__ import annotations

import re

MAX_LENGTH = 500
"""Longest name (characters without a space) that is shown in full: a path may be that long, and users copy it."""
MAX_LINE_LENGTH = 4000
"""Longest line of an error's message (characters) that is shown in full."""
END_LENGTH = 100
"""Number of characters shown at each end of a longer name."""
_LONG_NAME = re.compile(r"\S{501,}")  # more than `MAX_LENGTH`


def visible_name(name: object) -> str:
    r"""Return a name on one line, with unprintable characters escaped as `\n`, `\x1b`, `\u202e`."""
    text = str(name)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_text(text: str) -> str:
    """Escape a text of several lines like `visible_name`, but keep newlines."""
    return "\n".join(map(visible_name, text.split("\n")))


def encodable_name(name: str) -> str:
    r"""Return a name as it can be written to a file, with only the characters escaped that a file can't hold.

    These are NUL, which ends a C string, and lone surrogates, which UTF-8 can't encode: `\x00`, `\ud800`.
    """
    return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def shorten_lines(text: str, limit: int = MAX_LINE_LENGTH) -> str:
    """Truncate each line of a text to `limit` characters, and append the length of the full line."""
    lines = text.split("\n")
    return "\n".join(s if len(s) <= limit else f"{s[:limit]}... ({len(s)} characters)" for s in lines)


def shorten_names(text: str) -> str:
    """Abbreviate names of more than `MAX_LENGTH` characters in a text visibly in the middle."""

    def shorten(name: re.Match[str]) -> str:
        return f"{name[0][:END_LENGTH]}…({len(name[0]) - 2 * END_LENGTH} more characters)…{name[0][-END_LENGTH:]}"

    return _LONG_NAME.sub(shorten, text)
