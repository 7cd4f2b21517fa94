"""The statement that begins in a line of code, which may go on in the lines below."""

from __future__ import annotations

import io
import linecache
import tokenize
from collections.abc import Sequence

MAX_LINES = 12
"""Longer statements are cut to their first line."""
MAX_LENGTH = 2000
"""The most characters of a statement."""


def whole_statement(file: str, line: int, text: str) -> str:
    """Return the statement that begins in a line, on one line; the text of the line alone if it isn't known.

    No file is read: it must be one that this process has read as code, and still have that line.
    """
    entry = linecache.cache.get(file)
    known = entry[2] if entry is not None and len(entry) == 4 else []
    if not 0 < line <= len(known) or known[line - 1].strip() != text:
        return text
    for count in range(1, MAX_LINES + 1):
        rows = known[line - 1 : line - 1 + count]
        if sum(map(len, rows)) > MAX_LENGTH:
            break
        if (statement := _on_one_line([rows[0].lstrip(), *rows[1:]])) is not None:
            return statement or text
    return text


def _on_one_line(rows: Sequence[str]) -> str | None:
    """Return a statement without its remarks; None if it goes on, "" if it began before its first line."""
    texts, depth = list(rows), 0
    try:
        for token in tokenize.generate_tokens(io.StringIO("".join(rows)).readline):
            if token.type == tokenize.COMMENT:
                number, column = token.start
                texts[number - 1] = texts[number - 1][:column]
            elif token.type == tokenize.OP:
                depth += (token.string in "([{") - (token.string in ")]}")
            if depth < 0:
                return ""
    except (tokenize.TokenError, SyntaxError):
        return None
    return " ".join(filter(None, map(str.strip, texts)))
