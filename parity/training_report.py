"""What a comparison of two trainings found, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..runtime.errors import ParityError
from .results import PASS, Comparison


@dataclass
class TrainingReport:
    """The verdict on the training of a port.

    Attributes:
        model: class of the torch module.
        side: name of the port's side.
        dtype: working dtype.
        steps: how many steps torch made.
        comparisons: one per check, step and tensor; `call` is the number of the step, from 1, `kind` is "parameter",
            "buffer" or "loss".
        problems: what differs in more than numbers: a parameter frozen on one side only, another number of steps.
        causes: what the differences of the first step that differs look like.
        notes: what a reader should know, e.g. what could not be compared.
    """

    model: str
    side: str
    dtype: str
    steps: int
    comparisons: list[Comparison] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[Comparison]:
        """The comparisons that fail."""
        return [c for c in self.comparisons if c.status != PASS]

    @property
    def differing(self) -> int | None:
        """The first step after which something differs; None if nothing does."""
        return min((c.call for c in self.failures), default=None)

    @property
    def ok(self) -> bool:
        """Whether something was compared, and nothing differs."""
        return bool(self.comparisons) and not self.failures and not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "model": self.model,
            "ok": self.ok,
            "side": self.side,
            "dtype": self.dtype,
            "steps": self.steps,
            "first_step_that_differs": self.differing,
            "problems": list(self.problems),
            "causes": list(self.causes),
            "notes": list(self.notes),
            "comparisons": [c.to_dict() for c in self.comparisons],
        }

    def raise_if_failed(self) -> None:
        """Raise `ParityError` with what differs first, unless both trainings are the same."""
        __tracebackhide__ = True
        if not self.ok:
            raise ParityError(str(self))

    def __str__(self) -> str:
        from .report.training import training_text

        return training_text(self)
