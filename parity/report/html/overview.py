"""The overview of several comparisons: `index.html`, which lists their verdicts and links to their pages."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from ...results.comparison import FAIL, NOT_COMPARED, NOT_KNOWN, REFERENCE_WRONG
from ...results.origin import Origin
from ...support.files import write_in_folder
from ...support.times import time_in_words
from . import writer
from .page import MARKS, Page

INDEX = "index.html"
LONGEST = 100  # characters of a name in the name of its page


@dataclass(frozen=True)
class Summary:
    """A line of the overview.

    Attributes:
        model: what was compared, as the user named it.
        outcome: that of its page, or "not judged".
        verdict: the verdict in words; for "not judged" the reason.
        failing: number of Cells (of a training: tensors) that fail, of how many; empty if unknown.
        cause: the first cause that was proved, or else the first finding; empty if nothing fails.
        seconds: the time that the comparison took.
        page: name of the file of its page, in the folder of the overview; empty if there is none.
    """

    model: str
    outcome: Literal["holds", "fails", "unclear", "not judged"]
    verdict: str
    failing: str = ""
    cause: str = ""
    seconds: float = 0.0
    page: str = ""

    @classmethod
    def of(cls, page: Page, model: str, seconds: float, file: str = "") -> Summary:
        """Return the summary of a page."""
        judged = [row for row in page.rows if row.comparisons]
        failing = sum(row.verdict in (FAIL, NOT_COMPARED, NOT_KNOWN, REFERENCE_WRONG) for row in judged)
        noun = page.noun[0] if len(judged) == 1 else page.noun[1]
        first = next(iter(page.faults), None)
        cause = "" if first is None else first.causes[0].in_words if first.causes else first.summary
        where = "" if first is None else f"{first.path}: "
        return cls(
            model, page.outcome, page.verdict, f"{failing} of {len(judged)} {noun}", where + cause, seconds, file
        )

    @property
    def mark(self) -> str:
        """The sign of the outcome."""
        return MARKS[self.outcome]

    @property
    def link(self) -> str:
        """The address of its page within the folder."""
        return quote(self.page)

    @property
    def time(self) -> str:
        """The time in words."""
        return time_in_words(self.seconds)


def write(summaries: Sequence[Summary], origin: Origin, folder: Path) -> None:
    """Write the overview to a folder, the worst first; raise `UsageError` if that fails."""
    counts = {outcome: sum(summary.outcome == outcome for summary in summaries) for outcome in MARKS}
    words = {"holds": "hold", "fails": "fail", "unclear": "are unclear", "not judged": "couldn't be judged"}
    singular = words | {"holds": "holds", "fails": "fails", "unclear": "is unclear"}
    parts = [f"{count} {(singular if count == 1 else words)[outcome]}" for outcome, count in counts.items() if count]
    worst = next((outcome for outcome in MARKS if counts[outcome]), "holds")
    html = writer.render(
        "overview.html",
        (),
        heading=", ".join(parts) or "Nothing was compared",
        worst=worst,
        mark=MARKS[worst],
        facts=origin.facts,
        summaries=sorted(summaries, key=lambda summary: list(MARKS).index(summary.outcome)),
    )
    write_in_folder(folder, INDEX, html)


def page_name(model: str, existing: Collection[str] = ()) -> str:
    """Return the name of a model's page: readable, a file name on every system, and none of those that are taken."""
    readable = re.sub(r"[^A-Za-z0-9_.-]+", ".", model).strip(".")[-LONGEST:] or "model"
    numbers = range(2, len(existing) + 3)
    names = [f"{readable}.html", *(f"{readable}-{number}.html" for number in numbers)]
    lower = {name.lower() for name in existing} | {INDEX}
    return next(name for name in names if name.lower() not in lower)
