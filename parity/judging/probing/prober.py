"""`Prober`: judges sides on inputs derived from the given ones, within a bound on the work."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import ml_dtypes
import numpy as np
import torch
from torch.utils import _pytree as pytree

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import as_dtype, is_floating
from ...options import Options
from ...results.comparison import FAIL, Comparison
from ...sides.cell_side import CellSide
from ...sides.imported import is_imported
from ...sides.interpreter_side import InterpreterSide
from ...sides.records import INPUT, INPUT_GRADIENT, OUTPUT, OUTPUT_GRADIENT, Array, Key, Records
from ...sides.reported_cells import require_elements, require_finite
from ...sides.run import Call, Run, Wanted
from ...sides.side import Side
from ...verdicts.deviations import error, size
from ...verdicts.judge import MEANING_RELATIVE
from ..choices import ChoiceFinder
from ..comparer import CellComparisons
from ..noise import Noise
from ..run_judge import RunJudge
from ..value_judge import ValueJudge
from .approximations import approximation
from .inside import layers_of, with_other_values
from .no_faults import (
    AFTER_CALLS,
    handles_not_finite,
    is_finite_gradient,
    is_lost_gradient,
    is_not_taken,
    is_of_calls_before,
    within_range,
)
from .observed import Observed, observe
from .plan import probes
from .probe import Change, OnProbes, Probe
from .work import GRADIENT_SHARE, Budget

LONGEST_SECONDS = 300.0
"""A guard, in case the work is estimated far too low."""
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
GRADIENTS = (INPUT_GRADIENT, OUTPUT_GRADIENT)
ISOLATED = "isolated"
FEEDINGS = ("end to end", *AFTER_CALLS)
"""The feeding of a comparison at the root, by the number of calls before."""


@dataclass
class _Counts:
    """Numbers of probes on which a side was judged, the reference can't be, and that were left out; choices made."""

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
        several: whether several sides are judged, for which the reference's runs are kept.
        compared: what is compared.
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
    several: bool = True
    compared: OnProbes = "all"
    judged: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    spent: float = 0.0
    evidence: dict[str, tuple[Records, Records, Noise]] = field(default_factory=dict)
    _truths: dict[tuple[str, bool, bool], tuple[Run, Records] | None] = field(default_factory=dict)
    _approximations: dict[str, float] = field(default_factory=dict)

    def restart(self, side: Side, replayed: Run) -> None:
        """Forget what was found in a side, which is judged again with other settings of the reference's run."""
        self.replayed = replayed
        self.evidence.pop(side.name, None)

    def judge(self, side: Side) -> CellComparisons:
        """Return the failures of the first probe that a side fails on; none if it passes on all.

        Args:
            side: a side that passes on the given inputs.
        """
        started, already = time.monotonic(), self.spent
        counts = {False: _Counts(), True: _Counts()}
        budget = Budget.of(self._observed.work, GRADIENT_SHARE if self.compared == "gradients" else 1.0)
        kept = self._compares_gradients(side)
        struck, not_taken = False, dict[str, str]()
        found: CellComparisons = []
        after_calls: CellComparisons = []
        for grads, probe in self._in_order(side):
            count = counts[grads]
            self.spent = already + time.monotonic() - started
            if probe.choice in count.chosen or (probe.after and probe.after not in count.chosen):
                continue
            struck |= self.spent > LONGEST_SECONDS
            if struck or not budget.has_room(grads=grads, kept=kept):
                count.late += 1
                continue
            on_reference = self._on_reference(side, probe, grads=grads)
            runs = (1 + len(probe.before)) * (1 if on_reference is None else 2)
            budget.add(runs, grads=grads, larger=self._growth(probe))
            if on_reference is None:
                count.refused += not probe.choice
                continue
            if probe.choice:
                count.chosen.add(probe.choice)
            try:
                found = self._judge_with_choices(side, probe, *on_reference)
                if is_not_taken(probe, [c for _, c in found]):
                    if is_of_calls_before([c for _, c in found]):  # it takes the size; another may show more
                        after_calls = after_calls or found
                    else:
                        not_taken.setdefault(probe.name, found[0][1].reason)
                        count.chosen.discard(probe.choice)
                    found = []
                    continue
                if found:
                    found = self._without_notes(side, probe, found, budget)
            except CellbridgeError as error:
                self.notes.append(f"{side.name} was not compared with {probe.name}: {error}".partition("\n")[0])
                continue
            count.judged += 1
            if probe.name not in self.judged:
                self.judged.append(probe.name)
            if found:
                break
        found = found or after_calls
        self.spent = already + time.monotonic() - started
        self.notes += _not_taken_notes(side.name, self.reference.name, not_taken)
        self.notes.append(_note(side.name, self.reference.name, counts[False], counts[True], struck=struck))
        return found

    def _without_notes(self, side: Side, probe: Probe, found: CellComparisons, budget: Budget) -> CellComparisons:
        """Return the failures, or none with a note where they are no faults of what the given inputs ask for."""
        if probe.not_finite and not _is_conversion(side) and not any(map(handles_not_finite, (self.reference, side))):
            self.notes.append(
                f"{side.name} differs with {probe.name}, which neither side treats in a special way: "
                f"{_shown_values(found[0][1])}"
            )
            return []
        if probe.working:
            return self._in_float64(side, probe, budget) or found
        if probe.beside is not None and all(is_finite_gradient(c) for _, c in found):
            return self._beside_switches(side, probe, found, budget)
        if not all(is_lost_gradient(c) for _, c in found):
            return found
        limited = within_range(probe)
        inner = self._judge_again(side, limited, budget, grads=True)
        if inner is None or inner:
            return inner or found
        c = found[0][1]
        self.notes.append(
            f"gradients of {side.name} overflow with {probe.name}, where its outputs agree: {c.kind} {c.tensor} is "
            f"{_shown_values(c)}"
        )
        return []

    def _beside_switches(self, side: Side, probe: Probe, found: CellComparisons, budget: Budget) -> CellComparisons:
        """Return what fails beside the values at which operations switch; if nothing does, note what differs at them.

        There, relu has the gradient 0, a clamp 1, and a maximum with 0 has 1/2: each is the derivative on one side, or
        between both, and it is one function.
        """
        beside = replace(probe, name=f"{probe.name}, but not at these", inside=probe.beside, beside=None, exact=False)
        others = self._judge_again(side, beside, budget, grads=True)
        if others is None or others:
            return others or found
        path, c = found[0]
        self.notes.append(
            f"gradients differ at exactly the values at which operations switch, and agree beside them: in "
            f"{path or '(root)'} of {side.name}, {c.kind} {c.tensor} is {_shown_values(c)}"
        )
        return []

    def _in_float64(self, side: Side, probe: Probe, budget: Budget) -> CellComparisons:
        """Return what fails in float64 on a probe for the working dtype: then it isn't the dtype's fault."""
        exact = replace(probe, name=probe.name.partition(", in ")[0], working=False)
        return self._judge_again(side, exact, budget, grads=False) or []

    def _judge_again(self, side: Side, probe: Probe, budget: Budget, *, grads: bool) -> CellComparisons | None:
        """Return the failures of a side on a variant of a probe; None if the reference can't be judged by there."""
        budget.add(2, grads=grads, larger=self._growth(probe))
        on_reference = self._on_reference(side, probe, grads=grads)
        return None if on_reference is None else self._judge_with_choices(side, probe, *on_reference)

    def _growth(self, probe: Probe) -> float:
        """The number of elements of a probe's inputs, as a multiple of that of the given ones."""
        given = self.truth.root_keys(INPUT)
        before = sum(self.truth.values[key].size for key in given)
        if probe.arguments is None or not before:
            return 1.0
        after = sum(x.numel() for x in pytree.tree_leaves(probe.arguments) if isinstance(x, torch.Tensor))
        return max(1.0, after / before)

    def _in_order(self, side: Side) -> Iterator[tuple[bool, Probe]]:
        """Yield the probes, with whether gradients are compared on them: first all without."""
        planned: list[Probe] = []
        for probe in probes(self.reference, side, self._observed):
            planned.append(probe)
            if probe.has_outputs and self.compared != "gradients":
                yield False, probe
        if self._compares_gradients(side):
            yield from ((True, probe) for probe in planned if probe.has_gradients)

    @cached_property
    def _observed(self) -> Observed:
        return observe(self.reference)

    def _compares_gradients(self, side: Side) -> bool:
        return self.compared != "outputs" and self.options.grads and side.capabilities.gradients

    def _on_reference(self, side: Side, probe: Probe, *, grads: bool) -> tuple[Run, Records] | None:
        """The settings and records of the reference's run in float64; None if it can't be judged by."""
        key = probe.name, grads, isinstance(side, CellSide)
        if key in self._truths:
            return self._truths[key]
        try:
            on_reference = self._run_reference(side, probe, grads=grads)
        except CellbridgeError:  # it doesn't take these inputs, or its outputs aren't finite
            on_reference = None
        if self.several:
            self._truths[key] = on_reference
        return on_reference

    def _run_reference(self, side: Side, probe: Probe, *, grads: bool) -> tuple[Run, Records] | None:
        settled = replace(self.replayed.reference, cotangents=None, choices={})
        run = replace(self.replayed, reference=settled).want(grads=grads)
        if probe.inside is not None:
            feed = with_other_values(self.truth, layers_of(self.reference), probe.inside)
            if feed is None:
                return None
            cotangents = self.replayed.reference.cotangents if grads else None
            run = replace(run, feed=feed, reference=replace(settled, cotangents=cotangents))
            truth = self.reference.run(run)
            if grads and not _has_finite_gradients(truth):
                return None
            finite = {key: array for key, array in truth.values.items() if key.path == "" or _share_finite(array) == 1}
            return run, replace(truth, values=finite)
        if probe.needs_live:
            run = Run("float64", Wanted(grads))
        run = replace(run, call=Call(probe.arguments, probe.before, other_mode=probe.other_mode))
        if probe.cotangents is not None:
            changed = [_changed(g, probe.cotangents) for g in self.truth.gradients.cotangents]
            run = replace(run, reference=replace(run.reference, cotangents=changed))
        # without gradients, only the root is judged; but the calls of a port's Cells are counted
        inner = grads or probe.needs_live or bool(self.truth.draws) or isinstance(side, CellSide)
        truth = self.reference.run(run.want(inner=inner))
        slots = truth.slots if inner else {**self.truth.slots, **truth.slots}
        require_elements(truth)
        outputs = [truth.values[key] for key in truth.root_keys(OUTPUT)]
        if not probe.not_finite:
            require_finite(truth, "float64")
        elif not any(map(_share_finite, outputs)):
            return None
        if grads and not _has_finite_gradients(truth):
            return None
        cotangents = truth.gradients.cotangents if grads else None
        settled = replace(run.reference, slots=slots, result=truth.result, draws=truth.draws, cotangents=cotangents)
        run = replace(run, reference=settled).want(inner=False)
        return run, replace(truth, values=_at_root(truth))

    def _judge_with_choices(self, side: Side, probe: Probe, run: Run, truth: Records) -> CellComparisons:
        """Return the failures of a side; if there are any, those with the choices that the reference makes here."""
        found = self._judge(side, probe, run, truth)
        if not found or not self.replayed.reference.choices or probe.positions or probe.tied:
            return found
        inner = self.reference.run(run.want(inner=True))
        choices = self.choices.of(run, inner)
        settled = replace(run.reference, choices=choices, slots=inner.slots)
        return self._judge(side, probe, replace(run, reference=settled), truth) if choices else found

    def _judge(self, side: Side, probe: Probe, run: Run, truth: Records) -> CellComparisons:
        """Return the failures of a side: in its Cells, if they can be told, and at the root."""
        if run.feed is not None:
            return self._failures(side, probe, run, truth, ISOLATED)
        found = self._failures(side, probe, run, truth, FEEDINGS[len(run.call.before)])
        if found and probe.resized and probe.before:  # is it the size alone, without the call before?
            alone = replace(probe, before=())
            on_reference = self._run_reference(side, alone, grads=run.wanted.grads)
            return (self._judge(side, alone, *on_reference) if on_reference is not None else []) or found
        keeps_layouts = not (probe.resized and isinstance(side, CellSide) and side.layouts)
        if not found or not side.capabilities.has_cells or not keeps_layouts:
            return found
        inner = self.reference.run(run.want(inner=True))
        settled = replace(run.reference, slots=inner.slots)
        isolated = replace(run, feed=inner, reference=settled).want(inner=True)
        return self._failures(side, probe, isolated, inner, ISOLATED) + found

    def _failures(self, side: Side, probe: Probe, run: Run, truth: Records, feeding: str) -> CellComparisons:
        """Return what fails in a run of a side, by the reference's own errors on the same inputs."""
        can = side.capabilities
        check, dtype = can.checks[-1] if probe.working else can.checks[0]
        noise_run = replace(run, dtype=self.working_dtype if check == "meaning" else dtype)
        noise = Noise(self.reference, truth, noise_run, unmeasured=check == "meaning" or probe.working)
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

        def may_be_rounding(found: CellComparisons) -> bool:
            return bool(found) and not (probe.exact and any(c.error >= JUMP * c.bar for _, c in found))

        found = judge.settle(check, compare(), compare, bool, may_be_noise=may_be_rounding)
        if found and probe.working and self._cancels(side, run, truth):
            return []
        if found and check == "meaning" and (feeding == ISOLATED or run.call.before):
            self.evidence[side.name] = truth, records, noise
        return found

    def _approximation(self, side: Side) -> float:
        """The relative error of the approximations that either side makes beyond a threshold."""
        for one in (self.reference, side):
            if one.name not in self._approximations:
                self._approximations[one.name] = approximation(one)
        return max(self._approximations[self.reference.name], self._approximations[side.name])

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


def _changed(array: Array | None, change: Change) -> Array | None:
    return None if array is None else change(torch.from_numpy(array)).numpy()


def _smallest_normal(dtype: str) -> float:
    return float(ml_dtypes.finfo(as_dtype(dtype)).smallest_normal)  # type: ignore[no-untyped-call]


def _share_not_finite(records: Records, truth: Records) -> None:
    """Take the truth's elements where neither is finite: inf - inf and a logarithm of inf are as good as each other."""
    for key, array in records.values.items():
        expected = truth.values.get(key)
        if expected is not None and expected.shape == array.shape and is_floating(array.dtype):
            neither = ~np.isfinite(array.astype(np.float64)) & ~np.isfinite(expected.astype(np.float64))
            records.values[key] = np.where(neither, expected.astype(array.dtype), array)


def _share_finite(array: Array) -> float:
    return float(np.isfinite(array.astype(np.float64)).mean()) if is_floating(array.dtype) and array.size else 1.0


def _is_position(c: Comparison) -> bool:
    """Whether a tensor holds whole numbers, which depend on rounding where values are equal."""
    return c.kind in ("output", "passed value") and c.dtype.startswith(("int", "uint", "bool"))


def _is_conversion(side: Side) -> bool:
    """Whether a side is the program of the reference itself, which treats NaN and infinity as the reference does."""
    return isinstance(side, InterpreterSide) and not is_imported(side.program)


def _shown_values(c: Comparison) -> str:
    if c.candidate_value is None or c.reference_value is None:
        return c.reason
    return f"{c.candidate_value:g} in place of {c.reference_value:g}"


def _not_taken_notes(side: str, reference: str, not_taken: Mapping[str, str]) -> list[str]:
    """Return a note on the probes that the reference takes and a side doesn't."""
    if not not_taken:
        return []
    name, reason = next(iter(not_taken.items()))
    more = f", and on {len(not_taken) - 1} others like that" if len(not_taken) > 1 else ""
    return [f"{side} doesn't run with {name}, which {reference} takes: it {reason}{more}"]


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


def _has_finite_gradients(truth: Records) -> bool:
    gradients = [array for key, array in truth.values.items() if key.kind in GRADIENTS]
    gradients += [gradient for gradient in truth.gradients.parameters.values() if gradient is not None]
    return all(_share_finite(gradient) == 1 for gradient in gradients if gradient.size)


def _at_root(truth: Records) -> dict[Key, Array]:
    """The values at the root, and the sizes of the gradients inside, since all values take much memory."""
    of_gradients = {
        key: np.asarray(size(array)) for key, array in truth.values.items() if key.path and key.kind in GRADIENTS
    }
    return {key: array for key, array in truth.values.items() if not key.path} | of_gradients


def _note(side: str, reference: str, of_outputs: _Counts, of_gradients: _Counts, *, struck: bool) -> str:
    text = f"{side} was also compared on {of_outputs.judged} inputs derived from the given ones"
    if of_gradients.judged and not of_outputs.judged:
        text = f"gradients of {side} were also compared on {of_gradients.judged} inputs derived from the given ones"
    elif of_gradients.judged:
        text += f", with gradients on {of_gradients.judged}"
    if of_outputs.refused:
        text += f"; {reference} doesn't run, or isn't finite, on {of_outputs.refused} others"
    late = [f"{of_outputs.late} more"] if of_outputs.late else []
    late += [f"the gradients on {of_gradients.late}"] if of_gradients.late else []
    why = f"after {LONGEST_SECONDS:.0f} s" if struck else "to bound the work"
    return text + (f"; {' and '.join(late)} were left out, {why}" if late else "")
