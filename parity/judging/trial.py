"""`Trial`: one reference, its float64 truth and its noise, and the sides that are compared with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...converter.capture.cell_hooks import notify_calls
from ...runtime.errors import UsageError
from ..options import Options
from ..report.report import Report
from ..results.cell_report import CellReport
from ..results.comparison import FAIL, PASS, REFERENCE_WRONG, SKIPPED, Comparison
from ..results.conditions import Conditions
from ..sides.abilities import GivesInputs, RunsModule
from ..sides.records import Records
from ..sides.reported_cells import (
    cell_reports,
    non_finite_notes,
    owners,
    require_elements,
    require_finite,
    require_repeatable,
    weak_input_notes,
)
from ..sides.run import OUTPUTS, ReferenceRun, Run, Wanted
from ..sides.side import Side
from ..support.progress import Progress
from .cause_search import CauseSearch
from .causes import search
from .choices import ChoiceFinder
from .code_lines import add_code_lines
from .comparer import CellComparisons, compare_parameters, fails
from .dtypes import compare_dtypes
from .error_shares import SharesOfError
from .noise import Noise
from .probing.on_probe import JudgeOnProbe
from .probing.probe import OnProbes
from .probing.prober import Prober
from .probing.reference_runs import ReferenceRuns
from .run_judge import RunJudge
from .second_call import SecondCall
from .value_judge import ValueJudge

ISOLATED, END_TO_END = "isolated", "end to end"

REFERENCE_RUNS = 3
"""Runs of the reference before a side is judged: twice in float64, first Cell by Cell, and in the working dtype."""


class Trial:
    """Runs the reference, and judges sides by it.

    Attributes:
        sides: the sides to judge.
        truth: the reference in float64.
        cells: an empty report per Cell.
        notes: remarks for the reader of the report.
    """

    def __init__(
        self,
        reference: Side,
        sides: Sequence[Side],
        options: Options,
        progress: Progress,
        rounded: Sequence[Side] = (),
        *,
        on_probes: OnProbes = "all",
    ) -> None:
        self.reference = reference
        self.sides = sides
        self.rounded = rounded
        self.options = options
        self.progress = progress
        self.notes: list[str] = []
        cells = sum(1 for _ in reference.module.modules()) if isinstance(reference, RunsModule) else 0
        progress.stage("reference", cells * (1 + options.grads) + REFERENCE_RUNS)
        with notify_calls(progress.advance):
            self.truth = reference.run(Run("float64", Wanted(options.grads)))
        progress.advance()
        require_elements(self.truth)
        require_finite(self.truth, "float64")
        self.replayed = Run(
            "float64", Wanted(options.grads), ReferenceRun.of(self.truth, self.truth.gradients.cotangents)
        )
        self.working_dtype = "float32" if options.dtype == "float64" else options.dtype
        self.cells = cell_reports(reference, self.truth)
        self.owners = owners(self.cells, reference, self.truth)
        self._choices = ChoiceFinder(reference)
        self._second_call = SecondCall(
            reference, self.replayed, self.working_dtype, self.owners, rounded, self._choices, options
        )
        with self._choices.watched:
            again = self._second_call.repeat(calls_twice=any(side.capabilities.calls.keeps_state for side in sides))
        require_repeatable(self.truth, again)
        progress.advance()
        self._has_looked_for_choices = False
        if self._choices.may_turn:  # errors of vectors can be measured only with the same signs
            self._replay_choices()
        self._noises: dict[tuple[str, str], Noise] = {}
        self._shares = SharesOfError(self.truth, options.loss is not None)
        self._search = CauseSearch(reference, self.truth, self.noise, self.working_dtype)
        require_finite(self.noise(END_TO_END, self.working_dtype).first, self.working_dtype, self.truth)
        self.notes += non_finite_notes(self.truth) + weak_input_notes(self.truth)
        for path, cell in self.cells.items():
            if not options.selects(path):
                cell.presence = SKIPPED
        if all(cell.presence == SKIPPED for cell in self.cells.values()):
            chosen = " ".join(
                [*(f"--only {glob}" for glob in options.only), *(f"--skip {glob}" for glob in options.skip)]
            )
            raise UsageError(f"no Cell is left by {chosen}: parity inspect MODEL shows their paths")

        self.prober = None
        if options.probe and isinstance(reference, GivesInputs):
            runs = ReferenceRuns(reference, self.truth, self.replayed, kept=len(sides) > 1)
            on_probe = JudgeOnProbe(runs, options, self.working_dtype, self.owners, self.rounded, self._choices)
            self.prober = Prober(on_probe, on_probes)
        elif options.probe:
            self.notes.append(
                f"no further inputs were derived, since {reference.name} is neither a torch module nor a program"
            )

    @property
    def probing_seconds(self) -> float:
        """The seconds that probes took so far."""
        return 0.0 if self.prober is None else self.prober.spent

    def report(self) -> Report:
        """Return a report on the sides, without any comparison yet."""
        settings = replace(self.options, model=self.options.model or self.truth.calls[0].class_name)
        report = empty_report(settings, self.reference.name, [side.name for side in self.sides], self.cells)
        report.probes = [] if self.prober is None else self.prober.judged
        report.error_shares = self._shares.shares
        return report

    def noise(self, feeding: str, dtype: str) -> Noise:
        """The reference's rounding error in `dtype`, measured once."""
        if (feeding, dtype) not in self._noises:
            feed = self.truth if feeding == ISOLATED else None
            self._noises[feeding, dtype] = Noise(
                self.reference, self.truth, replace(self.replayed, dtype=dtype, feed=feed).want(inner=feed is not None)
            )
        return self._noises[feeding, dtype]

    def judge(self, side: Side, feedings: Sequence[str] = (ISOLATED, END_TO_END)) -> CellComparisons:
        """Return a side's comparisons as (Cell path, comparison); with `fail_fast`, up to the first failing run.

        Args:
            side: the side.
            feedings: where Cells have their inputs from; a side without Cells is judged end to end alone.
        """
        self._search.judged.append(side)
        comparisons = self._judge(side, feedings)
        if (
            fails(comparisons)
            and not self._has_looked_for_choices
            and self._choices.may_order
            and self._replay_choices()
        ):
            self._noises.clear()
            self._search.forget(side)
            if self.prober is not None:
                self.prober.restart(side, self.replayed)
            comparisons = self._judge(side, feedings)
        return comparisons + self._operator_faults(side)

    def _operator_faults(self, side: Side) -> CellComparisons:
        """Return a comparison for each gradient that torch computes wrongly and that was replaced."""
        if not self.options.grads or not side.capabilities.gradients:
            return []
        reason = f"{self.reference.name}'s gradient is wrong here, and was replaced by the right one"
        comparisons = []
        for fault in self.truth.faults.operators:
            wrong = Comparison(
                side.name, "meaning", ISOLATED, "input gradient", fault.operator, 1, REFERENCE_WRONG, reason
            )
            comparisons += self._assign_to_known_cells([(fault.path, wrong)])
            cell = self.cells[comparisons[-1][0]]
            cell.wrong_side, cell.wrong_side_reason = self.reference.name, fault.sentence
        return self.selected(comparisons)

    def _replay_choices(self) -> bool:
        """Look for what the reference has chosen, to replay it on other sides; return False if there is nothing."""
        self._has_looked_for_choices = True
        choices = self._choices.of(self.replayed, self.truth)
        self.replayed = replace(self.replayed, reference=replace(self.replayed.reference, choices=choices))
        return bool(choices)

    def _judge(self, side: Side, feedings: Sequence[str]) -> CellComparisons:
        can = side.capabilities
        grads = self.options.grads and can.gradients
        feedings = [feeding for feeding in feedings if can.has_cells or feeding == END_TO_END]
        self.progress.stage(side.name, len(can.checks) * len(feedings))
        result: CellComparisons = []
        left_out: CellComparisons = []
        if can.gradients:
            result += compare_parameters(side.name, self.reference.parameters(), side.parameters(), self.owners)
        for feeding in feedings:
            if feeding == END_TO_END and any(c.status != PASS for _, c in left_out):
                wrong = ", ".join(sorted({path or "(root)" for path, c in left_out if c.status != PASS}))
                self.notes.append(f"{side.name} was not compared end to end: Cells that were left out differ ({wrong})")
                break
            for check, dtype in can.checks:
                noise = self.noise(feeding, self.working_dtype if check == "meaning" else dtype)
                natural = can.numbers.own_precision and noise.run.dtype == self.options.dtype
                only = len(can.checks) == 1 and (feeding == ISOLATED or not can.has_cells)
                judge = RunJudge.of(
                    side.name,
                    feeding,
                    self.truth,
                    noise,
                    self.owners,
                    self.options,
                    grads=grads,
                    rounded=self.rounded,
                    values=partial(ValueJudge, natural=natural, is_port=can.is_port, only=only),
                )
                run = replace(noise.run, dtype=dtype).want(grads=grads)
                if check == "meaning":
                    comparisons = self._judge_meaning(side, run, judge, result)
                else:
                    comparisons = self._judge_rounding(side, run, judge, result)
                left_out += [(path, c) for path, c in comparisons if not self.options.selects(path)]
                result += comparisons
                self.progress.advance()
                if self.options.fail_fast and any(c.status != PASS for _, c in self.selected(comparisons)):
                    return self.selected(result)
        if self.options.dtype == "float64" and can.numbers.own_precision and not can.is_port and not fails(result):
            natural_run = replace(self.replayed, dtype=self.working_dtype, wanted=OUTPUTS)
            result += compare_dtypes(side, natural_run, self.noise(END_TO_END, self.working_dtype).first)
        if not fails(result):
            result += self._second_call.judge(side, replays_choices=bool(self.replayed.reference.choices))
        if self.prober is not None and not fails(result):
            result += self._probe(self.prober, side)
        return self.selected(result)

    def _probe(self, prober: Prober, side: Side) -> CellComparisons:
        """Return the failures on the first further inputs that a side fails on."""
        self.progress.stage(f"{side.name} on further inputs", None)
        comparisons = self._assign_to_known_cells(prober.judge(side))
        own = [path for path, c in comparisons if c.feeding == ISOLATED]
        if any(not self.options.selects(path) for path in own):  # what is left out differs
            comparisons = [(path, c) for path, c in comparisons if path in own]
        self.notes += [note for note in prober.notes if note not in self.notes]
        return comparisons

    def _judge_meaning(self, side: Side, run: Run, judge: RunJudge, previous: CellComparisons) -> CellComparisons:
        """Return the comparisons of a run in float64; `previous` are the earlier ones of this side."""
        comparer = judge.comparer
        if comparer.feeding == END_TO_END and self._shares.needs_inner_values(side.name, "meaning"):
            run = run.want(inner=True)
        records = self._run(side, judge.values.dropping(run, "meaning"))

        def compare() -> CellComparisons:
            return self._assign_to_known_cells(comparer.compare("meaning", records))

        # Cells that fail explain what fails end to end
        samples = comparer.feeding != END_TO_END or not fails(previous)
        comparisons = judge.settle("meaning", compare(), compare, samples=samples)
        if judge.values.passed and fails(comparisons):
            records = self._run_keeping_all(side, run, judge)
            comparisons = compare()
        if comparer.feeding == ISOLATED and fails(comparisons):
            self._search.failing_records[side.name] = records
        self._keep(judge, "meaning", records, comparisons)
        return comparisons

    def add_causes(self, report: Report, side: Side) -> None:
        """Add to the report where and why a side fails, and which side is wrong, as far as it can be found."""
        if self.options.diagnose_seconds != 0 and report.failing and not report.nothing_in_common:
            self._look_for_causes(report, side)
        add_code_lines(report, self.reference, side)

    def _look_for_causes(self, report: Report, side: Side) -> None:
        on_probe = self._second_call.evidence.pop(side.name, None)
        if self.prober is not None:
            on_probe = self.prober.on_probe.evidence.pop(side.name, on_probe)
        if on_probe is not None or self._search.is_needed(side):
            with search(report, self.options, self.truth, self.progress) as budget:
                self._search.run(report, side, budget, on_probe)
        self._search.find_odd_one_out(report)

    def _judge_rounding(self, side: Side, run: Run, judge: RunJudge, previous: CellComparisons) -> CellComparisons:
        """Return the comparisons of a run in the dtype of its noise; `previous` are the earlier ones of this side."""
        comparer = judge.comparer
        records = self._run(side, judge.values.dropping(run, "rounding"))

        def compare() -> CellComparisons:
            return self._assign_to_known_cells(comparer.compare("rounding", records))

        comparisons = compare()
        # a value midway between two steps of a quantizer may be rounded either way, which changes all later values
        if side.capabilities.numbers.quantized and fails(comparisons):
            records = self._run(side, replace(run, numbers=replace(run.numbers, same_codes=True)))
            comparisons = compare()
        faulty = comparer.feeding == END_TO_END and fails(previous)  # Cells, which explain what fails end to end
        undecided = partial(_is_undecided, previous=previous)
        comparisons = judge.settle("rounding", comparisons, compare, undecided, bounds=not faulty)
        if judge.values.passed and fails(comparisons):
            records = self._run_keeping_all(side, run, judge)
            comparisons = compare()
        self._keep(judge, "rounding", records, comparisons)
        return comparisons

    def _run_keeping_all(self, side: Side, run: Run, judge: RunJudge) -> Records:
        """Return the records of a run with those values too that passed and weren't kept, to be judged again."""
        judge.values.passed.clear()
        return self._run(side, run)

    def _keep(self, judge: RunJudge, check: str, records: Records, comparisons: CellComparisons) -> None:
        """Keep what fails in a run, to find its cause and how much each Cell contributes to the error."""
        comparer = judge.comparer
        self._search.keep_outputs(comparer, records, comparisons)
        if self.options.grads and comparer.feeding == ISOLATED:
            self._shares.add_isolated(comparer.side, check, records, comparisons)
        elif comparer.feeding == END_TO_END:
            self._shares.add_end_to_end(comparer.side, check, records)

    def _run(self, side: Side, run: Run) -> Records:
        records = side.run(run)
        self.notes += [note for note in records.notes if note not in self.notes]
        return records

    def _assign_to_known_cells(self, comparisons: CellComparisons) -> CellComparisons:
        """Assign comparisons of Cells that the reference doesn't have to the root."""
        return [(path if path in self.cells else "", comparison) for path, comparison in comparisons]

    def selected(self, comparisons: CellComparisons) -> CellComparisons:
        """Return the comparisons of the Cells that are to be judged."""
        return [
            (path, comparison)
            for path, comparison in self._assign_to_known_cells(comparisons)
            if self.options.selects(path)
        ]


def empty_report(
    settings: Options, reference: str, sides: list[str], cells: dict[str, CellReport], asked: Options | None = None
) -> Report:
    """Return a report on sides, without any comparison yet.

    Args:
        settings: the settings that were compared with, and the name of the model.
        reference: name of the reference.
        sides: names of the sides.
        cells: an empty report per Cell.
        asked: the settings that the user asked for, if they are others: what makes a verdict say less is among these.
    """
    return Report(
        model=settings.model,
        reference=reference,
        sides=sides,
        dtype=settings.dtype,
        train=bool(settings.train),
        grads=settings.grads,
        seed=settings.seed,
        cells=cells,
        strict=settings.strict,
        conditions=Conditions(asked or settings),
    )


def _is_undecided(comparisons: CellComparisons, previous: CellComparisons) -> bool:
    """Whether rounding fails for a tensor for which no earlier comparison failed."""
    failed = {(path, c.kind, c.tensor) for path, c in previous if c.status == FAIL}
    return any(c.status == FAIL and (path, c.kind, c.tensor) not in failed for path, c in comparisons)
