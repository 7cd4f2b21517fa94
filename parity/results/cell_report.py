"""`CellReport`: the comparisons of one Cell."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .cause import Cause
from .cell_graph import CellGraph
from .comparison import FAIL, NOT_COMPARED, NOT_KNOWN, PASS, REFERENCE_WRONG, Comparison, json_value, worst_ratio
from .hunk import NOWHERE, Hunk

PROGRAM = "the program"

NOT_FOUND = (
    "cause: not found: most of the Cell is computed in another way in the candidate, and no known mistake explains it"
)
"""Stands in place of a cause where only the exchange of most of the program explains the candidate."""


@dataclass
class CellReport:
    """All comparisons of one Cell, over all its calls.

    Attributes:
        path: module path, `""` for the root.
        class_name: class of the reference's module.
        calls: number of times the Cell was called.
        entry: its position among the Cells in the order of their first calls; None if it isn't known.
        comparisons: comparisons of the Cell itself; its children have their own.
        presence: None for a Cell that was compared; else NOT_REACHED, SKIPPED, INLINED, PASSED_ON or UNPAIRED.
        counterpart: class and path of the Cell that is its port; empty where Cells are paired by path.
        explanations: for a failing Cell, the differences between the two APIs that apply to it.
        causes: for a failing Cell, what was proved to make it fail.
        wrong_side: the side that is wrong, if it is known: by its gradients, which aren't the derivative of its own
            forward pass, while the other side's are; or as the one of three implementations whose outputs differ. It is
            PROGRAM if two implementations of the program that was compared agree with each other and not with the
            reference. Empty if unknown.
        wrong_side_reason: why.
        graph: for a failing Cell whose causes were looked for, its program as a graph; None if it isn't known.
        hunk: for a failing Cell, the lines of both sides that compute what differs; a cause may have a narrower place.
        derivative_error: how far gradients are from the derivative, relative to it, along a random direction.
    """

    path: str
    class_name: str
    calls: int = 1
    entry: int | None = field(default=None, kw_only=True)
    comparisons: list[Comparison] = field(default_factory=list)
    presence: str | None = None
    counterpart: str = ""
    explanations: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    wrong_side: str = ""
    wrong_side_reason: str = ""
    derivative_error: float = 0.0
    graph: CellGraph | None = None
    hunk: Hunk = NOWHERE

    @property
    def status(self) -> str:
        """The worst status of its comparisons, from FAIL to REFERENCE_WRONG; else `presence`, or PASS.

        A Cell without comparisons and without `presence` is NOT_COMPARED.
        """
        statuses = {comparison.status for comparison in self.comparisons}
        for status in (FAIL, NOT_COMPARED, NOT_KNOWN, REFERENCE_WRONG):
            if status in statuses:
                return status
        return self.presence or (PASS if statuses else NOT_COMPARED)

    @property
    def wrong_side_in_words(self) -> str:
        """The side that is wrong, and why; empty if unknown."""
        return f"{self.wrong_side}; {self.wrong_side_reason}" if self.wrong_side else ""

    def add_graph(self, graph: CellGraph | None) -> None:
        """Keep a graph of the Cell, unless there is one that marks a difference, or this one marks none either."""
        if graph is not None and (self.graph is None or (graph.marked and not self.graph.marked)):
            self.graph = graph

    def take_findings(self, other: CellReport) -> None:
        """Take what another report on the Cell has found, beside causes, of which nothing is known here."""
        self.take_wrong_side(other)
        self.add_graph(other.graph)
        self.hunk = self.hunk or other.hunk

    def take_wrong_side(self, other: CellReport) -> None:
        """Take the wrong side of another report on the Cell, unless it is known here."""
        if not self.wrong_side:
            self.wrong_side, self.wrong_side_reason = other.wrong_side, other.wrong_side_reason
            self.derivative_error = other.derivative_error

    @property
    def is_reference_wrong(self) -> bool:
        """Whether it differs from the reference's own wrong gradients, isolated: it is where these come from."""
        return any(c.status == REFERENCE_WRONG and c.feeding == "isolated" for c in self.comparisons)

    @property
    def is_not_known(self) -> bool:
        """Whether something that the Cell computes from the reference's inputs can't be judged."""
        return any(c.status == NOT_KNOWN and c.of_cell_alone for c in self.comparisons)

    @property
    def outputs(self) -> list[Comparison]:
        """Comparisons of outputs, values passed to inner Cells, and buffer updates."""
        return [c for c in self.comparisons if c.kind in ("output", "passed value", "buffer update")]

    @property
    def gradients(self) -> list[Comparison]:
        """Comparisons of input gradients, parameter gradients, and gradients passed back to inner Cells."""
        return [c for c in self.comparisons if c.kind in ("input gradient", "passed gradient", "parameter gradient")]

    @property
    def failures(self) -> list[Comparison]:
        """The comparisons that failed or couldn't be made, in order."""
        return [c for c in self.comparisons if c.status in (FAIL, NOT_COMPARED)]

    @property
    def differences(self) -> list[Comparison]:
        """The failures, and the comparisons of which the reference itself is wrong or says nothing, in order."""
        return [c for c in self.comparisons if c.status != PASS]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "path": self.path,
            "class_name": self.class_name,
            "calls": self.calls,
            "status": self.status,
            "counterpart": self.counterpart,
            "explanations": list(self.explanations),
            "causes": [cause.to_dict() for cause in self.causes],
            "graph": None if self.graph is None else self.graph.to_dict(),
            "hunk": self.hunk.to_dict(),
            "wrong_side": self.wrong_side,
            "wrong_side_reason": self.wrong_side_reason,
            "derivative_error": json_value(self.derivative_error),
            "worst_output_ratio": json_value(worst_ratio(self.outputs)),
            "worst_gradient_ratio": json_value(worst_ratio(self.gradients)),
            "comparisons": [comparison.to_dict() for comparison in self.comparisons],
        }


def is_inside(path: str, ancestor: str) -> bool:
    """Whether the Cell at `path` is inside the Cell at `ancestor`, and isn't that Cell itself."""
    return path != ancestor and (ancestor == "" or path.startswith(ancestor + "."))
