"""`JudgeOnProbe`: judges a side on one probe, by the reference's own errors there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import ml_dtypes
import numpy as np

from ....runtime.ir.types import as_dtype, is_floating
from ...options import Options
from ...results.comparison import FAIL, Comparison
from ...sides.abilities import HasLayouts
from ...sides.records import INPUT, OUTPUT, Key, Records
from ...sides.run import Run
from ...sides.side import Side
from ...verdicts.deviations import error, size
from ...verdicts.judge import MEANING_RELATIVE
from ..choices import ChoiceFinder
from ..comparer import CellComparisons
from ..noise import Noise
from ..run_judge import RunJudge
from ..value_judge import ValueJudge
from .approximations import approximation
from .no_faults import AFTER_CALLS, is_lost_gradient
from .probe import Probe
from .reference_runs import ReferenceRuns

IMPRECISE = 100.0
"""Factor on the bar of a side that has no float64, since its precision is judged on the given inputs alone."""
NEGLIGIBLE = 2.0**-46
"""Smaller differences in float64 come from subtracting numbers near 1, as in exp(x) - 1, and are no other function."""
GROSS = 1 / 8
"""In the working dtype, a difference fails that is at least this share of the largest element, or isn't finite."""
LOST = 1e-3
"""Small numbers are lost, by subtraction, if the error in float64 is this share of the largest."""
SMALLEST = 2.0**10
"""Differences below as many times the smallest normal number are lost to denormal numbers, or flushed to zero."""
JUMP = 1e6
"""A difference that is so many times larger than its bar is no rounding, even of numbers in float32."""
ISOLATED = "isolated"
FEEDINGS = ("end to end", *AFTER_CALLS)
"""The feeding of a comparison at the root, by the number of calls before."""


@dataclass
class JudgeOnProbe:
    """Judges sides on probes.

    Attributes:
        runs: the reference's runs.
        options: options of the run.
        working_dtype: dtype that noise is measured in.
        owners: paths of the Cells that own parameters and buffers.
        rounded: the sides whose numbers may have been rounded to float32.
        choices: finds the reference's choices, such as the signs of eigenvectors.
        notes: remarks for the reader of the report.
        evidence: by name of a side that failed, truth, records and noise of the isolated run in float64, or of the run
            end to end after other calls.
    """

    runs: ReferenceRuns
    options: Options
    working_dtype: str
    owners: Mapping[str, str]
    rounded: Sequence[Side]
    choices: ChoiceFinder
    notes: list[str] = field(default_factory=list)
    evidence: dict[str, tuple[Records, Records, Noise]] = field(default_factory=dict)
    _approximations: dict[str, float] = field(default_factory=dict)

    def failures(self, side: Side, probe: Probe, run: Run, truth: Records) -> CellComparisons:
        """Return the failures of a side; if there are any, those with the choices that the reference makes here.

        Args:
            side: the side.
            probe: the probe.
            run: the settings of the reference's run on it.
            truth: its records.

        Raises:
            CellbridgeError: the side doesn't run on it.
        """
        failures = self._judge(side, probe, run, truth)
        if not failures or not self.runs.replayed.reference.choices or probe.positions or probe.tied:
            return failures
        inner = self.runs.reference.run(run.want(inner=True))
        choices = self.choices.of(run, inner)
        settled = replace(run.reference, choices=choices, slots=inner.slots)
        return self._judge(side, probe, replace(run, reference=settled), truth) if choices else failures

    def _judge(self, side: Side, probe: Probe, run: Run, truth: Records) -> CellComparisons:
        """Return the failures of a side: in its Cells, if they can be told, and at the root."""
        if run.feed is not None:
            return self._failures(side, probe, run, truth, ISOLATED)
        failures = self._failures(side, probe, run, truth, FEEDINGS[len(run.call.before)])
        if failures and probe.resized and probe.before:  # is it the size alone, without the call before?
            alone = replace(probe, before=())
            on_reference = self.runs.run(alone, grads=run.wanted.grads, calls=counts_calls(side))
            return (self._judge(side, alone, *on_reference) if on_reference is not None else []) or failures
        keeps_layouts = not (probe.resized and isinstance(side, HasLayouts) and side.layouts)
        if not failures or not side.capabilities.has_cells or not keeps_layouts:
            return failures
        inner = self.runs.reference.run(run.want(inner=True))
        settled = replace(run.reference, slots=inner.slots)
        isolated = replace(run, feed=inner, reference=settled).want(inner=True)
        return self._failures(side, probe, isolated, inner, ISOLATED) + failures

    def _failures(self, side: Side, probe: Probe, run: Run, truth: Records, feeding: str) -> CellComparisons:
        """Return what fails in a run of a side, by the reference's own errors on the same inputs."""
        can = side.capabilities
        check, dtype = can.checks[-1] if probe.working else can.checks[0]
        noise_run = replace(run, dtype=self.working_dtype if check == "meaning" else dtype)
        noise = Noise(self.runs.reference, truth, noise_run, unmeasured=check == "meaning" or probe.working)
        values = partial(ValueJudge, is_port=can.is_port)
        judge = RunJudge.of(
            side.name, feeding, truth, noise, self.owners, self.options, grads=run.wanted.grads, rounded=self.rounded,
            values=values,
        )  # fmt: skip
        records = side.run(replace(run, dtype=dtype))
        if probe.not_finite:
            _share_not_finite(records, truth)
        if probe.other_mode and (difference := _other_draws_or_statistics(truth, records)):
            note = f"{side.name} was not compared in {probe.name}: {difference}"
            self.notes += [] if note in self.notes else [note]
            return []

        def compare() -> CellComparisons:
            return [
                (path, replace(c, probe=probe.name))
                for path, c in judge.comparer.compare(check, records)
                if c.status == FAIL
                and not (probe.ties and not probe.positions and _is_position(c))
                and not (is_lost_gradient(c) and not can.calls.live)  # a file's nodes are made for outputs
                and not (probe.finite and not is_lost_gradient(c))
                and (judge.values.tolerance.overridden or is_gross(path, c))
            ]

        def is_gross(path: str, c: Comparison) -> bool:
            if check == "meaning":
                if 0 < c.error < NEGLIGIBLE and probe.cotangents is None:
                    return False
                return c.error >= c.bar * max(1.0, self._approximation(side) / MEANING_RELATIVE)
            if not probe.working:
                return c.error >= IMPRECISE * c.bar
            largest = size(truth.values.get(Key(path, c.call, OUTPUT, c.tensor)))
            is_accurate = c.reference_error <= LOST * largest
            return is_accurate and c.error >= max(GROSS * largest, SMALLEST * _smallest_normal(noise_run.dtype))

        def may_be_rounding(failures: CellComparisons) -> bool:
            return bool(failures) and not (probe.exact and any(c.error >= JUMP * c.bar for _, c in failures))

        failures = judge.settle(check, compare(), compare, bool, may_be_noise=may_be_rounding)
        if failures and probe.working and self._cancels(side, run, truth):
            return []
        if failures and check == "meaning" and (feeding == ISOLATED or run.call.before):
            self.evidence[side.name] = truth, records, noise
        return failures

    def _approximation(self, side: Side) -> float:
        """The relative error of the approximations that either side makes beyond a threshold."""
        for network in (self.runs.reference, side):
            if network.name not in self._approximations:
                self._approximations[network.name] = approximation(network)
        return max(self._approximations[self.runs.reference.name], self._approximations[side.name])

    def _cancels(self, side: Side, run: Run, truth: Records) -> bool:
        """Whether a side loses small numbers in float64 too: by subtracting large ones, not by the range of a dtype."""
        if max(size(truth.values[key]) for key in truth.root_keys(INPUT)) >= 1:
            return False
        exact = side.run(replace(run, dtype="float64")).values
        return any(
            key in exact
            and exact[key].shape == truth.values[key].shape
            and error(exact[key], truth.values[key])[0] > LOST * size(truth.values[key])
            for key in truth.root_keys(OUTPUT)
        )


def counts_calls(side: Side) -> bool:
    """Whether a side counts the calls of its Cells: a port, whose Cells aren't the reference's own."""
    return side.capabilities.is_port and side.capabilities.has_cells


def _smallest_normal(dtype: str) -> float:
    return float(ml_dtypes.finfo(as_dtype(dtype)).smallest_normal)  # type: ignore[no-untyped-call]


def _share_not_finite(records: Records, truth: Records) -> None:
    """Take the truth's elements where neither is finite: inf - inf and a logarithm of inf are as good as each other."""
    for key, array in records.values.items():
        expected = truth.values.get(key)
        if expected is not None and expected.shape == array.shape and is_floating(array.dtype):
            neither = ~np.isfinite(array.astype(np.float64)) & ~np.isfinite(expected.astype(np.float64))
            records.values[key] = np.where(neither, expected.astype(array.dtype), array)


def _is_position(c: Comparison) -> bool:
    """Whether a tensor holds whole numbers, which depend on rounding where values are equal."""
    return c.kind in ("output", "passed value") and c.dtype.startswith(("int", "uint", "bool"))


def _other_draws_or_statistics(truth: Records, records: Records) -> str:
    """What a side draws or updates that the reference doesn't, or the other way round; empty if it is the same.

    A side that was made for one mode alone, without dropout, say, isn't wrong in it.
    """
    if records.draws.keys() != truth.draws.keys():
        drawing = {draw.path for draw in truth.draws}, {draw.path for draw in records.draws}
        return f"random numbers are drawn {_where_alone(*drawing)}"
    if records.state.updates.keys() != truth.state.updates.keys():
        return f"statistics are updated {_where_alone(set(truth.state.updates), set(records.state.updates))}"
    return ""


def _where_alone(of_reference: set[str], of_candidate: set[str]) -> str:
    """The names that one side alone has, in words; "otherwise" if both have the same."""
    texts = [
        f"in {', '.join(sorted(name or '(root)' for name in alone)[:3])} of the {side} alone"
        for side, alone in (("reference", of_reference - of_candidate), ("candidate", of_candidate - of_reference))
        if alone
    ]
    return " and ".join(texts) or "otherwise"
