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

from ....converter.exclusive import one_at_a_time
from ....recorder import library_versions
from ...correspondence.same_inputs import inputs_to_join
from ...inputs.arguments import as_arguments
from ...judging.comparer import CellComparisons, fails
from ...judging.coverage import add_coverage
from ...judging.noise import Noise
from ...options import OptionKeywords, Options, from_keywords
from ...report.report import Report
from ...results.modes import mode_notes
from ...sides.records import OUTPUT, OUTPUT_GRADIENT, Array, Key, Records
from ...sides.reported_cells import cell_reports, require_elements, require_finite
from ...sides.run import FORWARD, ReferenceRun, Run, Wanted
from ...sides.torch_side import TorchSide
from ...support.progress import NoProgress, Progress
from .agreement import comparable_part, with_whole_gradients
from .attribution import detachments, missing_gradients
from .causes import DifferingRun
from .names import NameMap, read_names
from .recorded_side import RecordedSide
from .recording import RecordedRun, Recording, open_recording
from .sharing import other_names
from .summaries import use_samples
from .trial import CommonPart, RecordedTrial
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
    report = _LivingReference(reference, opened, chosen, stages, name_map, again).report()
    add_coverage(report, report.sides[0], module, args, keywords, in_dtype)
    return report


class _LivingReference(RecordedTrial):
    """A recording, judged by a module that is run on the values that were recorded."""

    def __init__(
        self,
        reference: TorchSide,
        recording: Recording,
        options: Options,
        progress: Progress,
        names: NameMap | None,
        perturbed: Callable[[], Recording] | None,
    ) -> None:
        progress.stage("reference", 2)
        first = reference.run(Run("float64", FORWARD))
        require_elements(first)
        require_finite(first, "float64")
        own = reference.parameters()
        tensors = {name: info.data for name, info in own.items()} | first.state.buffers | first.state.updates
        aliases = other_names(reference.module)

        def side_of(first: Records) -> RecordedSide:
            return RecordedSide(
                recording.name, recording, first, names, tensors=tensors, aliases=aliases, perturbed=perturbed
            )

        side = side_of(first)
        checks = side.capabilities.checks
        recorded = side.recorded(checks[0][1]).records
        joined, _ = inputs_to_join(first.slots, first.boundaries.same, recorded.slots, {})
        if joined:
            first = replace(reference, joined=joined).run(Run("float64", FORWARD))
            side = side_of(first)
            recorded = side.recorded(checks[0][1]).records
        self.module = replace(reference, joined=joined, ties=side.sharing.ties)
        wants_gradients = options.grads and side.capabilities.gradients
        cotangents = _cotangents(first, recorded)
        grads = wants_gradients and any(cotangent is not None for cotangent in cotangents)
        self.run = Run("float64", Wanted(grads), ReferenceRun.of(first, cotangents if grads else None))
        progress.advance()
        truth = self.module.run(self.run)
        progress.advance()
        self.working = recording.working_dtype if recording.working_dtype != "float64" else "float32"
        model = options.model or type(self.module.module).__name__
        settings = replace(options, model=model, dtype=self.working, grads=grads)
        cells = cell_reports(self.module, truth)
        parameters = RecordedRun(Records(), {name: info.data for name, info in self.module.parameters().items()})
        super().__init__(
            self.module, side, truth, parameters, cells, options, progress, settings=settings, checks=checks
        )
        self.called = "the model", side.name
        self.notes += self._first_notes(wants_gradients=wants_gradients)

    def judge_run(self, check: str, dtype: str, step: int) -> CellComparisons:
        """Judge a run: each Cell on the values that were recorded, and the network on its inputs."""
        recorded, grads = self.side.recorded(dtype), self.run.wanted.grads
        whole = self._in_common_with(self.truth, recorded)
        records, _ = with_whole_gradients(recorded.records, self.truth)
        records = comparable_part(records, self.truth, self.parameters.parameters)
        missing = missing_gradients(self.truth, records) if grads else set()
        zeros = {key: np.zeros(self.truth.values[key].shape) for key in missing}
        run = replace(self.run, feed=replace(records, values=records.values | zeros))
        truth = self.module.run(run)
        noise = Noise(self.module, truth, replace(run, dtype=self.working))
        rounded = [self.side] if self.side.perturbed is not None else []
        part = self._in_common_with(truth, recorded)
        self.notes.append(part.lacking)
        isolated = self.compare(check, ISOLATED, part, noise, grads=grads, rounded=rounded)
        isolated += detachments(self.side.name, check, ISOLATED, self.truth, missing)
        if self.differing is None and fails(isolated):
            self.differing = DifferingRun(check, dtype, step, ISOLATED, truth, records, noise)
        root = Noise(self.module, self.truth, replace(self.run, dtype=self.working).want(inner=False))
        return isolated + self.compare(check, END_TO_END, whole, root, grads=grads, rounded=rounded)

    def _in_common_with(self, truth: Records, recorded: RecordedRun) -> CommonPart:
        # a recording has the whole gradient of a parameter that several Cells share
        whole = replace(truth, gradients=replace(truth.gradients, shares={}))
        return self.in_common(*use_samples(RecordedRun(whole, self.parameters.parameters), None, recorded))

    def with_program(self, differing: DifferingRun, report: Report) -> TorchSide:
        """Return the module."""
        return self.module

    def _first_notes(self, *, wants_gradients: bool) -> list[str]:
        recording, side = self.side.recording, self.side
        notes = [*mode_notes(self.module.module, self.options.train), *side.notes]
        if changed := list(changed_versions(recording.index.versions, library_versions())):
            notes.append(f"versions, in the recording → now: {', '.join(changed)}")
        if len(recording.steps) > 1:
            notes.append("the first training step alone was compared: parity judge compares all of two recordings")
        if self.options.grads and not side.capabilities.gradients:
            notes.append(f"{side.name} has no gradients, so none were compared")
        if wants_gradients and not self.run.wanted.grads:
            notes.append(
                f"gradients weren't compared: {side.name} doesn't have those of the outputs, from which the backward "
                "pass starts"
            )
        return notes


def _cotangents(first: Records, recorded: Records) -> list[Array | None]:
    """Return the gradients that were recorded at the network's outputs, from which the backward pass starts."""
    slots = first.slots.get(("", 0, OUTPUT), [])
    gradients = (recorded.values.get(Key("", 0, OUTPUT_GRADIENT, slot)) for slot in slots)
    return [None if gradient is None else gradient.astype(np.float64) for gradient in gradients]
