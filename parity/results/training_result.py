"""`TrainingResult`: the result of a comparison of training runs, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .cause import Cause
from .comparison import PASS, SCHEMA_VERSION, Comparison
from .conditions import Conditions
from .origin import Origin

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
"""The quantities of a training step, in the order in which they are compared."""


@dataclass
class TrainingResult:
    """The verdict on training runs compared with torch's, as data; `TrainingReport` displays it.

    Attributes:
        model: name of the network, as the user gave it, or its class.
        sides: names of the sides that were compared with torch.
        dtype: working dtype.
        steps: number of steps that torch made.
        comparisons: one per side, check, step and tensor; `call` is the number of the step, from 1, `kind` one of
            `KINDS`.
        recipe: description of the training configuration; empty where scripts trained the network.
        problems: differences other than in numbers: a parameter frozen on one side only, another number of steps.
        causes: why parameters differ, proved by replaying the candidate's updates.
        explanations: probable causes of the differences in the first step that differs.
        notes: remarks for the reader, e.g. what couldn't be compared.
        conditions: settings that make the verdict say less, which it therefore names.
        origin: when, by which versions and by which command line it was made.
    """

    model: str
    sides: list[str]
    dtype: str
    steps: int
    recipe: str = ""
    comparisons: list[Comparison] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    causes: list[Cause] = field(default_factory=list)
    explanations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    conditions: Conditions = field(default_factory=Conditions)
    origin: Origin = field(default_factory=Origin, compare=False)

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
        """The first failures over all sides; see `first_of`."""
        return self.first_of(*self.sides)

    def first_of(self, *sides: str) -> list[Comparison]:
        """The first failures of some sides: those of the first failing kind in the first step that differs."""
        failures = [c for c in self.failures if c.side in sides]
        if not failures:
            return []
        step, kind = min((c.call, KINDS.index(c.kind)) for c in failures)
        return [c for c in failures if (c.call, c.kind) == (step, KINDS[kind])]

    @property
    def ok(self) -> bool:
        """Whether every side was compared and nothing differs."""
        compared = {c.side for c in self.comparisons}
        return bool(compared) and compared >= {*self.sides} and not self.failures and not self.problems

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "origin": self.origin.to_dict(),
            "ok": self.ok,
            "reference": "torch",
            "sides": list(self.sides),
            "dtype": self.dtype,
            "steps": self.steps,
            "recipe": self.recipe,
            "conditions": self.conditions.to_dict(),
            "first_step_that_differs": self.differing,
            "first_kind_that_differs": next((c.kind for c in self.first), None),
            "first_tensors_that_differ": list(dict.fromkeys(c.tensor for c in self.first)),
            "problems": list(self.problems),
            "causes": [cause.to_dict() for cause in self.causes],
            "explanations": list(self.explanations),
            "notes": list(self.notes),
            "comparisons": [c.to_dict() for c in self.comparisons],
        }
