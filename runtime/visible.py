"""Texts that hold names of a file or a model, made fit to be shown: names are data, and don't act on who reads them.

A name may hold escape sequences of a terminal, marks that turn the direction of a line, newlines that begin a forged
one, or halves of characters that no encoding has. Each is shown by its number, as Python would write it.
"""

from __future__ import annotations

import re

MAX_LENGTH = 500
"""Characters without a space that people are shown in full: a path may be that long, and is to be copied."""
KEPT = 100
"""Characters that are left at either end of a longer name."""
_LONG_NAME = re.compile(r"\S{501,}")  # more than `MAX_LENGTH`


def visible_name(name: object) -> str:
    r"""A name in one line: what isn't printable is written as `\n`, `\x1b`, `\u202e`."""
    text = str(name)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_text(text: str) -> str:
    """A text of several lines: as `visible_name`, but newlines stay."""
    return "\n".join(map(visible_name, text.split("\n")))


def encodable_name(name: str) -> str:
    r"""A name as it stands in a file: only what texts there can't hold is a number.

    That is NUL, at which C ends a text, and the half of a pair of surrogates, which UTF-8 lacks: `\x00`, `\ud800`.
    """
    return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def shortened_names(text: str) -> str:
    """A text for people, in which the middle of names of more than `MAX_LENGTH` characters is left out, visibly."""

    def shortened(name: re.Match[str]) -> str:
        return f"{name[0][:KEPT]}…({len(name[0]) - 2 * KEPT} more characters)…{name[0][-KEPT:]}"

    return _LONG_NAME.sub(shortened, text)
