"""New measurements against the last ones: a ratio that got worse by more than its noise is a regression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

RANGES = ("range of ratios", "range")
TIMES = 3  # columns before the range: ours, the peer's, the ratio
LOWER_IS_BETTER = "ratio"  # ours / peer; other ratios are speedups


@dataclass(frozen=True)
class Ratio:
    """A ratio as a table shows it: the median over the turns, and the least and the largest."""

    median: float
    least: float
    largest: float
    lower_is_better: bool

    def is_worse_than(self, before: Ratio) -> bool:
        """Whether each median is outside the other's range, and this one on the worse side."""
        outside = not before.least <= self.median <= before.largest and not self.least <= before.median <= self.largest
        return outside and (self.median > before.median) == self.lower_is_better


def slower_rows(before: str, now: str) -> list[str]:
    """Return a sentence for each row of the tables of a section that got slower than it was before."""
    ratios = dict(_ratios(before))
    return [
        f"{name}: {ratio.median:.2f} ({ratio.least:.2f} to {ratio.largest:.2f}), before {ratios[name].median:.2f} "
        f"({ratios[name].least:.2f} to {ratios[name].largest:.2f})"
        for name, ratio in _ratios(now)
        if name in ratios and ratio.is_worse_than(ratios[name])
    ]


def _ratios(section: str) -> Iterator[tuple[str, Ratio]]:
    """Yield the ratios of Markdown tables by the names of their rows: what stands before the times."""
    columns: list[str] = []
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if not columns:
            columns = cells
        elif not cells:
            columns = []
        column = next((columns.index(name) for name in RANGES if name in columns), None)
        if column is None or len(cells) != len(columns) or " to " not in cells[column]:
            continue
        least, _, largest = cells[column].partition(" to ")
        lower_is_better = columns[column - 1] == LOWER_IS_BETTER
        yield (
            ", ".join(cells[: column - TIMES]),
            Ratio(float(cells[column - 1]), float(least), float(largest), lower_is_better),
        )
