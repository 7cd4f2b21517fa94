"""Texts that hold names of a file or a model, made fit to be shown: names are data, and don't act on who reads them.

A name may hold escape sequences of a terminal, marks that turn the direction of a line, newlines that begin a forged
one, or halves of characters that no encoding has. Each is shown by its number, as Python would write it.
"""

from __future__ import annotations


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
