"""The causes of what fails in a recording: the reference's program is run on recorded values, and changed."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from ..comparison.causes import add_causes
from ..comparison.noise import Noise
from ..diagnosis.budget import Budget
from ..options import Options
from ..report.report import Report
from ..sides.records import OUTPUT, Array, Records, gradient_key
from ..sides.side import Side
from ..support.progress import Progress
from .attribution import EQUAL_INPUTS
from .recorded_network import RecordedNetwork
from .recorded_side import RecordedSide


@dataclass(frozen=True)
class DifferingRun:
    """The first run of a candidate in which a Cell is wrong itself.

    Attributes:
        check: "meaning" or "rounding".
        dtypes: the dtypes of the reference's run and of the candidate's.
        step: number of the training step.
        truth: what the reference recorded.
        records: what the candidate recorded.
        noise: the reference's rounding error.
    """

    check: str
    dtypes: tuple[str, str]
    step: int
    truth: Records
    records: Records
    noise: Noise

    def add_causes(self, report: Report, sides: Sequence[RecordedSide], options: Options, progress: Progress) -> None:
        """Look for the causes in the programs of the recordings, and add them to the report.

        Args:
            report: the report.
            sides: the reference and the candidate.
            options: how long to look.
            progress: receives the stage.
        """
        reference, candidate = (
            RecordedNetwork(side, dtype, self.step, report.failing)
            for side, dtype in zip(sides, self.dtypes, strict=True)
        )
        if not reference.has_program:
            report.notes.append(
                f"no causes were looked for, since {reference.name} has no program of its network: parity record "
                "writes one"
            )
            return
        if options.diagnose_seconds == 0:
            return
        budget = Budget.of(options.diagnose_seconds, self.truth)
        progress.stage("causes", None)
        truth = replace(self.truth, gradients=replace(self.truth.gradients, cotangents=_cotangents(self.truth)))
        fed = copy(self.noise)
        fed.run = replace(self.noise.run, feed=truth)
        side: Side = candidate if candidate.has_program else sides[1]
        add_causes(
            report, reference, side, truth, widened(self.records, truth), fed, budget,
            grads=report.grads, check=self.check, feeding=EQUAL_INPUTS,
        )  # fmt: skip
        report.notes += [budget.note] if budget.note else []


def widened(records: Records, truth: Records) -> Records:
    """Return a candidate's records in float64, of the boundaries that the reference has too."""
    wide = {key: value.astype(np.float64) for key, value in records.values.items() if key in truth.values}
    return replace(records, values=wide)


def _cotangents(truth: Records) -> list[Array | None]:
    """Return the gradients of the network's outputs."""
    return [truth.values.get(gradient_key(key)) for key in truth.root_keys(OUTPUT)]
