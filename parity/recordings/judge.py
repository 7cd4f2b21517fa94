"""`judge`: a recording judged by another one, the reference's.

Both networks have run end to end, on values of their own, so the values of a Cell may differ because of Cells before
it. A Cell is wrong itself where everything that it computes a value from agrees with the reference's, and the value
doesn't: its inputs and what the Cells that it called returned; backward, the gradients that arrived too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import Unpack

from ...runtime.errors import UsageError
from ..comparison.cells import cell_reports, non_finite_notes, owners, require_elements, require_finite
from ..comparison.comparer import Comparer, compare_parameters, fails
from ..comparison.noise import Noise, NoiseKey
from ..options import OptionKeywords, Options, from_keywords
from ..report.globs import list_names
from ..report.report import Report
from ..results.cell_report import CellReport
from ..results.comparison import FAIL, NOT_COMPARED, PASS, Comparison
from ..results.conditions import Conditions
from ..sides.records import OUTPUT, Array, Key, Records, State
from ..sides.run import ReferenceRun, Run, Wanted
from ..sides.side import Capabilities, ParameterInfo
from ..support.progress import NoProgress, Progress
from ..verdicts.deviations import size
from ..verdicts.judge import ROUNDING_FACTOR, Tolerance, epsilon
from .agreement import (
    common_part,
    comparable_part,
    other_numbers_of_calls,
    outputs_not_compared,
    recorded_around,
    recorded_owners,
    require_same_inputs,
    same_cotangents,
    set_presence,
)
from .attribution import END_TO_END, EQUAL_INPUTS, attribute
from .causes import DifferingRun
from .detached import detachments, missing_gradients
from .divided_gradients import with_whole_gradients
from .names import NameMap, read_names
from .recorded_side import RecordedSide
from .recording import Boundary, RecordedRun, Recording, open_recording
from .sharing import shared_differently
from .summaries import (
    Summarized,
    in_words,
    require_same_summarized_inputs,
    use_samples,
    with_summary,
)
from .summary_judge import SummaryJudge
from .versions import changed_versions

UNKNOWN = 8.0
"""Units in the last place that a reference without float64 is taken to be wrong by, times the root of its calls."""


OTHER_LOSS = (
    "no gradient was compared, because the backward passes start from other gradients of the outputs: record both with "
    "the same loss"
)


class AssumedNoise(Noise):
    """The rounding error of a reference that was recorded in its working dtype alone: it isn't known, but assumed.

    It is taken to be `UNKNOWN` units in the last place of a tensor's largest element, times the square root of the
    number of calls: roundings that add up at random.
    """

    def error(self, key: NoiseKey, check: str = "rounding") -> float:
        """The assumed error of a value."""
        value = self.truth.values.get(key) if isinstance(key, Key) else self._named(*key)
        return 0.0 if value is None else self.unit * size(value)

    @property
    def unit(self) -> float:
        """The error, relative to the largest element."""
        return UNKNOWN * epsilon(self.run.dtype) * math.sqrt(max(1, len(self.truth.calls)))

    def _named(self, what: str, name: str) -> Array | None:
        return self.truth.gradients.parameters.get(name) if what == "parameter" else self.truth.state.updates.get(name)


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
    judgement = _Judgement(open_recording(reference), open_recording(candidate), chosen, name_map)
    return judgement.report(progress or NoProgress())


class _Judgement:
    """Two recordings that are compared, and what was found so far."""

    def __init__(
        self, reference: Recording, candidate: Recording, options: Options, names: NameMap | None = None
    ) -> None:
        self.reference, self.candidate, self.options = reference, candidate, options
        ours = RecordedSide(reference.name, reference)
        self.has_truth, self.working = "float64" in reference.runs, reference.working_dtype
        self.true_dtype = "float64" if self.has_truth else self.working
        first = ours.recorded(self.true_dtype)
        whole = first.records
        tensors = first.parameters | whole.state.buffers | whole.state.updates
        self.theirs = RecordedSide(candidate.name, candidate, whole, names, tensors=tensors, aliases=reference.aliases)
        if self.theirs.sharing.ties.into:
            ours = RecordedSide(reference.name, reference, given_sharing=self.theirs.sharing)
            whole = ours.recorded(self.true_dtype).records
        self.ours = ours
        self.steps = [step for step in reference.steps if step in candidate.steps] or [0]
        self.checks = [check for check in self.theirs.capabilities.checks if self.has_truth or check[0] == "rounding"]
        if not self.checks:
            raise UsageError(
                f"{candidate.name} was recorded in float64 alone, and {reference.name} wasn't recorded in it: there is "
                "nothing to judge by\n  what to do: record the reference in float64 too"
            )
        # what no Cell was recorded around is the network's
        self.cells = {"": CellReport("", "")} | cell_reports(ours, whole)
        self.owners = owners(self.cells, ours, whole)
        self.grads = options.grads and ours.capabilities.gradients and self.theirs.capabilities.gradients
        self.notes = [*self.theirs.notes, *_notes(reference, candidate)]
        if options.grads and ours.capabilities.gradients and not self.theirs.capabilities.gradients:
            self.notes.append(f"{candidate.name} has no gradients, so none were compared")
        self.recorded: set[str] = set()  # paths of the Cells that both have
        self.differing: DifferingRun | None = None
        self.summarized: dict[Boundary, Summarized] = {}

    def report(self, progress: Progress) -> Report:
        """Judge every run of the candidate."""
        progress.stage(self.theirs.name, len(self.checks) * len(self.steps))
        found: list[tuple[str, Comparison]] = []
        for step in self.steps:
            for check, dtype in self.checks:
                compared = self._compare(check, dtype, step)
                found += [(path, replace(comparison, input=step + 1)) for path, comparison in compared]
                progress.advance()
            if fails(found) and len(self.steps) > 1:
                self.notes.append(_first_difference(step, found))
                break
        if not self.has_truth:
            self.notes.append(
                f"{self.ours.name} wasn't recorded in float64, so rounding alone was judged, by an assumed bar: "
                f"{ROUNDING_FACTOR * UNKNOWN:g} units in the last place of {self.working}, times the square root of "
                f"the number of calls, {len(self.ours.recorded(self.true_dtype).records.calls)}"
            )
        self._assign(found)
        whole = self.ours.recorded(self.true_dtype, self.steps[0]).records
        report = Report(
            model=self.options.model or self.reference.index.model or self.ours.name,
            reference=self.ours.name,
            sides=[self.theirs.name],
            dtype=self.working,
            train=self.reference.index.mode == "train",
            grads=self.grads,
            seed=self.reference.index.seed or 0,
            cells=self.cells,
            strict=self.options.strict,
            conditions=Conditions(self.options),
            notes=list(dict.fromkeys(filter(None, self.notes))),
            not_known=outputs_not_compared(whole, self.cells, self.ours.name, self.theirs.name, self.options),
        )
        report.structure += shared_differently(self.theirs.sharing, self.cells)
        if self.differing is not None and report.failing:
            self.differing.add_causes(report, (self.ours, self.theirs), self.options, progress)
        return report

    def _compare(self, check: str, dtype: str, step: int) -> list[tuple[str, Comparison]]:
        """Return the comparisons of one step of one run of the candidate, as (Cell path, comparison)."""
        ours = self.ours.recorded(self.true_dtype, step), self.ours.recorded(self.working, step)
        (true_run, working_run, run), self.summarized = use_samples(*ours, self.theirs.recorded(dtype, step))
        self.notes.append(in_words(self.summarized))
        if step:
            updated = self._compare_updated_parameters(check, true_run, working_run, run)
            if fails(updated) or not (true_run.records.values and run.records.values):  # after the last step
                return updated
            return updated + self._compare_step(check, dtype, step, true_run, working_run, run)
        return self._compare_step(check, dtype, step, true_run, working_run, run)

    def _compare_step(
        self, check: str, dtype: str, step: int, true_run: RecordedRun, working_run: RecordedRun, run: RecordedRun
    ) -> list[tuple[str, Comparison]]:
        """Return the comparisons of what the Cells computed."""
        whole = true_run.records
        if not any(key in self.summarized for key in whole.root_keys(OUTPUT)):
            require_elements(whole)
        require_finite(whole, "float64" if self.has_truth else self.working)
        self.notes += non_finite_notes(whole)
        require_same_inputs(whole, run.records, self.ours.name, self.theirs.name)
        require_same_summarized_inputs(self.summarized, self.ours.name, self.theirs.name)
        self.notes.append(other_numbers_of_calls(whole, run.records, self.ours.name, self.theirs.name))
        records, remark = with_whole_gradients(run.records, whole)
        self.notes.append(remark)
        records = comparable_part(records, whole, true_run.parameters)
        truth, lacking = common_part(whole, records, run.parameters)
        if lacking:
            self.notes.append(f"{self.theirs.name} doesn't have {lacking}, which weren't compared")
        self.recorded |= {key.path for key in truth.values}
        found: list[tuple[str, Comparison]] = []
        if check == self.checks[-1][0] and not step:  # in the working dtype, if there is a run in it
            found += _compare_parameters(self.theirs.name, working_run, run, self.owners, self.summarized)
        grads = self.grads and same_cotangents(truth, records)
        if self.grads and not grads:
            lost = Comparison(self.theirs.name, check, END_TO_END, "input gradient", "", 0, NOT_COMPARED, OTHER_LOSS)
            found.append(("", lost))
        of_cells = recorded_owners(self.owners, truth)
        comparer = self._comparer(truth, working_run.records, of_cells, self.summarized, grads)
        missing = missing_gradients(whole, records) if grads else set()
        computed = list(attribute(comparer.compare(check, records), whole, truth, missing))
        if self.differing is None and any(c.status == FAIL and c.feeding == EQUAL_INPUTS for _, c in computed):
            dtypes, noise = (self.true_dtype, dtype), comparer.values.noise
            self.differing = DifferingRun(check, dtypes, step, whole, records, noise)
        found += computed
        return [*found, *detachments(self.theirs.name, check, EQUAL_INPUTS, whole, missing)]

    def _comparer(
        self,
        truth: Records,
        working: Records,
        owner_of: Mapping[str, str],
        summarized: Mapping[Boundary, Summarized],
        grads: bool,
    ) -> Comparer:
        """Return what compares a run of the candidate with the truth, by the error of the reference's working run."""
        kind = Noise if self.has_truth else AssumedNoise
        one_run = _OneRun(self.ours.name, working, self.ours.capabilities)
        noise = kind(
            one_run, truth, Run(self.working, Wanted(grads), ReferenceRun(truth.slots)), unmeasured=not self.has_truth
        )
        tolerance = Tolerance(self.working, self.options.rtol, self.options.atol)
        assumed = noise.unit if isinstance(noise, AssumedNoise) else 0.0
        values = SummaryJudge(truth, noise, tolerance, summarized=summarized, assumed=assumed)
        return Comparer(self.theirs.name, "isolated", values, owner_of, grads)

    def _compare_updated_parameters(
        self, check: str, true_run: RecordedRun, working_run: RecordedRun, run: RecordedRun
    ) -> list[tuple[str, Comparison]]:
        """Compare the parameters that the steps before have made."""
        common = [name for name in true_run.parameters if name in run.parameters]
        truth, working, records = (
            Records(state=State({name: one.parameters[name] for name in common if name in one.parameters}))
            for one in (true_run, working_run, run)
        )
        # they are compared as what the steps before have written
        of_parameters: dict[Boundary, Summarized] = {
            ("buffer_update", boundary[1]): one
            for boundary, one in self.summarized.items()
            if not isinstance(boundary, Key) and boundary[0] == "parameter"
        }
        comparer = self._comparer(truth, working, self.owners, of_parameters, grads=False)
        comparisons = comparer.compare(check, records)
        return [(path, replace(c, kind="parameter", feeding=EQUAL_INPUTS)) for path, c in comparisons]

    def _assign(self, found: list[tuple[str, Comparison]]) -> None:
        """Assign the comparisons to the Cells that are judged."""
        found = [(recorded_around(p, self.cells if c.kind == "parameter" else self.recorded), c) for p, c in found]
        selects = self.options.selects
        left_out = sorted({path for path, c in found if c.status != PASS and c.of_cell_alone and not selects(path)})
        if left_out:  # what differs because of them says nothing about the Cells that are judged
            self.notes.append(f"Cells that were left out differ: {list_names([path or '(root)' for path in left_out])}")
            found = [(path, c) for path, c in found if c.status == PASS or c.of_cell_alone]
        for path, comparison in found:
            self.cells[path].comparisons.append(comparison)
        set_presence(self.cells, self.options, self.recorded)


def _compare_parameters(
    side: str,
    reference: RecordedRun,
    candidate: RecordedRun,
    owner_of: Mapping[str, str],
    summarized: Mapping[Boundary, Summarized],
) -> list[tuple[str, Comparison]]:
    """Compare the values of the parameters that both recordings have."""
    found: list[tuple[str, Comparison]] = []
    for name in reference.parameters:
        if name in candidate.parameters:  # one by one, so that memory is given back
            ours, theirs = ({name: ParameterInfo(run.parameters[name], True)} for run in (reference, candidate))
            found += compare_parameters(side, ours, theirs, owner_of)
    return [(path, with_summary(c, summarized)) for path, c in found]


@dataclass(frozen=True)
class _OneRun:
    """A reference of which one run is known."""

    name: str
    records: Records
    capabilities: Capabilities

    def run(self, run: Run) -> Records:
        """Return that run."""
        return self.records

    def parameters(self) -> dict[str, ParameterInfo]:
        """Return nothing: they were compared."""
        return {}


def _first_difference(step: int, found: Sequence[tuple[str, Comparison]]) -> str:
    """Return a note on the training step in which something differs first."""
    later = "later steps weren't judged, since they start from what differs"
    if any(c.status == FAIL and c.kind == "parameter" for _, c in found) and step:
        return (
            f"the parameters differ first after training step {step}, before which nothing differs: the update is "
            f"wrong (optimizer, learning rate, weight decay, clipping); {later}"
        )
    return f"training step {step + 1} is the first that differs; {later}"


def _notes(reference: Recording, candidate: Recording) -> list[str]:
    notes = reference.notes
    if reference.index.mode != candidate.index.mode:
        notes.append(f"{reference.name} ran in {reference.index.mode} mode, {candidate.name} in {candidate.index.mode}")
    if changed := list(changed_versions(reference.index.versions, candidate.index.versions)):
        notes.append(f"versions, in {reference.name} → in {candidate.name}: {', '.join(changed)}")
    if reference.steps != candidate.steps:
        counts = ", ".join(f"{one.name} has {len(one.steps)}" for one in (reference, candidate))
        notes.append(f"the recordings have different numbers of training steps: {counts}; the common ones were judged")
    return notes
