"""The Cell tree of a report as lines: passing branches are collapsed, failing ones expanded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..results.cell_report import CellReport
from ..results.comparison import AFFECTED, INLINED, NOT_REACHED, PASS, PASSED_ON, SKIPPED, UNPAIRED
from ..results.network_result import NetworkResult

ROOM = 24  # lines that can be read at a glance
COLLAPSED = (AFFECTED, PASS, PASSED_ON, INLINED, UNPAIRED, NOT_REACHED)
"""The verdicts of a branch that is collapsed to one line, which has the first of them that is inside."""
MIN_SIBLINGS = 5  # siblings that form a group


Form = tuple[str, str, tuple[Any, ...]]  # class, verdict, and labels and forms of the children


@dataclass
class Branch:
    """A Cell and those inside it. `label` is its path within its parent: `layers.0` if `layers` isn't a Cell."""

    path: str
    label: str
    children: list[Branch] = field(default_factory=list)

    def inside(self) -> Iterator[str]:
        """Yield its path and those of all Cells inside, parents before children."""
        waiting = [self]
        while waiting:
            branch = waiting.pop()
            yield branch.path
            waiting += reversed(branch.children)


@dataclass
class Line:
    """One line: a Cell, or several with the same verdict.

    Attributes:
        siblings_follow: for each level, whether a sibling follows.
        label: path within the parent line.
        cells: the Cells of the line; the class of the first is shown.
        verdict: a status of `results`, or AFFECTED; that of the Cells that were reached, if there are any.
    """

    siblings_follow: tuple[bool, ...]
    label: str
    cells: list[CellReport]
    verdict: str


def forest(paths: Iterable[str]) -> list[Branch]:
    """Return the branches without a parent (usually only the root) for paths with parents before children."""
    top: list[Branch] = []
    branches: dict[str, Branch] = {}
    for path in paths:
        above = path
        while above and (above := above.rpartition(".")[0]) not in branches:
            pass
        parent = branches.get(above) if path else None
        label = path[len(above) + 1 :] if parent is not None and above else path
        branches[path] = Branch(path, label or ("(no name)" if path else "(root)"))
        (top if parent is None else parent.children).append(branches[path])
    return top


def tree(report: NetworkResult, everything: bool = False) -> list[Line]:
    """Return the lines of the tree; `everything` collapses nothing.

    Passing branches are collapsed below the root, or, if the whole tree passes, at the deepest level that still fits a
    screen. Numbered siblings of one class that pass are collapsed to one line, and siblings in which the same Cells
    fail are expanded once.
    """
    builder = _Tree(report)
    if everything:
        return list(builder.lines(depth=None))
    lines = list(builder.lines(depth=1))
    if AFFECTED in builder.verdicts.values() or set(builder.verdicts.values()) - {*COLLAPSED}:
        return lines
    for depth in range(2, 2 + max((path.count(".") for path in report.cells), default=0)):
        deeper = list(builder.lines(depth))
        if len(deeper) > ROOM:
            break
        lines = deeper
    return lines


class _Tree:
    def __init__(self, report: NetworkResult) -> None:
        self.cells = report.cells
        self.verdicts = report.verdicts
        self.top = forest(report.cells)
        self.common_verdicts: dict[str, str | None] = {}
        self.forms: dict[str, Form] = {}

    def lines(self, depth: int | None) -> Iterator[Line]:
        """Yield the lines; passing branches are collapsed from level `depth` on, or never for None."""
        return self._lines([[branch] for branch in self.top], None, depth)

    def _lines(self, stacks: list[list[Branch]], above: tuple[bool, ...] | None, depth: int | None) -> Iterator[Line]:
        """Yield the lines of siblings, each stacked with the branches of the same form elsewhere.

        `above` is `siblings_follow` of the parent line, None at the top.
        """
        level = 0 if above is None else len(above) + 1
        groups = [[stack] for stack in stacks] if depth is None else self._group(stacks)
        for number, group in enumerate(groups):
            first, last = group[0][0], group[-1][0]
            branches = [branch for stack in group for branch in stack]
            siblings_follow = () if above is None else (*above, number < len(groups) - 1)
            label = first.label if first is last else f"{first.label} … {_number(last.label)[1]}"
            common = self._common_verdict(first)
            if common and (len(branches) > 1 or (depth is not None and level >= depth)):
                verdicts_inside = {self._common_verdict(branch) for branch in branches}
                verdict = AFFECTED if AFFECTED in verdicts_inside else common
                yield Line(
                    siblings_follow, label, [self.cells[p] for branch in branches for p in branch.inside()], verdict
                )
            else:
                verdicts_inside = {self.verdicts[branch.path] for branch in branches}
                verdict = AFFECTED if AFFECTED in verdicts_inside else self.verdicts[first.path]
                yield Line(siblings_follow, label, [self.cells[branch.path] for branch in branches], verdict)
                children = zip(*(branch.children for branch in branches), strict=True)
                yield from self._lines([list(stack) for stack in children], siblings_follow, depth)

    def _common_verdict(self, branch: Branch) -> str | None:
        """The common verdict of the whole branch, or None if the branch must be expanded."""
        if branch.path not in self.common_verdicts:
            inside = {self.verdicts[path] for path in branch.inside()}
            verdict = SKIPPED if inside == {SKIPPED} else None
            if inside <= {*COLLAPSED}:
                verdict = next(verdict for verdict in COLLAPSED if verdict in inside)
            self.common_verdicts[branch.path] = verdict
        return self.common_verdicts[branch.path]

    def _group(self, stacks: list[list[Branch]]) -> list[list[list[Branch]]]:
        """Group runs of numbered siblings of the same form; other siblings stay alone."""
        groups: list[list[list[Branch]]] = []
        for stack in stacks:
            if groups and self._continues(groups[-1][-1][0], stack[0]):
                groups[-1].append(stack)
            else:
                groups.append([stack])
        return [part for group in groups for part in ([group] if len(group) >= MIN_SIBLINGS else [[s] for s in group])]

    def _continues(self, branch: Branch, other: Branch) -> bool:
        (name, number), (other_name, other_number) = _number(branch.label), _number(other.label)
        if name != other_name or number is None or other_number != number + 1:
            return False
        if (common := self._common_verdict(branch)) is not None:
            same_class = self.cells[branch.path].class_name == self.cells[other.path].class_name
            return same_class and common == self._common_verdict(other)
        return self._form(branch) == self._form(other)

    def _form(self, branch: Branch) -> Form:
        """Return a key that is equal for branches of the same Cells with the same verdicts; AFFECTED counts as PASS."""
        if branch.path not in self.forms:
            verdict = self.verdicts[branch.path]
            children = tuple((child.label, self._form(child)) for child in branch.children)
            form = self.cells[branch.path].class_name, PASS if verdict == AFFECTED else verdict, children
            self.forms[branch.path] = form
        return self.forms[branch.path]


def _number(label: str) -> tuple[str, int | None]:
    """Split a label: `("layers.", 3)` for `layers.3`; None if it doesn't end in a number."""
    match = re.fullmatch(r"(.*?)(\d+)", label)
    return (match[1], int(match[2])) if match else (label, None)
