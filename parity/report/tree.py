"""The Cell tree of a report as the lines that are worth reading: what passes is collapsed, what fails is laid open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..results import FAIL, INLINED, NOT_REACHED, PASS, SKIPPED, UNPAIRED, CellReport, Report

AFFECTED = "affected"  # fails end to end only, by the fault of other Cells
ROOM = 24  # lines that are read at a glance
FEWEST = 5  # siblings that are worth a group


@dataclass
class Branch:
    """A Cell and those inside it. `label` is its path within the one above: `layers.0` where `layers` is no Cell."""

    path: str
    label: str
    children: list[Branch] = field(default_factory=list)

    def inside(self) -> Iterator[str]:
        """Its path and those of all Cells inside, parents before children."""
        waiting = [self]
        while waiting:
            branch = waiting.pop()
            yield branch.path
            waiting += reversed(branch.children)


@dataclass
class Line:
    """One line: a Cell, or several that share a verdict.

    Attributes:
        followed: for each level, whether a sibling follows.
        label: path within the line above it.
        cells: those that the line stands for; the first one names the class.
        verdict: a status of `results`, or AFFECTED; of those that were reached, if any was.
    """

    followed: tuple[bool, ...]
    label: str
    cells: list[CellReport]
    verdict: str


def forest(paths: Iterable[str]) -> list[Branch]:
    """The branches that have none above them (the root, mostly). `paths`: parents before children."""
    top: list[Branch] = []
    known: dict[str, Branch] = {}
    for path in paths:
        above = path
        while above and (above := above.rpartition(".")[0]) not in known:
            pass
        parent = known.get(above) if path else None
        label = path[len(above) + 1 :] if parent is not None and above else path
        known[path] = Branch(path, label or ("(no name)" if path else "(root)"))
        (top if parent is None else parent.children).append(known[path])
    return top


def verdicts(report: Report) -> dict[str, str]:
    """By path, the status of each Cell, or AFFECTED if it fails without being at fault itself."""
    failing = set(report.failing)
    return {
        path: AFFECTED if cell.status == FAIL and path not in failing else cell.status
        for path, cell in report.cells.items()
    }


def tree(report: Report, everything: bool = False) -> list[Line]:
    """The lines of the tree; `everything` collapses nothing.

    Branches that are all well are collapsed below the root, or, where the whole tree is well, at the deepest level at
    which it still fits a screen; numbered siblings of one class that are all well are collapsed to one line.
    """
    drawn = _Tree(report)
    if everything:
        return list(drawn.lines(depth=None))
    lines = list(drawn.lines(depth=1))
    if set(drawn.verdicts.values()) - {PASS, INLINED, NOT_REACHED, UNPAIRED}:
        return lines
    for depth in range(2, 2 + max((path.count(".") for path in report.cells), default=0)):
        deeper = list(drawn.lines(depth))
        if len(deeper) > ROOM:
            break
        lines = deeper
    return lines


class _Tree:
    def __init__(self, report: Report) -> None:
        self.cells = report.cells
        self.verdicts = verdicts(report)
        self.top = forest(report.cells)
        self.shared: dict[str, str | None] = {}

    def lines(self, depth: int | None) -> Iterator[Line]:
        """`depth`: the level from which branches that are all well are collapsed; None for never."""
        return self._lines(self.top, None, depth)

    def _lines(self, branches: list[Branch], above: tuple[bool, ...] | None, depth: int | None) -> Iterator[Line]:
        """`above`: `followed` of the line above, None at the top."""
        level = 0 if above is None else len(above) + 1
        groups = [[branch] for branch in branches] if depth is None else self._grouped(branches)
        for number, group in enumerate(groups):
            first, last = group[0], group[-1]
            followed = () if above is None else (*above, number < len(groups) - 1)
            together = self._together(first)
            if together and (len(group) > 1 or (depth is not None and level >= depth)):
                label = first.label if first is last else f"{first.label} … {_number(last.label)[1]}"
                cells = [self.cells[path] for branch in group for path in branch.inside()]
                yield Line(followed, label, cells, together)
            else:
                yield Line(followed, first.label, [self.cells[first.path]], self.verdicts[first.path])
                yield from self._lines(first.children, followed, depth)

    def _together(self, branch: Branch) -> str | None:
        """The one verdict that stands for the whole branch, or None if it has to be laid open."""
        if branch.path not in self.shared:
            inside = {self.verdicts[path] for path in branch.inside()}
            found = SKIPPED if inside == {SKIPPED} else None
            if inside <= {PASS, INLINED, AFFECTED, NOT_REACHED, UNPAIRED}:
                found = next(each for each in (AFFECTED, PASS, INLINED, UNPAIRED, NOT_REACHED) if each in inside)
            self.shared[branch.path] = found
        return self.shared[branch.path]

    def _grouped(self, branches: list[Branch]) -> list[list[Branch]]:
        """Runs of numbered siblings with one class and one verdict together; others alone."""
        groups: list[list[Branch]] = []
        for branch in branches:
            if groups and self._continues(groups[-1][-1], branch):
                groups[-1].append(branch)
            else:
                groups.append([branch])
        return [part for group in groups for part in ([group] if len(group) >= FEWEST else [[b] for b in group])]

    def _continues(self, one: Branch, other: Branch) -> bool:
        (name, number), (other_name, other_number) = _number(one.label), _number(other.label)
        return (
            name == other_name
            and number is not None
            and other_number == number + 1
            and self.cells[one.path].class_name == self.cells[other.path].class_name
            and self._together(one) is not None
            and self._together(one) == self._together(other)
        )


def _number(label: str) -> tuple[str, int | None]:
    """`("layers.", 3)` for `layers.3`; None for a label that doesn't end in a number."""
    match = re.fullmatch(r"(.*?)(\d+)", label)
    return (match[1], int(match[2])) if match else (label, None)
