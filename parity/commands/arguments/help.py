"""The text of `--help`: options under the titles of their groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from .declaring import GroupedOption

LAST = ("Reports", "Limits", "Other")
"""Titles that come last, in this order."""
_COLUMN = 24
"""Characters for options; the text of a longer one begins on the next line."""

_HYPHEN = "\N{NON-BREAKING HYPHEN}"


class HelpFormatter(click.HelpFormatter):
    """Breaks no line within `--no-probe`."""

    def write_text(self, text: str) -> None:
        """Write a paragraph."""
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], *args: Any, **keywords: Any) -> None:
        """Write names and texts."""
        super().write_dl([(name, text.replace("-", _HYPHEN)) for name, text in rows], *args, **keywords)

    def getvalue(self) -> str:
        """Return the text."""
        return super().getvalue().replace(_HYPHEN, "-")


class Context(click.Context):
    """The context of a command."""

    formatter_class = HelpFormatter


def write_options(options: Iterable[click.Parameter], ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """Write options in sections by title, in the order of their first options."""
    sections: dict[str, list[tuple[str, str]]] = {}
    notes: dict[str, dict[str, None]] = {}
    for option in options:
        if not isinstance(option, click.Option):
            continue
        title = option.group.title if isinstance(option, GroupedOption) else LAST[-1]
        if record := option.get_help_record(ctx):
            sections.setdefault(title, []).append((record[0].ljust(_COLUMN), record[1]))
            if isinstance(option, GroupedOption) and option.group.note:
                notes.setdefault(title, {})[option.group.note] = None
    for title in sorted(sections, key=lambda title: LAST.index(title) if title in LAST else -1):
        with formatter.section(title):
            for note in notes.get(title, {}):
                formatter.write_text(note)
                formatter.write_paragraph()
            formatter.write_dl(sections[title], col_max=_COLUMN)
