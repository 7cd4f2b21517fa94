"""Lines of text for a terminal: aligned columns, tree guides, and plain characters where the encoding has no others."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
_UNICODE = "├└│─…×✓✗≠"
_ASCII = str.maketrans(_UNICODE, "|`|-~x+!#")


@dataclass(frozen=True)
class Row:
    """One line of a tree: how deep it is, whether a sibling follows on each level, and its columns."""

    followed: tuple[bool, ...]
    columns: tuple[Piece, ...]

    @property
    def guides(self) -> str:
        """The lines that lead to it from its ancestors."""
        if not self.followed:
            return ""
        outer = "".join("│  " if more else "   " for more in self.followed[:-1])
        return outer + ("├─ " if self.followed[-1] else "└─ ")


def tree_lines(heading: Sequence[str], rows: Sequence[Row], width: int, left: int = 2) -> list[Text]:
    """The rows under a heading: `left` columns aligned to the left, the others to the right.

    The first two columns (tree and class) are cut so that a line fits `width`. Columns without content are left out,
    and so is the class where little room is left.
    """
    table = [[(text, "bold") for text in heading]]
    for row in rows:
        first, *others = ((visible_name(text), style) for text, style in row.columns)
        table.append([(row.guides + first[0], first[1]), *others])
    widths = [max(cell_len(line[i][0]) for line in table) for i in range(len(heading))]
    used = [i for i in range(len(heading)) if i < left or any(row.columns[i][0] for row in rows)]
    spare = width - sum(widths[i] + GAP for i in used[2:]) - GAP
    if widths[0] + widths[1] > spare:
        if spare < ENOUGH:
            used.remove(1)
            widths[0] = max(NARROWEST, min(widths[0], spare + GAP))
        else:
            widths[1] = max(NARROWEST, min(widths[1], spare - widths[0]))
            widths[0] = min(widths[0], spare - widths[1])
    return [_line([line[i] for i in used], [widths[i] for i in used], [i < left for i in used]) for line in table]


def _line(pieces: Sequence[Piece], widths: Sequence[int], to_the_left: Sequence[bool]) -> Text:
    line = Text()
    for (text, style), width, is_left in zip(pieces, widths, to_the_left, strict=True):
        cut = shortened(text, width)
        blank = " " * (width - cell_len(cut))
        line.append(" " * GAP if line else "")
        line.append("" if is_left else blank)
        line.append(cut, style)
        line.append(blank if is_left else "")
    line.rstrip()
    return line


def shortened(text: str, width: int) -> str:
    """`text`, with its end replaced by `…` if it is wider than `width`."""
    return text if cell_len(text) <= width else set_cell_size(text, max(width - 1, 0)).rstrip() + "…"


def shortened_path(text: str, width: int) -> str:
    """`text`, with its beginning replaced by `…` if it is wider than `width`: the end of a path says most."""
    return text if len(text) <= width else "…" + text[len(text) - width + 1 :]


def paragraph(text: str, width: int, indent: int = 0, style: str = "") -> list[Text]:
    """`text` broken at spaces into lines of at most `width`, continued two columns further in; long names shortened."""
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


def show(lines: Sequence[Text], console: Console) -> None:
    """Print lines as they are: nothing wrapped or highlighted; in ASCII where the console has no other characters."""
    with _written():
        for line in lines:
            shown = _encodable(line, console.encoding)
            console.print(shown, soft_wrap=True, highlight=False, markup=False, emoji=False)


def plain(lines: Sequence[Text]) -> str:
    """Lines as plain text, made visible."""
    return "\n".join(visible_name(line.plain.rstrip()) for line in lines)


def echo(text: str, err: bool = False) -> None:
    """Print a text on stdout or stderr: made visible, long names shortened, in the characters that the stream has."""
    stream = sys.stderr if err else sys.stdout
    with _written():
        click.echo(encodable(shorten_names(visible_text(text)), getattr(stream, "encoding", None) or "utf-8"), err=err)


@contextlib.contextmanager
def _written() -> Iterator[None]:
    """`UsageError` where output can't be written, unless it is because nobody reads it."""
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
    """`text` in the characters that an encoding has: lines and marks in ASCII, what else it lacks as `?`."""
    try:
        _UNICODE.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_ASCII)
    return text.encode(encoding, "replace").decode(encoding)
