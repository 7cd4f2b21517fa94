"""`Search`: which smaller cases still fail, and how much may be computed to find the smallest.

The limit is counted in work, as that of the search for causes is, so that the same fault has the same reproduction on a
busy machine as on an idle one. The clock only guards a search that hangs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..budget import Budget, work_of
from .case import Case
from .gaps import Measure, in_onnxruntime

WORK = 2e9
"""The most that a search computes, in elements: about 20 s on an idle core."""
GUARD_SECONDS = 300.0
"""The longest search."""
BACKWARD = 3
"""What the gradients of a case cost, in runs of its programs."""
SESSION = 1e6
"""What it costs to write an ONNX file and to load it, in elements."""


@dataclass
class Search:
    """A search for the smallest case that fails.

    Attributes:
        measure: measures by how much a case fails.
        threshold: the least relative gap with which it does.
        finite: whether both results have one shape: a smaller case whose results have others is another failure.
        budget: what may be computed.
    """

    measure: Measure
    threshold: float
    finite: bool
    budget: Budget = field(default_factory=lambda: Budget(GUARD_SECONDS, WORK))

    def fails(self, case: Case) -> bool:
        """Whether a case fails.

        Raises:
            BudgetSpentError: nothing may be computed any more.
            CellbridgeError: a program can't be run; or another exception that `INVALID` lists.
        """
        self.spend(case)
        gap = self.measure(case).relative
        return gap >= self.threshold and not (self.finite and np.isinf(gap))

    def spend(self, case: Case) -> None:
        """Take a run of both programs of a case from the budget.

        Raises:
            BudgetSpentError: nothing is left.
        """
        runs = sum(map(work_of, case.programs)) * (BACKWARD if case.gradients else 1)
        self.budget.spend(runs + (SESSION if self.measure is in_onnxruntime else 0))

    @property
    def note(self) -> str:
        """That the search was cut, in words; empty if it came to its end."""
        if not self.budget.limit:
            return ""
        where = f"after {self.budget.seconds:.3g} s" if self.budget.limit == "time" else "at its limit of work"
        return f"the search for a smaller case was cut {where}: {self.budget.trials} trials were made"
