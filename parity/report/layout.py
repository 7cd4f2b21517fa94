"""Lines of text for a terminal: aligned columns, tree guides, and ASCII if the encoding has nothing else."""

from __future__ import annotations

import contextlib
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ...runtime.errors import UsageError
from ...runtime.visible import shorten_names, visible_name, visible_text

Piece = tuple[str, str]  # text and rich style

GAP = 2
NARROWEST = 8  # characters that a column keeps when it is cut
ENOUGH = 28  # characters for tree and class below which the class is left out
_INSTALLED = re.compile(r"(?:[A-Za-z]:)?[^:]*?[/\\](?:site|dist)-packages[/\\]")
"""The beginning of the path of an installed file."""
_UNICODE = "├└│─…×✓✗≠"
_ASCII = str.maketrans(_UNICODE, "|`|-~x+!#")


@dataclass(frozen=True)
class Row:
    """One line of a tree: whether a sibling follows on each level, and its columns."""

    siblings_follow: tuple[bool, ...]
    columns: tuple[Piece, ...]

    @property
    def guides(self) -> str:
        """The tree guides before its first column."""
        if not self.siblings_follow:
            return ""
        outer = "".join("│  " if more else "   " for more in self.siblings_follow[:-1])
        return outer + ("├─ " if self.siblings_follow[-1] else "└─ ")


def tree_lines(heading: Sequence[str], rows: Sequence[Row], width: int, left: int = 2) -> list[Text]:
    """Return the rows under a heading, with the first `left` columns aligned left, the others right.

    The first two columns (tree and class) are shortened so that a line fits `width`. Empty columns are omitted, and so
    is the class if there is little room.
    """
    table = [[(text, "bold") for text in heading]]
    for row in rows:
        first, *others = ((visible_name(text), style) for text, style in row.columns)
        table.append([(row.guides + first[0], first[1]), *others])
    widths = [max(cell_len(line[i][0]) for line in table) for i in range(len(heading))]
    columns = [i for i in range(len(heading)) if i < left or any(row.columns[i][0] for row in rows)]
    spare = width - sum(widths[i] + GAP for i in columns[2:]) - GAP
    if widths[0] + widths[1] > spare:
        if spare < ENOUGH:
            columns.remove(1)
            widths[0] = max(NARROWEST, min(widths[0], spare + GAP))
        else:
            widths[1] = max(NARROWEST, min(widths[1], spare - widths[0]))
            widths[0] = min(widths[0], spare - widths[1])
    return [
        _line([line[i] for i in columns], [widths[i] for i in columns], [i < left for i in columns]) for line in table
    ]


def _line(pieces: Sequence[Piece], widths: Sequence[int], left_aligned: Sequence[bool]) -> Text:
    line = Text()
    for (text, style), width, is_left in zip(pieces, widths, left_aligned, strict=True):
        short = shorten(text, width)
        blank = " " * (width - cell_len(short))
        line.append(" " * GAP if line else "")
        line.append("" if is_left else blank)
        line.append(short, style)
        line.append(blank if is_left else "")
    line.rstrip()
    return line


def shorten(text: str, width: int) -> str:
    """Return `text`, with its end replaced by `…` if it is wider than `width`."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def shorten_path(text: str, width: int) -> str:
    """Return `text`, with its beginning replaced by `…` if it is wider than `width`: the end of a path matters."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def from_here(location: str) -> str:
    """Return a place in a file with its path relative to the working directory, or to the installed packages."""
    return _INSTALLED.sub("", location.removeprefix(f"{Path.cwd()}/"))


def paragraph(text: str, width: int, indent: int = 0, style: str = "") -> list[Text]:
    """Wrap `text` into lines of at most `width` with a hanging indent of two, and shorten long names."""
    first = " " * indent
    wrapped = textwrap.wrap(
        shorten_names(text),
        max(width, indent + 20),
        initial_indent=first,
        subsequent_indent=first + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [Text(line, style) for line in wrapped]


def print_lines(lines: Sequence[Text], console: Console) -> None:
    """Print lines without wrapping or highlighting; in ASCII if the console's encoding has nothing else."""
    with _output_errors():
        for line in lines:
            safe = _encodable(line, console.encoding)
            console.print(safe, soft_wrap=True, highlight=False, markup=False, emoji=False)


def plain_text(lines: Sequence[Text]) -> str:
    """Return lines as plain text, with invisible characters made visible."""
    return "\n".join(visible_name(line.plain.rstrip()) for line in lines)


def echo(text: str, err: bool = False) -> None:
    """Print a text on stdout or stderr, with invisible characters made visible and long names shortened."""
    stream = sys.stderr if err else sys.stdout
    with _output_errors():
        click.echo(encodable(shorten_names(visible_text(text)), getattr(stream, "encoding", None) or "utf-8"), err=err)


@contextlib.contextmanager
def _output_errors() -> Iterator[None]:
    """Within the context, raise `UsageError` if output can't be written, except for a closed pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"can't write the output: {error.strerror or error}") from error


def _encodable(line: Text, encoding: str) -> Text:
    safe = line.copy()
    safe.plain = encodable(visible_name(line.plain), encoding)
    return safe


def encodable(text: str, encoding: str) -> str:
    """Return `text` with characters that an encoding lacks replaced: guides and marks by ASCII, others by `?`."""
    try:
        _UNICODE.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII)
    return text.encode(encoding, "replace").decode(encoding)
