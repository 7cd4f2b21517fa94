"""`GenerationReport`: the verdict on the ways in which a model computes a sequence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...report.report import Report
from .choices import Likelihoods


class GenerationReport(Report):
    """The verdict on a model that continues sequences; each side is a way to compute them.

    Attributes:
        likelihoods: how far the probabilities of each side are from the reference's.
    """

    likelihoods: Sequence[Likelihoods] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, with the likelihoods."""
        return super().to_dict() | {"likelihoods": [likelihood.to_dict() for likelihood in self.likelihoods]}
