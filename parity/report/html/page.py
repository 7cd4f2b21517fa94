"""`Page`: what the HTML view shows of a report, whatever was compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

from ....runtime.visible import shorten_names, visible_name, visible_text
from ...results.cause import Cause
from ...results.cell_graph import CellGraph
from ...results.comparison import FAIL, NOT_COMPARED, NOT_KNOWN, PASS, Comparison
from ..multiples import worst_in_words
from .side_by_side import HunkView, PairingTable

MARKS = {"fails": "✗", "not judged": "?", "unclear": "!", "holds": "✓"}
"""The sign of each outcome, the worst first; what isn't judged has no page, and a line of an overview alone."""
MANY = 20_000
"""Up to this many comparisons that pass, and as many that fail, a page shows every one; see `thin_out`."""
SHARE_WIDTH = 100
"""Length of the longest bar of a table of shares."""


@dataclass(frozen=True)
class Column:
    """A column of the heat map: what it shows, of which side, and the kinds of tensors that belong to it."""

    side: str
    name: str
    kinds: tuple[str, ...]

    def worst(self, comparisons: Sequence[Comparison]) -> float | str | None:
        """The largest error in units of the bar; "?" if nothing could be compared, None if there is nothing."""
        of_column = self._of(comparisons)
        fractions = [fraction for c in of_column if (fraction := fraction_of_bar(c)) is not None]
        return max(fractions) if fractions else "?" if of_column else None

    def words(self, comparisons: Sequence[Comparison]) -> str:
        """The largest error as the terminal writes it; empty if there is nothing."""
        return worst_in_words(self._of(comparisons))[0]

    def _of(self, comparisons: Sequence[Comparison]) -> list[Comparison]:
        return [c for c in comparisons if c.side == self.side and c.kind in self.kinds]


@dataclass
class Row:
    """A row of the heat map, with what is shown when it is opened.

    Attributes:
        path: its path, shown in full where rows aren't nested; the page's address of the row ends with it.
        label: its path within its parent.
        parent: number of the row that it is inside; None at the top.
        verdict: a status of `results`, or AFFECTED.
        class_name: class of the Cell; empty for a tensor.
        port: the Cell that is its port, or that it is paired with, in words; empty if there is none.
        calls: number of calls of the Cell.
        values: for each column, the largest error in units of the bar.
        words: for each column, the same as the terminal writes it.
        causes: what was proved to make it fail.
        wrong_side: the side whose gradients are wrong, in words; empty if unknown.
        explanations: known differences of the APIs that apply.
        comparisons: in the order in which they are shown.
        left_out: number of comparisons that aren't shown.
        graph: its program, to draw; None if it isn't known.
        lines: the lines of both sides that compute what differs; None if they aren't known.
        lines_of_causes: the same for each cause.
    """

    path: str
    label: str
    parent: int | None
    verdict: str
    class_name: str = ""
    port: str = ""
    calls: int = 1
    values: list[float | str | None] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    explanations: list[str] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    left_out: int = 0
    wrong_side: str = ""
    graph: CellGraph | None = None
    lines: HunkView | None = None
    lines_of_causes: Sequence[HunkView | None] = ()


@dataclass(frozen=True)
class Fault:
    """A finding at the top of the page.

    Attributes:
        path: path of its row.
        class_name: class of the Cell; empty for a tensor.
        summary: the most important comparison that fails, in words.
        alike: the other rows with the same fault, in words; empty if there are none.
        causes: what was proved to cause it.
        wrong_side: as in `Row`.
        explanations: what may have caused it, where nothing is proved.
        source: `file:line: text`; empty if unknown.
        pair: the Cell that it is paired with, and how, in words; empty where that is no matter of pairing.
        hunks: for each cause, its lines of both sides, None for one with those of the cause before; without causes, the
            lines of what differs, if they are known.
    """

    path: str
    class_name: str
    summary: str
    alike: str = ""
    causes: Sequence[Cause] = ()
    explanations: Sequence[str] = ()
    source: str = ""
    wrong_side: str = ""
    pair: str = ""
    hunks: Sequence[HunkView | None] = ()

    @property
    def has_hunk(self) -> bool:
        """Whether there are lines of both sides."""
        return any(hunk is not None for hunk in self.hunks)

    @property
    def link(self) -> str:
        """The address of the row within the page."""
        return link_to(self.path)


@dataclass(frozen=True)
class Curve:
    """One line of a chart: its name and a value for each step; None where there is none."""

    name: str
    values: list[float | None]


@dataclass(frozen=True)
class Chart:
    """A chart over the steps of a training run; `in_bars` says that its values are errors in units of the bar."""

    title: str
    curves: list[Curve]
    in_bars: bool
    differing: int | None


@dataclass(frozen=True)
class ShareLine:
    """A line of the table.

    Attributes:
        name: path of the Cell, or what else the share is of.
        link: address of the Cell's row; empty if it has none.
        value: the share, as a number.
        percent: the share relative to the sizes of all lines together, negative where it cancels some of the others.
        width: length of its bar, `SHARE_WIDTH` for the largest.
        adds: whether it has the sign of the whole error; others cancel some of it.
    """

    name: str
    link: str
    value: str
    percent: str
    width: float
    adds: bool


@dataclass(frozen=True)
class SharesTable:
    """The shares of one side.

    Attributes:
        side: the side that fails.
        error: the whole error, in words.
        lines: the largest shares first, then the sum of the others, and what isn't explained.
    """

    side: str
    error: str
    lines: list[ShareLine]


@dataclass(frozen=True)
class CostLine:
    """A line of the table of what 8 bits cost: a Cell, and its numbers as text; `width` is that of its bar."""

    name: str
    link: str
    outputs: str
    share: str
    loss: str
    weights: str
    width: float


@dataclass(frozen=True)
class FileLine:
    """A line of the table of files: what is in float32, and its numbers as text; `chosen` for the one that is kept."""

    name: str
    title: str
    size: str
    time: str
    outputs: str
    top1: str
    loss: str
    chosen: bool


@dataclass(frozen=True)
class CostsTable:
    """What fewer bits cost.

    Attributes:
        bits: of weights.
        caption: what was measured, in words.
        lines: the Cells that cost most first.
        files: the float32 file, that with all Cells in 8 bits, and those that were tried for a budget.
    """

    bits: int
    caption: str
    lines: list[CostLine]
    files: list[FileLine]


@dataclass(frozen=True)
class Page:
    """What the page shows.

    Attributes:
        model: what was compared.
        outcome: "holds", "fails", or "unclear" where nothing fails and parity isn't shown.
        verdict: the verdict in words.
        facts: names and values of what was compared and how.
        notes: remarks for the reader.
        reference: name of the side that the others are compared with.
        tolerance: the tolerance that replaces the computed bars, in words; empty without one.
        legend: what the numbers of the heat map mean.
        noun: what a row is, in the singular and plural.
        columns: columns of the heat map.
        rows: rows of the heat map, parents before children.
        faults: the findings, the most important first.
        more_faults: number of findings that aren't among `faults`.
        charts: charts over the steps.
        shares: how much each Cell contributes to the error of the network, by side.
        pairing: what was paired how; None where that is a matter of paths.
        costs: what 8 bits cost; None if that wasn't measured.
        travel: by side, the relative error of each Cell end to end, in the order in which they return.
        in_order: whether rows within a row are in the order of their first calls, where they were called.
    """

    model: str
    outcome: Literal["holds", "fails", "unclear"]
    verdict: str
    facts: list[tuple[str, str]]
    notes: list[str]
    reference: str
    legend: str
    noun: tuple[str, str]
    columns: list[Column]
    rows: list[Row]
    faults: list[Fault] = field(default_factory=list)
    more_faults: int = 0
    tolerance: str = ""
    charts: list[Chart] = field(default_factory=list)
    shares: Sequence[SharesTable] = ()
    costs: CostsTable | None = None
    pairing: PairingTable | None = None
    travel: dict[str, dict[str, float]] = field(default_factory=dict)
    in_order: bool = False

    @property
    def mark(self) -> str:
        """The sign of the outcome."""
        return MARKS[self.outcome]

    @property
    def left_out(self) -> int:
        """Number of comparisons that the page doesn't show."""
        return sum(row.left_out for row in self.rows)


def fraction_of_bar(c: Comparison) -> float | None:
    """Return the error in units of the bar; infinite if it can't be measured but fails, None if there is no bar.

    The steps that a quantized value is off by have none of their own.
    """
    if c.status in (NOT_COMPARED, NOT_KNOWN) or (c.kind == "quantizer" and c.status == PASS and not c.allowed):
        return None
    fraction = c.ratio / c.allowed if c.allowed else c.ratio
    return math.inf if math.isnan(fraction) or (c.status == FAIL and fraction <= 1) else fraction


def thin_out(rows: Sequence[Row]) -> None:
    """Where very many comparisons pass, or very many fail, keep the worst of them for each row, side and kind."""
    for passing in (True, False):
        if sum((c.status == PASS) == passing for row in rows for c in row.comparisons) <= MANY:
            continue
        for row in rows:
            worst: dict[tuple[str, str], Comparison] = {}
            for c in row.comparisons:
                key = c.side, c.kind
                if (c.status == PASS) == passing and (key not in worst or c.severity > worst[key].severity):
                    worst[key] = c
            kept = {id(c) for c in worst.values()}
            shown = [c for c in row.comparisons if (c.status == PASS) != passing or id(c) in kept]
            row.left_out += len(row.comparisons) - len(shown)
            row.comparisons = shown


def link_to(path: str) -> str:
    """Return the address of a row within the page."""
    return "#cell=" + quote(visible(path))


def visible(text: str) -> str:
    """Return a text as the page shows it: on one line, nothing invisible in it, and very long names abbreviated."""
    return shorten_names(visible_name(text))


def visible_lines(text: str) -> str:
    """Like `visible`, but keep newlines."""
    return shorten_names(visible_text(text))
