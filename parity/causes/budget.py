"""`Budget`: how much a search for causes may compute.

It is counted in elements of tensors, from the sizes of what is run, so that the same search ends at the same place on
a busy machine as on an idle one. The clock only guards a search that hangs, or that a person wants to be short.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.ops.registry import ops_with
from ..sides.records import Records

WORK = 1e10
"""The elements that a search may compute, at least: about ten seconds on an idle core."""
FEWER_CAUSES = 0.25
"""The share of the work that a search for a single cause may take, where several together are proved already."""
RUNS = 50
"""A search may compute at least as much as this many runs of the network."""
NODE = 50_000
"""What a node costs besides its elements, in elements: to change a program and to call NumPy."""
CAPTURE = 1e8
"""What it costs to read a Cell as a program, in elements."""
PRODUCTS = 32
"""Multiplications of a matrix product or convolution that take as long as an element."""
TURNS = 16
"""How often the body of a loop is taken to run."""
CONTRACTIONS = ops_with(lambda of: of.products) | {"scaled_dot_product_attention"}
GUARD_SECONDS = 600.0
"""The longest search, if no other is asked for."""


class BudgetSpentError(Exception):
    """The work or the time for the search is over."""


@dataclass
class Budget:
    """The work and the time for a search.

    Attributes:
        seconds: the longest search.
        work: the most work, in elements.
        cells: number of Cells whose causes are looked for.
        cell: the one among them that is looked at, from 1.
        trials: number of programs that were run.
        spent: the work that was done, in elements.
        limit: what ended the search, "time" or "work"; "" if it came to its end.
        advice: what to do if the work was too much, for the note.
    """

    seconds: float = GUARD_SECONDS
    work: float = WORK
    cells: int = 0
    cell: int = 0
    trials: int = 0
    spent: float = 0.0
    limit: str = ""
    advice: str = " (--only PATH searches in one Cell with the whole limit)"
    _started: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, seconds: float | None, truth: Records) -> Budget:
        """Return the budget of a search in a network.

        Args:
            seconds: the longest search, as `Options.diagnose_seconds`.
            truth: the records of a run of the network.
        """
        work = max(WORK, RUNS * work_of_run(truth))
        return cls(GUARD_SECONDS if seconds is None else seconds, work)

    @property
    def seconds_left(self) -> float:
        """The time that is left."""
        return self.seconds - (time.monotonic() - self._started)

    @property
    def is_spent(self) -> bool:
        """Whether nothing may be run any more; this is then said in the report."""
        if not self.limit and self.spent >= self.work:
            self.limit = "work"
        if not self.limit and self.seconds_left <= 0:
            self.limit = "time"
        return bool(self.limit)

    def spend(self, work: float) -> None:
        """Take work from the budget, before it is done.

        Raises:
            BudgetSpentError: nothing is left.
        """
        if self.is_spent:
            raise BudgetSpentError
        self.trials += 1
        self.spent += work

    @contextmanager
    def part(self, share: float) -> Iterator[Budget]:
        """Yield a budget that ends after a share of the work, which isn't said, and within this one."""
        inner = Budget(self.seconds_left, min(share * self.work, self.work - self.spent))
        try:
            yield inner
        finally:
            self.spent += inner.spent
            self.trials += inner.trials

    @property
    def note(self) -> str:
        """That and where the search was cut, for the report; "" if it came to its end."""
        if not self.limit:
            return ""
        cut = (
            f"after {self.seconds:.3g} s by --diagnose-seconds"
            if self.limit == "time"
            else f"at its limit of work{self.advice}"
        )
        where = f"in failing Cell {self.cell} of {self.cells}, " if self.cell else ""
        return f"the search for causes was cut {cut}: {where}{self.trials} trials were made"


def work_of(program: Program) -> float:
    """Return what a run of a program costs, in elements."""
    return sum(map(_work_of_node, program.nodes))


def work_of_run(records: Records) -> float:
    """Return what a run of a network costs whose values were recorded, in elements."""
    return sum(NODE + value.size for value in records.values.values())


def _work_of_node(node: Node) -> float:
    given, made = (sum(map(_elements, values)) for values in (node.inputs, node.outputs))
    bodies = [item for item in node.attributes.values() if isinstance(item, Program)]
    work = NODE + given + made + TURNS * sum(map(work_of, bodies))
    if node.op in CONTRACTIONS and len(node.inputs) > 1 and made:
        # a product of m x k and k x n has m k n multiplications, the root of the product of all three sizes
        work += (_elements(node.inputs[0]) * _elements(node.inputs[1]) * made) ** 0.5 / PRODUCTS
    return work


def _elements(value: Value | None) -> float:
    sizes = () if value is None else value.type.sizes or ()
    product = 1.0
    for size in sizes:
        product *= size
    return product
