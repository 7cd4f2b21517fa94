"""`RecordedTrial`: the runs of a recording, judged by a reference that can be run here, or was recorded too.

A recording is a side like the others, but it can't be run again on the reference's values. So the reference is:

    reference      the truth                       its rounding error     what a Cell gets
    ---------      ---------                       ------------------     ----------------
    runs here      its run in float64, on what     of its other runs,     what was recorded ("isolated"), or what
                   was recorded and on its own     with a jitter          comes of the inputs ("end to end")
    was recorded   its recorded run in float64,    of its recorded run,   its own: where that agrees "equal
                   or in the working dtype         or assumed             inputs", and else "end to end"
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...judging.code_lines import add_code_lines
from ...judging.comparer import CellComparisons, compare_parameters, fails
from ...judging.noise import Noise
from ...judging.run_judge import RunJudge
from ...judging.trial import empty_report
from ...options import Options
from ...report.globs import list_names
from ...report.report import Report
from ...results.cell_report import CellReport
from ...results.comparison import FAIL, PASS
from ...sides.records import Records
from ...sides.reported_cells import owners
from ...sides.side import ParameterInfo, Side
from ...support.progress import Progress
from .agreement import (
    common_part,
    comparable_part,
    other_numbers_of_calls,
    outputs_not_compared,
    recorded_around,
    recorded_owners,
    require_same_inputs,
    set_presence,
    with_whole_gradients,
)
from .causes import DifferingRun
from .correspondence import correspondence
from .recorded_side import RecordedSide
from .recording import Boundary, RecordedRun
from .sharing import shared_differently
from .summaries import Summarized, in_words, require_same_summarized_inputs, use_samples, with_summary
from .summary_judge import SummaryJudge

PARAMETER_KINDS = ("parameter", "parameter gradient")


@dataclass(frozen=True)
class CommonPart:
    """What the reference and the recording have in common of a run, in the reference's names.

    Attributes:
        truth: the reference's values that the recording has too.
        whole: all of the reference's.
        records: the recording's values that the reference has too.
        summarized: what is known of the tensors that aren't whole.
        owners: the Cell to judge each parameter in, of those that both have.
        lacking: a note on what the recording doesn't have; empty if it has everything.
    """

    truth: Records
    whole: Records
    records: Records
    summarized: Mapping[Boundary, Summarized]
    owners: Mapping[str, str]
    lacking: str = ""


class RecordedTrial(ABC):
    """Judges the runs of a recording, once.

    Args:
        reference: the reference.
        side: the recording.
        truth: the reference's records, by which Cells are named.
        parameters: its parameters before the first step.
        cells: an empty report per Cell.
        options: what is compared, and how.
        progress: receives the stages.

        settings: the settings that the report names, with which both sides ran.
        checks: the checks, each with the dtype of the recording's run.
        steps: the numbers of the training steps.

    Attributes:
        called: what both sides are called in messages.
        notes: remarks for the reader of the report.
        recorded: paths of the Cells that both have.
        differing: the first run in which a Cell is wrong itself.
    """

    def __init__(
        self,
        reference: Side,
        side: RecordedSide,
        truth: Records,
        parameters: RecordedRun,
        cells: dict[str, CellReport],
        options: Options,
        progress: Progress,
        *,
        settings: Options,
        checks: Sequence[tuple[str, str]],
        steps: Sequence[int] = (0,),
    ) -> None:
        self.reference, self.side, self.truth, self.cells = reference, side, truth, cells
        self.parameters = RecordedRun(Records(), parameters.parameters, parameters.summaries)
        self.options, self.progress, self.settings = options, progress, settings
        self.checks, self.steps = checks, steps
        self.called = reference.name, side.name
        self.owners = owners(cells, reference, truth)
        self.notes: list[str] = []
        self.recorded: set[str] = set()
        self.differing: DifferingRun | None = None

    @abstractmethod
    def judge_run(self, check: str, dtype: str, step: int) -> CellComparisons:
        """Judge one step of one run of the recording."""

    @abstractmethod
    def with_program(self, differing: DifferingRun, report: Report) -> Side | None:
        """Return the reference as a side that has a program, to look for causes; None if there is none."""

    def report(self) -> Report:
        """Judge every run, and return the report."""
        self.progress.stage(self.side.name, len(self.checks) * len(self.steps))
        comparisons = self._compare_parameters()
        for step in self.steps:
            for check, dtype in self.checks:
                comparisons += [(p, replace(c, input=step + 1)) for p, c in self.judge_run(check, dtype, step)]
                self.progress.advance()
            if fails(comparisons) and len(self.steps) > 1:
                self.notes.append(_first_difference(step, comparisons))
                break
        self._assign(comparisons)
        report = empty_report(self.settings, self.reference.name, [self.side.name], self.cells, self.options)
        report.notes = list(dict.fromkeys(filter(None, self.notes)))
        report.not_known = outputs_not_compared(self.truth, self.cells, *self.called, self.options)
        parameters = dict.fromkeys(c.tensor for _, c in comparisons if c.kind in PARAMETER_KINDS)
        report.correspondence = correspondence(self.side, self.cells, self.recorded, parameters)
        report.structure += shared_differently(self.side.sharing, self.cells)
        if self.differing is not None and report.failing:
            reference = self.with_program(self.differing, report)
            if reference is not None:
                self.differing.add_causes(report, reference, self.side, self.options, self.progress)
        add_code_lines(report, self.reference, self.side)
        return report

    def in_common(self, runs: Sequence[RecordedRun], summarized: Mapping[Boundary, Summarized]) -> CommonPart:
        """Return what both sides have of a run.

        Args:
            runs: the reference's run that is the truth, with its parameters; and as the last, the recording's.
            summarized: what is known of the tensors that aren't whole; see `use_samples`.

        Raises:
            UsageError: they have nothing in common, or were made on other inputs.
        """
        whole, run = runs[0].records, runs[-1]
        require_same_inputs(whole, run.records, *self.called)
        require_same_summarized_inputs(summarized, *self.called)
        records, remark = with_whole_gradients(run.records, whole)
        self.notes += [in_words(summarized), other_numbers_of_calls(whole, run.records, *self.called), remark]
        records = comparable_part(records, whole, runs[0].parameters)
        truth, lacking = common_part(whole, records, run.parameters)
        self.recorded |= {key.path for key in truth.values}
        note = f"{self.side.name} doesn't have {lacking}, which weren't compared" if lacking else ""
        return CommonPart(truth, whole, records, summarized, recorded_owners(self.owners, truth), note)

    def compare(
        self, check: str, feeding: str, common: CommonPart, noise: Noise, *, grads: bool, rounded: Sequence[Side] = ()
    ) -> CellComparisons:
        """Return the comparisons of what both sides have of a run."""
        judge = RunJudge.of(
            self.side.name,
            feeding,
            common.truth,
            noise,
            common.owners,
            self.options,
            grads=grads,
            rounded=rounded,
            values=partial(SummaryJudge, summarized=common.summarized),
        )
        return judge.judge(check, common.records)

    def _compare_parameters(self) -> CellComparisons:
        """Compare the values of the parameters that both have."""
        recorded = self.side.recorded(self.side.recording.working_dtype)
        run = RecordedRun(Records(), recorded.parameters, recorded.summaries)
        (reference, candidate), summarized = use_samples(self.parameters, None, run)
        comparisons: CellComparisons = []
        for name in reference.parameters:
            if name in candidate.parameters:  # one by one, so that memory is given back
                # a recording doesn't say which of them are trained
                reference_parameter, candidate_parameter = (
                    {name: ParameterInfo(recorded_run.parameters[name], True)}
                    for recorded_run in (reference, candidate)
                )
                comparisons += compare_parameters(self.side.name, reference_parameter, candidate_parameter, self.owners)
        return [(path, with_summary(c, summarized)) for path, c in comparisons]

    def _assign(self, comparisons: CellComparisons) -> None:
        """Assign the comparisons to the Cells that are judged."""
        comparisons = [
            (recorded_around(p, self.cells if c.kind == "parameter" else self.recorded), c) for p, c in comparisons
        ]
        selects = self.options.selects
        left_out = sorted(
            {path for path, c in comparisons if c.status != PASS and c.of_cell_alone and not selects(path)}
        )
        if left_out:  # what differs because of them says nothing about the Cells that are judged
            self.notes.append(f"Cells that were left out differ: {list_names([path or '(root)' for path in left_out])}")
            comparisons = [(path, c) for path, c in comparisons if c.status == PASS or c.of_cell_alone]
        for path, comparison in comparisons:
            self.cells[path].comparisons.append(comparison)
        set_presence(self.cells, self.options, self.recorded)


def _first_difference(step: int, comparisons: CellComparisons) -> str:
    """Return a note on the training step in which something differs first."""
    later = "later steps weren't judged, since they start from what differs"
    if any(c.status == FAIL and c.kind == "parameter" for _, c in comparisons) and step:
        return (
            f"the parameters differ first after training step {step}, before which nothing differs: the update is "
            f"wrong (optimizer, learning rate, weight decay, clipping); {later}"
        )
    return f"training step {step + 1} is the first that differs; {later}"
