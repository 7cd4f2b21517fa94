"""The Cell tree of a report as the lines that are worth reading: what passes is collapsed, what fails is laid open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..results.cell_report import CellReport
from ..results.comparison import FAIL, INLINED, NOT_REACHED, PASS, SKIPPED, UNPAIRED
from ..results.network_result import NetworkResult

AFFECTED = "affected"  # fails end to end only, by the fault of other Cells
ROOM = 24  # lines that are read at a glance
MIN_SIBLINGS = 5  # siblings that are worth a group


Form = tuple[str, str, tuple[Any, ...]]  # class, verdict, and labels and forms of the children


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


def verdicts(report: NetworkResult) -> dict[str, str]:
    """By path, the status of each Cell, or AFFECTED if it fails without being at fault itself."""
    failing = set(report.failing)
    return {
        path: AFFECTED if cell.status == FAIL and path not in failing else cell.status
        for path, cell in report.cells.items()
    }


def tree(report: NetworkResult, everything: bool = False) -> list[Line]:
    """The lines of the tree; `everything` collapses nothing.

    Branches that are all well are collapsed below the root, or, where the whole tree is well, at the deepest level at
    which it still fits a screen. Numbered siblings of one class that are all well are collapsed to one line, and those
    in which the same Cells fail are laid open once.
    """
    sampled = _Tree(report)
    if everything:
        return list(sampled.lines(depth=None))
    lines = list(sampled.lines(depth=1))
    if set(sampled.verdicts.values()) - {PASS, INLINED, NOT_REACHED, UNPAIRED}:
        return lines
    for depth in range(2, 2 + max((path.count(".") for path in report.cells), default=0)):
        deeper = list(sampled.lines(depth))
        if len(deeper) > ROOM:
            break
        lines = deeper
    return lines


class _Tree:
    def __init__(self, report: NetworkResult) -> None:
        self.cells = report.cells
        self.verdicts = verdicts(report)
        self.top = forest(report.cells)
        self.shared: dict[str, str | None] = {}
        self.forms: dict[str, Form] = {}

    def lines(self, depth: int | None) -> Iterator[Line]:
        """`depth`: the level from which branches that are all well are collapsed; None for never."""
        return self._lines([[branch] for branch in self.top], None, depth)

    def _lines(self, stacks: list[list[Branch]], above: tuple[bool, ...] | None, depth: int | None) -> Iterator[Line]:
        """The lines of siblings, each with those that are of its form elsewhere.

        `above`: `followed` of the line above, None at the top.
        """
        level = 0 if above is None else len(above) + 1
        groups = [[stack] for stack in stacks] if depth is None else self._grouped(stacks)
        for number, group in enumerate(groups):
            first, last = group[0][0], group[-1][0]
            branches = [branch for stack in group for branch in stack]
            followed = () if above is None else (*above, number < len(groups) - 1)
            label = first.label if first is last else f"{first.label} … {_number(last.label)[1]}"
            together = self._together(first)
            if together and (len(branches) > 1 or (depth is not None and level >= depth)):
                seen = {self._together(branch) for branch in branches}
                verdict = AFFECTED if AFFECTED in seen else together
                yield Line(followed, label, [self.cells[p] for branch in branches for p in branch.inside()], verdict)
            else:
                seen = {self.verdicts[branch.path] for branch in branches}
                verdict = AFFECTED if AFFECTED in seen else self.verdicts[first.path]
                yield Line(followed, label, [self.cells[branch.path] for branch in branches], verdict)
                children = zip(*(branch.children for branch in branches), strict=True)
                yield from self._lines([list(stack) for stack in children], followed, depth)

    def _together(self, branch: Branch) -> str | None:
        """The one verdict that stands for the whole branch, or None if it has to be laid open."""
        if branch.path not in self.shared:
            inside = {self.verdicts[path] for path in branch.inside()}
            found = SKIPPED if inside == {SKIPPED} else None
            if inside <= {PASS, INLINED, AFFECTED, NOT_REACHED, UNPAIRED}:
                found = next(each for each in (AFFECTED, PASS, INLINED, UNPAIRED, NOT_REACHED) if each in inside)
            self.shared[branch.path] = found
        return self.shared[branch.path]

    def _grouped(self, stacks: list[list[Branch]]) -> list[list[list[Branch]]]:
        """Runs of numbered siblings of one form together; others alone."""
        groups: list[list[list[Branch]]] = []
        for stack in stacks:
            if groups and self._continues(groups[-1][-1][0], stack[0]):
                groups[-1].append(stack)
            else:
                groups.append([stack])
        return [part for group in groups for part in ([group] if len(group) >= MIN_SIBLINGS else [[s] for s in group])]

    def _continues(self, one: Branch, other: Branch) -> bool:
        (name, number), (other_name, other_number) = _number(one.label), _number(other.label)
        if name != other_name or number is None or other_number != number + 1:
            return False
        if (together := self._together(one)) is not None:
            same_class = self.cells[one.path].class_name == self.cells[other.path].class_name
            return same_class and together == self._together(other)
        return self._form(one) == self._form(other)

    def _form(self, branch: Branch) -> Form:
        """What is equal for branches of the same Cells with the same verdicts; affected is as good as passed."""
        if branch.path not in self.forms:
            verdict = self.verdicts[branch.path]
            children = tuple((child.label, self._form(child)) for child in branch.children)
            form = self.cells[branch.path].class_name, PASS if verdict == AFFECTED else verdict, children
            self.forms[branch.path] = form
        return self.forms[branch.path]


def _number(label: str) -> tuple[str, int | None]:
    """`("layers.", 3)` for `layers.3`; None for a label that doesn't end in a number."""
    match = re.fullmatch(r"(.*?)(\d+)", label)
    return (match[1], int(match[2])) if match else (label, None)
