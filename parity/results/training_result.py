"""`TrainingResult`: what a comparison of trainings found, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .comparison import PASS, SCHEMA_VERSION, Comparison

KINDS = (
    "loss",
    "gradient",
    "overflow",
    "clipped gradient",
    "optimizer state",
    "loss scale",
    "parameter",
    "buffer",
)
"""What a step consists of, in the order in which it is looked at."""


@dataclass
class TrainingResult:
    """The verdict on trainings held against torch's, as data; `TrainingReport` shows it.

    Attributes:
        model: what was trained, as the user named it, or its class.
        sides: names of the sides that were held against torch.
        dtype: working dtype.
        steps: how many steps torch made.
        comparisons: one per side, check, step and tensor; `call` is the number of the step, from 1, `kind` one of
            `KINDS`.
        recipe: how the network was trained, in words; empty where scripts trained it.
        problems: what differs in more than numbers: a parameter frozen on one side only, another number of steps.
        causes: what the differences of the first step that differs look like.
        notes: what a reader should know, e.g. what could not be compared.
    """

    model: str
    sides: list[str]
    dtype: str
    steps: int
    recipe: str = ""
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
    def first(self) -> list[Comparison]:
        """What differs first: see `first_of`; of all sides."""
        return self.first_of(*self.sides)

    def first_of(self, *sides: str) -> list[Comparison]:
        """What differs first on some sides: of the first step that differs, the failures of the first kind there."""
        failures = [c for c in self.failures if c.side in sides]
        if not failures:
            return []
        step, kind = min((c.call, KINDS.index(c.kind)) for c in failures)
        return [c for c in failures if (c.call, c.kind) == (step, KINDS[kind])]

    @property
    def ok(self) -> bool:
        """Whether something was compared of each side, and nothing differs."""
        compared = {c.side for c in self.comparisons}
        return bool(compared) and compared >= {*self.sides} and not self.failures and not self.problems

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "ok": self.ok,
            "reference": "torch",
            "sides": list(self.sides),
            "dtype": self.dtype,
            "steps": self.steps,
            "recipe": self.recipe,
            "first_step_that_differs": self.differing,
            "first_kind_that_differs": next((c.kind for c in self.first), None),
            "first_tensors_that_differ": list(dict.fromkeys(c.tensor for c in self.first)),
            "problems": list(self.problems),
            "causes": list(self.causes),
            "notes": list(self.notes),
            "comparisons": [c.to_dict() for c in self.comparisons],
        }
