"""`judge`: a recording judged by another one, the reference's.

Both networks have run end to end, on values of their own, so the values of a Cell may differ because of Cells before
it. A Cell is wrong itself where everything that it computes a value from agrees with the reference's, and the value
doesn't: its inputs and what the Cells that it called returned; backward, the gradients that arrived too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from os import PathLike
from typing import Unpack

from ....runtime.errors import UsageError
from ...judging.comparer import CellComparisons, fails
from ...judging.noise import Noise
from ...options import OptionKeywords, Options, from_keywords
from ...report.report import Report
from ...results.cell_report import CellReport
from ...results.comparison import FAIL, NOT_COMPARED, Comparison
from ...sides.records import OUTPUT, Key, Records, State, gradient_key
from ...sides.reported_cells import cell_reports, non_finite_notes, require_elements, require_finite
from ...sides.run import ReferenceRun, Run, Wanted
from ...sides.side import Side
from ...support.progress import NoProgress, Progress
from ...verdicts.judge import ROUNDING_FACTOR
from .agreement import same_cotangents
from .attribution import END_TO_END, EQUAL_INPUTS, attribute, detachments, missing_gradients
from .causes import DifferingRun
from .names import NameMap, read_names
from .noise import UNKNOWN, AssumedNoise, RecordedNoise
from .recorded_network import RecordedNetwork
from .recorded_side import RecordedSide
from .recording import Boundary, RecordedRun, Recording, open_recording
from .summaries import Summarized, in_words, use_samples
from .trial import CommonPart, RecordedTrial
from .versions import changed_versions

OTHER_LOSS = (
    "no gradient was compared, because the backward passes start from other gradients of the outputs: record both with "
    "the same loss"
)


def judge(
    reference: str | PathLike[str],
    candidate: str | PathLike[str],
    *,
    names: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Judge a recording by another one, the reference's, without running either network.

    The truth is the reference's run in float64. If it has none, rounding alone is judged, with an assumed bar.

    Args:
        reference: folder of the reference's recording, as `record` or `cellbridge.recorder` writes it, or of `.npy`
            files.
        candidate: folder of the recording to judge.
        names: TOML file that says what the reference's Cells and parameters are called in the candidate
            (docs/recordings.md); None if they have the same names.
        progress: receives the stages.
        **options: fields of `Options`: `grads`, `rtol`, `atol`, `only`, `skip`, `strict`, `model`, `diagnose_seconds`.

    Returns:
        The report. Comparisons are of "equal inputs" where all that a value is computed from agrees, and else "end to
        end". Causes are proved with the network's program, which a reference has that `record` has written.

    Raises:
        UsageError: a recording can't be read, they have nothing in common, or were made on different inputs.
    """
    chosen = from_keywords(Options, judge, options)
    name_map = None if names is None else read_names(names)
    recordings = open_recording(reference), open_recording(candidate)
    return _TwoRecordings(*recordings, chosen, progress or NoProgress(), name_map).report()


class _TwoRecordings(RecordedTrial):
    """A recording, judged by what the reference recorded."""

    def __init__(
        self, reference: Recording, candidate: Recording, options: Options, progress: Progress, names: NameMap | None
    ) -> None:
        reference_side = RecordedSide(reference.name, reference)
        self.has_truth, self.working = "float64" in reference.runs, reference.working_dtype
        self.true_dtype = "float64" if self.has_truth else self.working
        first = reference_side.recorded(self.true_dtype)
        whole = first.records
        tensors = first.parameters | whole.state.buffers | whole.state.updates
        candidate_side = RecordedSide(
            candidate.name, candidate, whole, names, tensors=tensors, aliases=reference.aliases
        )
        if candidate_side.sharing.ties.into:
            reference_side = RecordedSide(reference.name, reference, given_sharing=candidate_side.sharing)
            whole = reference_side.recorded(self.true_dtype).records
        self.reference_side = reference_side
        checks = [check for check in candidate_side.capabilities.checks if self.has_truth or check[0] == "rounding"]
        if not checks:
            raise UsageError(
                f"{candidate.name} was recorded in float64 alone, and {reference.name} wasn't recorded in it: there is "
                "nothing to judge by\n  what to do: record the reference in float64 too"
            )
        index = reference.index
        self.grads = options.grads and reference_side.capabilities.gradients and candidate_side.capabilities.gradients
        settings = replace(
            options,
            model=options.model or index.model or reference_side.name,
            dtype=self.working,
            train=index.mode == "train",
            grads=self.grads,
            seed=index.seed or 0,
        )
        steps = [step for step in reference.steps if step in candidate.steps] or [0]
        # what no Cell was recorded around is the network's
        cells = {"": CellReport("", "")} | cell_reports(reference_side, whole)
        super().__init__(
            reference_side, candidate_side, whole, reference_side.recorded(self.working), cells, options, progress,
            settings=settings, checks=checks, steps=steps,
        )  # fmt: skip
        self.notes += [*candidate_side.notes, *_notes(reference, candidate)]
        if options.grads and reference_side.capabilities.gradients and not candidate_side.capabilities.gradients:
            self.notes.append(f"{candidate.name} has no gradients, so none were compared")
        if not self.has_truth:
            self.notes.append(
                f"{reference_side.name} wasn't recorded in float64, so rounding alone was judged, by an assumed bar: "
                f"{ROUNDING_FACTOR * UNKNOWN:g} units in the last place of {self.working}, times the square root of "
                f"the number of calls, {len(whole.calls)}"
            )

    def judge_run(self, check: str, dtype: str, step: int) -> CellComparisons:
        """Judge one step of one run: the parameters that the steps before have made, and what the Cells computed."""
        reference_runs = (
            self.reference_side.recorded(self.true_dtype, step),
            self.reference_side.recorded(self.working, step),
        )
        runs, summarized = use_samples(*reference_runs, self.side.recorded(dtype, step))
        comparisons: CellComparisons = []
        if step:
            self.notes.append(in_words(summarized))
            comparisons = self._compare_updated_parameters(check, runs, summarized)
            if fails(comparisons) or not (runs[0].records.values and runs[-1].records.values):  # after the last step
                return comparisons
        whole = runs[0].records
        if not any(key in summarized for key in whole.root_keys(OUTPUT)):
            require_elements(whole)
        require_finite(whole, self.true_dtype)
        self.notes += non_finite_notes(whole)
        common = self.in_common(runs, summarized)
        self.notes.append(common.lacking)
        grads = self.grads and same_cotangents(common.truth, common.records)
        if self.grads and not grads:
            lost = Comparison(self.side.name, check, END_TO_END, "input gradient", "", 0, NOT_COMPARED, OTHER_LOSS)
            comparisons.append(("", lost))
        missing = missing_gradients(whole, common.records) if grads else set()
        noise = self._noise(common.truth, runs[1].records, grads=grads)
        compared = self.compare(check, "isolated", common, noise, grads=grads)
        computed = list(attribute(compared, whole, common.truth, missing))
        if self.differing is None and any(c.status == FAIL and c.feeding == EQUAL_INPUTS for _, c in computed):
            self.differing = _evidence(check, dtype, step, common, noise)
        return [*comparisons, *computed, *detachments(self.side.name, check, EQUAL_INPUTS, whole, missing)]

    def _noise(self, truth: Records, working: Records, *, grads: bool) -> RecordedNoise | AssumedNoise:
        run = Run(self.working, Wanted(grads), ReferenceRun(truth.slots))
        return (
            RecordedNoise(self.reference_side, truth, run, working)
            if self.has_truth
            else AssumedNoise(self.reference_side, truth, run)
        )

    def _compare_updated_parameters(
        self, check: str, runs: Sequence[RecordedRun], summarized: Mapping[Boundary, Summarized]
    ) -> CellComparisons:
        """Compare the parameters that the steps before have made."""
        names = [name for name in runs[0].parameters if name in runs[-1].parameters]
        truth, working, records = (
            Records(state=State({name: run.parameters[name] for name in names if name in run.parameters}))
            for run in runs
        )
        # they are compared as what the steps before have written
        of_parameters: dict[Boundary, Summarized] = {
            ("buffer_update", boundary[1]): tensor
            for boundary, tensor in summarized.items()
            if not isinstance(boundary, Key) and boundary[0] == "parameter"
        }
        part = CommonPart(truth, truth, records, of_parameters, self.owners)
        noise = self._noise(truth, working, grads=False)
        compared = self.compare(check, "isolated", part, noise, grads=False)
        return [(path, replace(c, kind="parameter", feeding=EQUAL_INPUTS)) for path, c in compared]

    def with_program(self, differing: DifferingRun, report: Report) -> Side | None:
        """Return what the reference recorded in that run, with its program; None with a note if it has none."""
        network = RecordedNetwork(self.reference_side, self.true_dtype, differing.step, report.failing)
        if network.has_program:
            return network
        report.notes.append(
            f"no causes were looked for, since {self.reference_side.name} has no program of its network: "
            "parity record writes one"
        )
        return None


def _evidence(check: str, dtype: str, step: int, common: CommonPart, noise: Noise) -> DifferingRun:
    """Return what a run shows of the Cells that are wrong: they are run on the reference's values."""
    whole = common.whole
    cotangents = [whole.values.get(gradient_key(key)) for key in whole.root_keys(OUTPUT)]
    truth = replace(whole, gradients=replace(whole.gradients, cotangents=cotangents))
    fed = copy(noise)
    fed.run = replace(noise.run, feed=truth)
    return DifferingRun(check, dtype, step, EQUAL_INPUTS, truth, common.records, fed)


def _notes(reference: Recording, candidate: Recording) -> list[str]:
    notes = reference.notes
    if reference.index.mode != candidate.index.mode:
        notes.append(f"{reference.name} ran in {reference.index.mode} mode, {candidate.name} in {candidate.index.mode}")
    if changed := list(changed_versions(reference.index.versions, candidate.index.versions)):
        notes.append(f"versions, in {reference.name} → in {candidate.name}: {', '.join(changed)}")
    if reference.steps != candidate.steps:
        counts = ", ".join(f"{recording.name} has {len(recording.steps)}" for recording in (reference, candidate))
        notes.append(f"the recordings have different numbers of training steps: {counts}; the common ones were judged")
    return notes
