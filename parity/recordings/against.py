"""`compare_with_recording`: a living module compared with a network that ran elsewhere.

The module can be run on the values that were recorded: each of its Cells on the inputs that the other network's Cell
had. So every Cell is judged alone, as in `parity run`, and end to end too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from ...converter.exclusive import one_at_a_time
from ...recorder import library_versions
from ..comparison.causes import add_causes
from ..comparison.cells import cell_reports, owners, require_elements, require_finite
from ..comparison.comparer import Comparer, compare_parameters, fails
from ..comparison.measured_errors import remeasure
from ..comparison.noise import Noise
from ..diagnosis.budget import Budget
from ..inputs.arguments import as_arguments
from ..options import OptionKeywords, Options, from_keywords
from ..pairing.same_inputs import inputs_to_join
from ..report.report import Report
from ..results.comparison import FAIL, Comparison
from ..results.conditions import Conditions
from ..results.modes import mode_notes
from ..sides.records import OUTPUT, OUTPUT_GRADIENT, Array, Key, Records
from ..sides.run import FORWARD, ReferenceRun, Run, Wanted
from ..sides.side import ParameterInfo, Side
from ..sides.torch_side import TorchSide
from ..support.progress import NoProgress, Progress
from ..verdicts.judge import Tolerance
from .agreement import (
    common_part,
    comparable_part,
    other_numbers_of_calls,
    outputs_not_compared,
    recorded_around,
    recorded_owners,
    require_same_inputs,
    set_presence,
)
from .causes import widened
from .detached import detachments, missing_gradients
from .divided_gradients import with_whole_gradients
from .names import NameMap, read_names
from .recorded_network import RecordedNetwork
from .recorded_side import RecordedSide
from .recording import RecordedRun, Recording, open_recording
from .sharing import other_names, shared_differently
from .summaries import in_words, require_same_summarized_inputs, use_samples, with_summary
from .summary_judge import SummaryJudge
from .versions import changed_versions

ISOLATED, END_TO_END = "isolated", "end to end"


@one_at_a_time
def compare_with_recording(
    module: torch.nn.Module,
    recording: str | PathLike[str],
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    names: str | PathLike[str] | None = None,
    perturbed: Callable[[], Path] | None = None,
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Compare a module with a recording of another network, Cell by Cell, isolated and end to end.

    Args:
        module: the reference.
        recording: folder of the recording, made on the same inputs.
        args: positional inputs.
        kwargs: keyword inputs.
        names: TOML file that says what the module's Cells and parameters are called in the recording; None if they
            have the same names.
        perturbed: makes another recording of the network, with the numbers in its code perturbed, and returns its
            folder: a number that is rounded to float32 is no fault. None if the network can't be run here.
        progress: receives the stages.
        **options: fields of `Options`.

    Returns:
        The report. The gradients of the outputs are those of the recording.

    Raises:
        UsageError: the recording can't be read, has nothing in common with the module, or was made on other inputs.
    """
    chosen, stages = from_keywords(Options, compare_with_recording, options), progress or NoProgress()
    args, keywords = as_arguments(args, kwargs)
    opened = open_recording(recording)
    if chosen.train is None and opened.index.mode == "train":
        chosen = replace(chosen, train=True)
    in_dtype = replace(chosen, dtype=opened.working_dtype)
    reference = TorchSide.of_options("torch", module, args, keywords, in_dtype)
    name_map = None if names is None else read_names(names)
    again = None if perturbed is None else lambda: open_recording(perturbed())
    return _Comparison(reference, opened, chosen, stages, name_map, again).report()


class _Comparison:
    """One comparison; the report is made once."""

    def __init__(
        self,
        reference: TorchSide,
        recording: Recording,
        options: Options,
        progress: Progress,
        names: NameMap | None,
        perturbed: Callable[[], Recording] | None,
    ) -> None:
        self.options, self.progress = options, progress
        progress.stage("reference", 2)
        first = reference.run(Run("float64", FORWARD))
        require_elements(first)
        require_finite(first, "float64")
        tensors = (
            {name: info.data for name, info in reference.parameters().items()}
            | first.state.buffers
            | first.state.updates
        )
        aliases = other_names(reference.module)

        def side(first: Records) -> RecordedSide:
            return RecordedSide(
                recording.name, recording, first, names, tensors=tensors, aliases=aliases, perturbed=perturbed
            )

        self.side = side(first)
        (_, dtype), *_ = self.side.capabilities.checks
        recorded = self.side.recorded(dtype).records
        joined, _ = inputs_to_join(first.slots, first.boundaries.same, recorded.slots, {})
        if joined:
            first = replace(reference, joined=joined).run(Run("float64", FORWARD))
            self.side = side(first)
        self.reference = reference = replace(reference, joined=joined, ties=self.side.sharing.ties)
        self.run = self._run_of(first)
        progress.advance()
        self.truth: Records = reference.run(self.run)
        progress.advance()
        self.working = recording.working_dtype if recording.working_dtype != "float64" else "float32"
        self.cells = cell_reports(reference, self.truth)
        self.owners = owners(self.cells, reference, self.truth)
        self.notes: list[str] = []
        self.recorded: set[str] = set()

    def _run_of(self, first: Records) -> Run:
        """Return the run whose backward pass starts from the gradients that were recorded at the outputs."""
        _, dtype = self.side.capabilities.checks[0]
        records = self.side.recorded(dtype).records
        cotangents: list[Array | None] = []
        for slot in first.slots.get(("", 0, OUTPUT), []):
            gradient = records.values.get(Key("", 0, OUTPUT_GRADIENT, slot))
            cotangents.append(None if gradient is None else gradient.astype(np.float64))
        grads = self._wants_gradients and any(cotangent is not None for cotangent in cotangents)
        return Run("float64", Wanted(grads), ReferenceRun.of(first, cotangents if grads else None))

    @property
    def _wants_gradients(self) -> bool:
        """Whether gradients are to be compared, as far as the recording has them."""
        return self.options.grads and self.side.capabilities.gradients

    def report(self) -> Report:
        """Judge every run of the recording."""
        found: list[tuple[str, Comparison]] = []
        checks = self.side.capabilities.checks
        self.progress.stage(self.side.name, 2 * len(checks))
        found += self._parameters()
        failing: tuple[str, str, Records, Records, Noise] | None = None
        for check, dtype in checks:
            recorded = self.side.recorded(dtype)
            records = recorded.records
            require_same_inputs(self.truth, records, "the model file", self.side.name)
            self._require_same_summarized_inputs(recorded)
            self.notes.append(other_numbers_of_calls(self.truth, records, "the model", self.side.name))
            records, remark = with_whole_gradients(records, self.truth)
            self.notes.append(remark)
            records = comparable_part(records, self.truth, self.reference.parameters())
            missing = missing_gradients(self.truth, records) if self.run.wanted.grads else set()
            zeros = {key: np.zeros(self.truth.values[key].shape) for key in missing}
            run = replace(self.run, feed=replace(records, values=records.values | zeros))
            fed: Records = self.reference.run(run)
            noise = Noise(self.reference, fed, replace(run, dtype=self.working))
            isolated, lacking = self._compare(check, ISOLATED, fed, noise, records, recorded)
            if lacking:
                self.notes.append(f"{self.side.name} doesn't have {lacking}, which weren't compared")
            isolated += detachments(self.side.name, check, ISOLATED, self.truth, missing)
            found += isolated
            self.progress.advance()
            if failing is None and any(c.status == FAIL for _, c in isolated):
                failing = check, dtype, fed, records, noise
            root = replace(self.run, dtype=self.working).want(inner=False)
            end_to_end = Noise(self.reference, self.truth, root)
            found += self._compare(check, END_TO_END, self.truth, end_to_end, records, recorded)[0]
            self.progress.advance()
        report = self._empty_report()
        for path, comparison in found:
            place = recorded_around(path, self.cells if comparison.kind == "parameter" else self.recorded)
            self.cells[place].comparisons.append(comparison)
        set_presence(self.cells, self.options, self.recorded)
        sides = "the model", self.side.name
        report.not_known = outputs_not_compared(self.truth, self.cells, *sides, self.options)
        report.structure += shared_differently(self.side.sharing, self.cells)
        if failing is not None and report.failing:
            self._add_causes(report, *failing)
        return report

    def _parameters(self) -> list[tuple[str, Comparison]]:
        """Compare the values of the parameters that both have."""
        theirs = self.side.parameters()
        own = self.reference.parameters()
        ours = {name: replace(i, trainable=True) for name, i in own.items() if name in theirs}
        found = compare_parameters(self.side.name, ours, {name: theirs[name] for name in ours}, self.owners)
        truth = RecordedRun(Records(), {name: info.data for name, info in own.items()})
        run = self.side.recorded(self.side.recording.working_dtype)
        (sampled, other), summarized = use_samples(truth, None, RecordedRun(Records(), summaries=run.summaries))
        for name in [name for name in other.parameters if name in sampled.parameters]:
            info, given = (ParameterInfo(one.parameters[name], True) for one in (sampled, other))
            of_name = compare_parameters(self.side.name, {name: info}, {name: given}, self.owners)
            found += [(path, with_summary(comparison, summarized)) for path, comparison in of_name]
        return found

    def _require_same_summarized_inputs(self, recorded: RecordedRun) -> None:
        _, summarized = use_samples(RecordedRun(self.truth), None, recorded)
        require_same_summarized_inputs(summarized, "the model file", self.side.name)

    def _compare(
        self, check: str, feeding: str, truth: Records, noise: Noise, records: Records, recorded: RecordedRun
    ) -> tuple[list[tuple[str, Comparison]], str]:
        """Compare what was recorded with a run of the reference.

        Returns:
            The comparisons, as (Cell path, comparison), and what wasn't recorded, in words.
        """
        run = RecordedRun(records, summaries=recorded.summaries)
        # a recording has the whole gradient of a parameter that several Cells share
        (truth_run, run), summarized = use_samples(
            RecordedRun(replace(truth, gradients=replace(truth.gradients, shares={}))), None, run
        )
        self.notes.append(in_words(summarized))
        records, _ = with_whole_gradients(run.records, truth)
        records = comparable_part(records, truth, self.reference.parameters())
        truth, lacking = common_part(truth_run.records, records, recorded.parameters)
        self.recorded |= {key.path for key in truth.values}
        tolerance = Tolerance(self.working, self.options.rtol, self.options.atol)
        owners_there = recorded_owners(self.owners, truth)
        values = SummaryJudge(truth, noise, tolerance, summarized=summarized)
        comparer = Comparer(self.side.name, feeding, values, owners_there, self.run.wanted.grads)

        def compare() -> list[tuple[str, Comparison]]:
            return comparer.compare(check, records)

        rounded = [self.side] if check == "meaning" and self.side.perturbed is not None else []
        measures = [(fails, lambda: noise.allow_rounded_numbers(rounded)), (fails, lambda: noise.sample(check))]
        found = remeasure(compare(), compare, *measures)
        if fails(found) and check == "rounding":
            paths = sorted({path for path, c in found if c.status == FAIL})
            if noise.compute_bounds(paths):
                found = compare()
        return found, lacking

    def _empty_report(self) -> Report:
        notes = [*mode_notes(self.reference.module, self.options.train), *self.notes, *self.side.notes]
        if changed := list(changed_versions(self.side.recording.index.versions, library_versions())):
            notes.append(f"versions, in the recording → now: {', '.join(changed)}")
        if len(self.side.recording.steps) > 1:
            notes.append("the first training step alone was compared: parity judge compares all of two recordings")
        if self.options.grads and not self.side.capabilities.gradients:
            notes.append(f"{self.side.name} has no gradients, so none were compared")
        if self._wants_gradients and not self.run.wanted.grads:
            notes.append(
                f"gradients weren't compared: {self.side.name} doesn't have those of the outputs, from which the "
                "backward pass starts"
            )
        return Report(
            model=self.options.model or type(self.reference.module).__name__,
            reference=self.reference.name,
            sides=[self.side.name],
            dtype=self.working,
            train=bool(self.options.train),
            grads=self.run.wanted.grads,
            seed=self.options.seed,
            cells=self.cells,
            strict=self.options.strict,
            conditions=Conditions(self.options),
            notes=list(dict.fromkeys(filter(None, notes))),
        )

    def _add_causes(self, report: Report, check: str, dtype: str, fed: Records, records: Records, noise: Noise) -> None:
        """Look for causes: what was recorded is the evidence, of a network that got the same values."""
        if self.options.diagnose_seconds == 0:
            return
        budget = Budget.of(self.options.diagnose_seconds, fed)
        self.progress.stage("causes", None)
        network = RecordedNetwork(self.side, dtype, 0, report.failing)
        side: Side = network if network.has_program else self.side
        add_causes(
            report, self.reference, side, fed, widened(records, fed), noise, budget, grads=report.grads, check=check
        )
        report.notes += [budget.note] if budget.note else []
