"""`Prober`: judges sides on inputs derived from the given ones, as long as there is time."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...runtime.errors import CellbridgeError
from ...runtime.ir.types import is_floating
from ..comparison.cells import require_elements, require_finite
from ..comparison.choices import ChoiceFinder
from ..comparison.comparer import Comparer
from ..comparison.measured_errors import remeasure
from ..comparison.noise import Noise
from ..comparison.value_judge import ValueJudge
from ..options import Options
from ..results.comparison import FAIL, Comparison
from ..sides.cell_side import CellSide
from ..sides.records import INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records, Run, Side
from ..verdicts.deviations import size
from ..verdicts.judge import Tolerance
from .inside import layers_of, with_other_values
from .plan import probes
from .probe import Probe

LEAST_SECONDS = 10.0
"""Probing may take as long as the comparison did, and at least this long."""
GRADIENT_SHARE = 0.25
"""The share of the time that is kept for gradients, which come after the outputs on all probes."""
IMPRECISE = 100.0
"""Factor on the bar of a side that has no float64, since its precision is judged on the given inputs alone."""
JUMP = 1e6
"""A difference that is so many times larger than its bar is no rounding, even of numbers in float32."""
GRADIENTS = (INPUT_GRADIENT, OUTPUT_GRADIENT)
ISOLATED = "isolated"
FEEDINGS = ("end to end", "second call", "third call")
"""The feeding of a comparison at the root, by the number of calls before."""

CellComparisons = list[tuple[str, Comparison]]


@dataclass
class _Counts:
    """Numbers of probes on which a side was judged, the reference can't be, and there was no time; choices made."""

    judged: int = 0
    refused: int = 0
    late: int = 0
    chosen: set[str] = field(default_factory=set)


@dataclass
class Prober:
    """The probes of one comparison.

    Attributes:
        reference: the reference.
        truth: its records in float64, on the given inputs.
        replayed: the settings of its run.
        options: options of the run.
        working_dtype: dtype that noise is measured in.
        owners: paths of the Cells that own parameters and buffers.
        rounded: the sides whose numbers may have been rounded to float32.
        choices: finds the reference's choices, such as the signs of eigenvectors.
        judged: names of the probes that a side was judged on.
        notes: remarks for the reader of the report.
        spent: seconds that probing took.
        evidence: by name of a side that failed, truth, records and noise of the isolated run in float64, or of the run
            end to end after other calls.
    """

    reference: Side
    truth: Records
    replayed: Run
    options: Options
    working_dtype: str
    owners: Mapping[str, str]
    rounded: Sequence[Side]
    choices: ChoiceFinder
    judged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    spent: float = 0.0
    evidence: dict[str, tuple[Records, Records, Noise]] = field(default_factory=dict)
    _truths: dict[tuple[str, bool], tuple[Run, Records] | None] = field(default_factory=dict)

    def restart(self, side: Side, replayed: Run) -> None:
        """Forget what was found in a side, which is judged again with other settings of the reference's run."""
        self.replayed, self.spent = replayed, 0.0
        self.evidence.pop(side.name, None)

    def judge(self, side: Side, seconds: float) -> CellComparisons:
        """Return the failures of the first probe that a side fails on; none if it passes on all.

        Args:
            side: a side that passes on the given inputs.
            seconds: the longest time to take, for all sides together.
        """
        started, already = time.monotonic(), self.spent
        counts = {False: _Counts(), True: _Counts()}
        longest = max(seconds, LEAST_SECONDS)
        for_outputs = longest * (1 - GRADIENT_SHARE) if self._compares_gradients(side) else longest
        found: CellComparisons = []
        for grads, probe in self._in_order(side):
            count = counts[grads]
            self.spent = already + time.monotonic() - started
            if probe.choice in count.chosen:
                continue
            if self.spent > (longest if grads else for_outputs):
                count.late += 1
                continue
            on_reference = self._on_reference(probe, grads=grads)
            if on_reference is None:
                count.refused += not probe.choice
                continue
            if probe.choice:
                count.chosen.add(probe.choice)
            try:
                found = self._judge_with_choices(side, probe, *on_reference)
            except CellbridgeError as error:
                self.notes.append(f"{side.name} was not compared with {probe.name}: {error}".partition("\n")[0])
                continue
            count.judged += 1
            if probe.name not in self.judged:
                self.judged.append(probe.name)
            if found:
                break
        self.spent = already + time.monotonic() - started
        self.notes.append(_note(side.name, self.reference.name, counts[False], counts[True]))
        return found

    def _in_order(self, side: Side) -> Iterator[tuple[bool, Probe]]:
        """Yield the probes, with whether gradients are compared on them: first all without."""
        planned: list[Probe] = []
        for probe in probes(self.reference, side):
            planned.append(probe)
            yield False, probe
        if self._compares_gradients(side):
            yield from ((True, probe) for probe in planned if probe.has_gradients)

    def _compares_gradients(self, side: Side) -> bool:
        return self.options.grads and side.capabilities.gradients

    def _on_reference(self, probe: Probe, *, grads: bool) -> tuple[Run, Records] | None:
        """The settings and records of the reference's run in float64; None if it can't be judged by."""
        key = probe.name, grads
        if key not in self._truths:
            try:
                self._truths[key] = self._run_reference(probe, grads=grads)
            except CellbridgeError:  # it doesn't take these inputs, or its outputs aren't finite
                self._truths[key] = None
        return self._truths[key]

    def _run_reference(self, probe: Probe, *, grads: bool) -> tuple[Run, Records] | None:
        run = replace(self.replayed, grads=grads, cotangents=None, choices={})
        if probe.inside is not None:
            feed = with_other_values(self.truth, layers_of(self.reference), probe.inside)
            if feed is None:
                return None
            run = replace(run, feed=feed, cotangents=self.replayed.cotangents if grads else None)
            truth = self.reference.run(run)
            if grads and not _has_finite_gradients(truth):
                return None
            finite = {key: array for key, array in truth.values.items() if key.path == "" or _share_finite(array) == 1}
            return run, replace(truth, values=finite)
        if probe.needs_live:
            run = Run("float64", grads=grads)
        run = replace(run, arguments=probe.arguments, before=probe.before, other_mode=probe.other_mode)
        truth = self.reference.run(run)
        require_elements(truth)
        outputs = [truth.values[key] for key in truth.root_keys(OUTPUT)]
        if not probe.not_finite:
            require_finite(truth, "float64")
        elif not any(map(_share_finite, outputs)):
            return None
        if grads and not _has_finite_gradients(truth):
            return None
        cotangents = truth.cotangents if grads else None
        run = replace(
            run, slots=truth.slots, result=truth.result, draws=truth.draws, inner=False, cotangents=cotangents
        )
        return run, replace(truth, values=_at_root(truth))

    def _judge_with_choices(self, side: Side, probe: Probe, run: Run, truth: Records) -> CellComparisons:
        """Return the failures of a side; if there are any, those with the choices that the reference makes here."""
        found = self._judge(side, probe, run, truth)
        if not found or not self.replayed.choices:
            return found
        choices = self.choices.of(run, self.reference.run(replace(run, inner=True)))
        return self._judge(side, probe, replace(run, choices=choices), truth) if choices else found

    def _judge(self, side: Side, probe: Probe, run: Run, truth: Records) -> CellComparisons:
        """Return the failures of a side: in its Cells, if they can be told, and at the root."""
        if run.feed is not None:
            return self._failures(side, probe, run, truth, ISOLATED)
        found = self._failures(side, probe, run, truth, FEEDINGS[len(run.before)])
        if found and probe.resized and probe.before:  # is it the size alone, without the call before?
            alone = replace(probe, before=())
            on_reference = self._run_reference(alone, grads=run.grads)
            return (self._judge(side, alone, *on_reference) if on_reference is not None else []) or found
        keeps_layouts = not (probe.resized and isinstance(side, CellSide) and side.layouts)
        if not found or not side.capabilities.cells or not keeps_layouts:
            return found
        inner = self.reference.run(replace(run, inner=True))
        return self._failures(side, probe, replace(run, inner=True, feed=inner), inner, ISOLATED) + found

    def _failures(self, side: Side, probe: Probe, run: Run, truth: Records, feeding: str) -> CellComparisons:
        """Return what fails in a run of a side, by the reference's own errors on the same inputs."""
        can = side.capabilities
        check, dtype = can.checks[0]
        noise_run = replace(run, dtype=self.working_dtype if check == "meaning" else dtype)
        noise = Noise(self.reference, truth, noise_run, unmeasured=check == "meaning")
        tolerance = Tolerance(noise_run.dtype, self.options.rtol, self.options.atol)
        values = ValueJudge(truth, noise, tolerance, is_port=can.is_port)
        comparer = Comparer(side.name, feeding, values, self.owners, run.grads)
        records = side.run(replace(run, dtype=dtype))
        if probe.other_mode and not _has_this_mode(truth, records):
            self.notes.append(f"{side.name} was not compared in {probe.name}: it has other statistics or random draws")
            return []

        def compare() -> CellComparisons:
            return [
                (path, replace(c, probe=probe.name))
                for path, c in comparer.compare(check, records)
                if c.status == FAIL
                and not (probe.ties and _is_position(c))
                and (check == "meaning" or tolerance.overridden or c.error >= IMPRECISE * c.bar)
            ]

        def may_be_rounding(found: CellComparisons) -> bool:
            return bool(found) and not (probe.exact and any(c.error >= JUMP * c.bar for _, c in found))

        found = remeasure(
            compare(),
            compare,
            (bool, lambda: not noise.samples["rounding"] and noise.sample()),
            (may_be_rounding, lambda: check == "meaning" and noise.allow_rounded_numbers(self.rounded)),
            (may_be_rounding, lambda: noise.sample(check)),
        )
        if found and check == "meaning" and (feeding == ISOLATED or run.before):
            self.evidence[side.name] = truth, records, noise
        return found


def _share_finite(array: Array) -> float:
    return float(np.isfinite(array.astype(np.float64)).mean()) if is_floating(array.dtype) and array.size else 1.0


def _is_position(c: Comparison) -> bool:
    """Whether a tensor holds whole numbers, which depend on rounding where values are equal."""
    return c.kind in ("output", "passed value") and c.dtype.startswith(("int", "uint", "bool"))


def _has_this_mode(truth: Records, records: Records) -> bool:
    """Whether a side makes the same draws and updates the same buffers: else it was made for one mode alone."""
    return records.draws.keys() == truth.draws.keys() and records.updates.keys() == truth.updates.keys()


def _has_finite_gradients(truth: Records) -> bool:
    gradients = [array for key, array in truth.values.items() if key.kind in GRADIENTS]
    gradients += [gradient for gradient in truth.parameter_gradients.values() if gradient is not None]
    return all(_share_finite(gradient) == 1 for gradient in gradients if gradient.size)


def _at_root(truth: Records) -> dict[Key, Array]:
    """The values at the root, and the sizes of the gradients inside, since all values take much memory."""
    of_gradients = {
        key: np.asarray(size(array)) for key, array in truth.values.items() if key.path and key.kind in GRADIENTS
    }
    return {key: array for key, array in truth.values.items() if not key.path} | of_gradients


def _note(side: str, reference: str, of_outputs: _Counts, of_gradients: _Counts) -> str:
    text = f"{side} was also compared on {of_outputs.judged} inputs derived from the given ones"
    if of_gradients.judged:
        text += f", with gradients on {of_gradients.judged}"
    if of_outputs.refused:
        text += f"; {reference} doesn't run, or isn't finite, on {of_outputs.refused} others"
    late = [f"{of_outputs.late} more"] if of_outputs.late else []
    late += [f"the gradients on {of_gradients.late}"] if of_gradients.late else []
    return text + (f"; {' and '.join(late)} were left out for want of time" if late else "")
