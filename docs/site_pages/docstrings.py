"""Docstrings as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import Any

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Warns|Yields):$")


def markdown(value: Any, types: Mapping[str, str] | None = None) -> str:
    """A docstring as Markdown: its code is kept as it is, sections become lists, and all else is plain text.

    Args:
        value: what has the docstring.
        types: what to write behind the names of attributes, by name.
    """
    lines = (inspect.getdoc(value) or "").splitlines()
    parts: list[str] = []
    position = 0
    while position < len(lines):
        block = _block(lines, position)
        heading = SECTION.match(block[0])
        position += len(block)
        if heading:
            parts.append(f"**{heading[1]}**\n\n{_section(block[1:], types or {})}")
        elif block[0].startswith("    "):
            parts.append("```python\n" + textwrap.dedent("\n".join(block)).rstrip() + "\n```")
        elif any(line.strip() for line in block):
            parts.append(plain("\n".join(block).strip()))
    return "\n\n".join(parts)


def _block(lines: list[str], start: int) -> list[str]:
    """The lines from one on that belong together: a section, an indented example, or paragraphs."""
    if SECTION.match(lines[start]):
        end = start + 1
        while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
            end += 1
        return lines[start:end]
    indented = lines[start].startswith("    ")
    end = start + 1
    while end < len(lines) and not SECTION.match(lines[end]):
        if lines[end] and lines[end].startswith("    ") != indented and (indented or not lines[end - 1]):
            break
        end += 1
    return lines[start:end]


def _section(lines: list[str], types: Mapping[str, str]) -> str:
    """The entries of a section as a list."""
    entries: list[str] = []
    for line in textwrap.dedent("\n".join(lines)).strip().splitlines():
        if line.startswith(" ") and entries:
            entries[-1] += " " + line.strip()
        elif line:
            entries.append(line)
    listed = []
    for entry in entries:
        name = re.match(r"(\*{0,2}[\w., ]{1,60}):\s+(.*)", entry, re.DOTALL)
        kind = f" ({types[name[1]]})" if name and name[1] in types else ""
        listed.append(f"- `{name[1]}`{kind}: {plain(name[2])}" if name else f"- {plain(entry)}")
    return "\n".join(listed)


def plain(text: str) -> str:
    """Text in which nothing but code between backticks means anything to Markdown."""
    pieces = re.split(r"(`[^`\n]+`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([\\*_\[\]<>{}$|#~])", r"\\\1", piece) for piece in pieces
    )
