"""`judge_sides`: compares sides with a reference, and returns the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..options import Options
from ..report.report import Report
from ..results.comparison import FAIL, UNPAIRED
from ..results.correspondence import Correspondence
from ..sides.abilities import KeepsForms
from ..sides.side import Side
from ..support.progress import Progress
from .probing.probe import OnProbes
from .second_call import SECOND_CALL, THIRD_CALL
from .trial import Trial

HIDDEN_STATE = (
    "forward keeps state between calls that the other side doesn't have (a Python attribute, a counter, a global): "
    "keep it in a buffer (self.register_buffer), or pass it in and return it"
)


def judge_sides(
    reference: Side,
    candidates: Sequence[Side],
    options: Options,
    progress: Progress,
    rounded: Sequence[Side] = (),
    *,
    on_probes: OnProbes = "all",
    correspondence: Correspondence | None = None,
    presence: Mapping[str, str] | None = None,
) -> Report:
    """Compare sides with a reference, and return the report.

    Args:
        reference: the reference.
        candidates: the sides to compare with it.
        options: options of the run.
        progress: receives the stages of the run.
        rounded: the sides, which may include the reference, whose numbers may have been rounded to float32.
        on_probes: what is compared on further inputs.
        correspondence: how the Cells were paired, where they were by values; of networks without anything in common, no
            causes are looked for.
        presence: why Cells have no partner, where that is known.
    """
    trial = Trial(reference, candidates, options, progress, rounded, on_probes=on_probes)
    report = trial.report()
    if correspondence is not None:
        report.correspondence = correspondence
    for path, cell in report.cells.items():
        if presence is not None and cell.presence == UNPAIRED:
            cell.presence = presence[path]
    for side in candidates:
        for path, comparison in trial.judge(side):
            report.cells[path].comparisons.append(comparison)
            explanations = report.cells[path].explanations
            if (
                comparison.feeding in (SECOND_CALL, THIRD_CALL)
                and comparison.status == FAIL
                and HIDDEN_STATE not in explanations
            ):
                explanations.append(HIDDEN_STATE)
        trial.add_causes(report, side)
        if isinstance(side, KeepsForms):
            side.release()
        if options.fail_fast and report.failed:
            report.notes.append(f"stopped at the first failing side ({side.name}), as --fail-fast requests")
            break
    report.notes += trial.notes
    report.probing_seconds = trial.probing_seconds
    return report
