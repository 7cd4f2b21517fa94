"""The causes of what fails in a recording: the reference's program is run on recorded values, and changed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...judging.causes import add_causes, search
from ...judging.noise import Noise
from ...options import Options
from ...report.report import Report
from ...sides.records import Records
from ...sides.side import Side
from ...support.progress import Progress
from .recorded_network import RecordedNetwork
from .recorded_side import RecordedSide


@dataclass(frozen=True)
class DifferingRun:
    """A run of a recording in which a Cell is wrong itself: the evidence of why.

    Attributes:
        check: "meaning" or "rounding".
        dtype: the dtype of the run.
        step: number of the training step.
        feeding: the feeding of the comparisons that judge a Cell itself.
        truth: what the reference computed of the values that Cells had in that run.
        records: what was recorded.
        noise: the reference's rounding error on these values.
    """

    check: str
    dtype: str
    step: int
    feeding: str
    truth: Records
    records: Records
    noise: Noise

    def add_causes(
        self, report: Report, reference: Side, recorded: RecordedSide, options: Options, progress: Progress
    ) -> None:
        """Look for the causes, and add them to the report.

        Args:
            report: the report.
            reference: the reference, with a program.
            recorded: the recording.
            options: how long to look.
            progress: receives the stage.
        """
        if options.diagnose_seconds == 0:
            return
        network = RecordedNetwork(recorded, self.dtype, self.step, report.failing)
        side: Side = network if network.has_program else recorded
        wide = {k: value.astype(np.float64) for k, value in self.records.values.items() if k in self.truth.values}
        records = replace(self.records, values=wide)
        with search(report, options, self.truth, progress) as budget:
            add_causes(
                report, reference, side, self.truth, records, self.noise, budget,
                grads=report.grads, check=self.check, feeding=self.feeding,
            )  # fmt: skip
