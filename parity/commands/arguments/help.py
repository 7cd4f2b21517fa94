"""The text of `--help`: options under the titles of their groups."""

from __future__ import annotations

from collections.abc import Iterable

import click

from .declaring import GroupedOption

LAST = ("Limits", "Other")
"""Titles that come last, in this order."""
_COLUMN = 24
"""Characters for options; the text of a longer one begins on the next line."""


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
    for title in sorted(sections, key=lambda one: LAST.index(one) if one in LAST else -1):
        with formatter.section(title):
            for note in notes.get(title, {}):
                formatter.write_text(note)
                formatter.write_paragraph()
            formatter.write_dl(sections[title], col_max=_COLUMN)
