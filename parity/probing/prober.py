"""`Prober`: judges sides on inputs derived from the given ones, as long as there is time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.ir.types import is_floating
from ..comparison.cells import require_elements, require_finite
from ..comparison.choices import ChoiceFinder
from ..comparison.comparer import Comparer
from ..comparison.measured_errors import remeasure
from ..comparison.noise import Noise
from ..options import Options
from ..results.comparison import FAIL, Comparison
from ..sides.cell_side import CellSide
from ..sides.records import OUTPUT, Array, Records, Run, Side
from ..sides.torch_side import TorchSide
from ..verdicts.judge import Tolerance
from .inside import with_other_values
from .plan import probes
from .probe import Probe

LEAST_SECONDS = 3.0
"""Probing may take as long as the comparison did, and at least this long."""
IMPRECISE = 100.0
"""Factor on the bar of a side that has no float64, since its precision is judged on the given inputs alone."""
JUMP = 1e6
"""A difference that is so many times larger than its bar is no rounding, even of numbers in float32."""
ISOLATED = "isolated"
FEEDINGS = ("end to end", "second call", "third call")
"""The feeding of a comparison at the root, by the number of calls before."""

CellComparisons = list[tuple[str, Comparison]]


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
        evidence: by name of a side that failed, truth, records and noise of the isolated run in float64, if there was
            one on inputs of the given sizes and mode.
    """

    reference: TorchSide
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
    _truths: dict[str, tuple[Run, Records] | None] = field(default_factory=dict)

    def judge(self, side: Side, seconds: float) -> CellComparisons:
        """Return the failures of the first probe that a side fails on; none if it passes on all.

        Args:
            side: a side that passes on the given inputs.
            seconds: the longest time to take, for all sides together.
        """
        started, already = time.monotonic(), self.spent
        judged = refused = late = 0
        chosen: set[str] = set()
        found: CellComparisons = []
        for probe in probes(self.reference, side):
            self.spent = already + time.monotonic() - started
            if probe.choice in chosen:
                continue
            if self.spent > max(seconds, LEAST_SECONDS):
                late += 1
                continue
            on_reference = self._on_reference(probe)
            if on_reference is None:
                refused += not probe.choice
                continue
            if probe.choice:
                chosen.add(probe.choice)
            try:
                found = self._judge(side, probe, *on_reference)
            except CellbridgeError as error:
                self.notes.append(f"{side.name} was not compared with {probe.name}: {error}".partition("\n")[0])
                continue
            judged += 1
            if probe.name not in self.judged:
                self.judged.append(probe.name)
            if found:
                break
        self.spent = already + time.monotonic() - started
        self.notes.append(_note(side.name, self.reference.name, judged, refused, late))
        return found

    def _on_reference(self, probe: Probe) -> tuple[Run, Records] | None:
        """The settings and records of the reference's run in float64; None if it can't be judged by."""
        if probe.name not in self._truths:
            try:
                self._truths[probe.name] = self._run_reference(probe)
            except UsageError:  # it doesn't take these inputs, or its outputs aren't finite
                self._truths[probe.name] = None
        return self._truths[probe.name]

    def _run_reference(self, probe: Probe) -> tuple[Run, Records] | None:
        run = replace(self.replayed, grads=False, cotangents=None, choices={})
        if probe.inside is not None:
            feed = with_other_values(self.truth, self.reference.module, probe.inside)
            if feed is None:
                return None
            run = replace(run, feed=feed)
            truth = self.reference.run(run)
            run = replace(run, choices=self.choices.of(run, truth))
            finite = {key: array for key, array in truth.values.items() if key.path == "" or _share_finite(array) == 1}
            return run, replace(truth, values=finite)
        if probe.needs_live:
            run = Run("float64", grads=False)
        run = replace(run, arguments=probe.arguments, before=probe.before, other_mode=probe.other_mode)
        truth = self.reference.run(run)
        require_elements(truth)
        outputs = [truth.values[key] for key in truth.root_keys(OUTPUT)]
        if not probe.not_finite:
            require_finite(truth, "float64")
        elif not any(map(_share_finite, outputs)):
            return None
        run = replace(run, slots=truth.slots, result=truth.result, draws=truth.draws, inner=False)
        run = replace(run, choices=self.choices.of(run, truth))
        at_root = {key: array for key, array in truth.values.items() if not key.path}  # the others take much memory
        return run, replace(truth, values=at_root)

    def _judge(self, side: Side, probe: Probe, run: Run, truth: Records) -> CellComparisons:
        """Return the failures of a side: in its Cells, if they can be told, and at the root."""
        if run.feed is not None:
            return self._failures(side, probe, run, truth, ISOLATED)
        found = self._failures(side, probe, run, truth, FEEDINGS[len(run.before)])
        if found and probe.resized and probe.before:  # is it the size alone, without the call before?
            alone = replace(probe, before=())
            on_reference = self._run_reference(alone)
            return (self._judge(side, alone, *on_reference) if on_reference is not None else []) or found
        keeps_layouts = not (probe.resized and isinstance(side, CellSide) and side.layouts)
        if not found or not side.capabilities.cells or run.before or not keeps_layouts:
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
        comparer = Comparer(side.name, feeding, truth, noise, tolerance, self.owners, grads=False, is_port=can.is_port)
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
        if found and feeding == ISOLATED and check == "meaning" and not probe.needs_live:
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


def _note(side: str, reference: str, judged: int, refused: int, late: int) -> str:
    text = f"{side} was also compared on {judged} inputs derived from the given ones"
    if refused:
        text += f"; {reference} doesn't run, or isn't finite, on {refused} others"
    return text + (f"; {late} more were left out for want of time" if late else "")
