"""`Prober`: judges sides on inputs derived from the given ones, within a bound on the work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch.utils import _pytree as pytree

from ....runtime.errors import CellbridgeError
from ...results.comparison import Comparison
from ...sides.abilities import RunsProgram
from ...sides.imported import is_imported
from ...sides.records import INPUT
from ...sides.run import Run
from ...sides.side import Side
from ..comparer import CellComparisons
from .no_faults import (
    handles_not_finite,
    is_finite_gradient,
    is_lost_gradient,
    is_not_taken,
    is_of_calls_before,
    within_range,
)
from .observed import Observed, observe
from .on_probe import JudgeOnProbe, counts_calls
from .plan import probes
from .probe import OnProbes, Probe
from .reference_runs import ReferenceRuns
from .tally import LONGEST_SECONDS, Tally
from .work import GRADIENT_SHARE, Budget


@dataclass
class Prober:
    """The probes of one comparison.

    Attributes:
        on_probe: judges a side on one of them.
        compared: what is compared.
        judged: names of the probes that a side was judged on.
        spent: seconds that probing took.
    """

    on_probe: JudgeOnProbe
    compared: OnProbes = "all"
    judged: list[str] = field(default_factory=list)
    spent: float = 0.0

    @property
    def runs(self) -> ReferenceRuns:
        """The reference's runs."""
        return self.on_probe.runs

    @property
    def reference(self) -> Side:
        """The reference."""
        return self.runs.reference

    @property
    def notes(self) -> list[str]:
        """Remarks for the reader of the report."""
        return self.on_probe.notes

    def restart(self, side: Side, replayed: Run) -> None:
        """Forget what was found in a side, which is judged again with other settings of the reference's run."""
        self.runs.replayed = replayed
        self.on_probe.evidence.pop(side.name, None)

    def judge(self, side: Side) -> CellComparisons:
        """Return the failures of the first probe that a side fails on; none if it passes on all.

        Args:
            side: a side that passes on the given inputs.
        """
        started, already = time.monotonic(), self.spent
        tally = Tally(side.name, self.reference.name)
        budget = Budget.of(self._observed.work, GRADIENT_SHARE if self.compared == "gradients" else 1.0)
        kept = self._compares_gradients(side)
        failures: CellComparisons = []
        after_calls: CellComparisons = []
        for grads, probe in self._in_order(side):
            count = tally.of_gradients if grads else tally.of_outputs
            self.spent = already + time.monotonic() - started
            if probe.choice in count.chosen or (probe.after and probe.after not in count.chosen):
                continue
            tally.struck |= self.spent > LONGEST_SECONDS
            if tally.struck or not budget.has_room(grads=grads, kept=kept):
                count.late += 1
                continue
            on_reference = self.runs.on(probe, grads=grads, calls=counts_calls(side))
            runs = (1 + len(probe.before)) * (1 if on_reference is None else 2)
            budget.add(runs, grads=grads, larger=self._growth(probe))
            if on_reference is None:
                count.refused += not probe.choice
                continue
            if probe.choice:
                count.chosen.add(probe.choice)
            try:
                failures = self.on_probe.failures(side, probe, *on_reference)
                if is_not_taken(probe, [c for _, c in failures]):
                    if is_of_calls_before([c for _, c in failures]):  # it takes the size; another may show more
                        after_calls = after_calls or failures
                    else:
                        tally.not_taken.setdefault(probe.name, failures[0][1].reason)
                        count.chosen.discard(probe.choice)
                    failures = []
                    continue
                if failures:
                    failures = self._without_notes(side, probe, failures, budget)
            except CellbridgeError as error:
                self.notes.append(f"{side.name} was not compared with {probe.name}: {error}".partition("\n")[0])
                continue
            count.judged += 1
            if probe.name not in self.judged:
                self.judged.append(probe.name)
            if failures:
                break
        failures = failures or after_calls
        self.spent = already + time.monotonic() - started
        self.notes.extend(tally.notes())
        return failures

    def _without_notes(self, side: Side, probe: Probe, failures: CellComparisons, budget: Budget) -> CellComparisons:
        """Return the failures, or none with a note where they are no faults of what the given inputs ask for."""
        if probe.not_finite and not _is_conversion(side) and not any(map(handles_not_finite, (self.reference, side))):
            self.notes.append(
                f"{side.name} differs with {probe.name}, which neither side treats in a special way: "
                f"{_shown_values(failures[0][1])}"
            )
            return []
        if probe.working:
            return self._in_float64(side, probe, budget) or failures
        if probe.beside is not None and all(is_finite_gradient(c) for _, c in failures):
            return self._beside_switches(side, probe, failures, budget)
        if not all(is_lost_gradient(c) for _, c in failures):
            return failures
        limited = within_range(probe)
        inner = self._judge_again(side, limited, budget, grads=True)
        if inner is None or inner:
            return inner or failures
        c = failures[0][1]
        self.notes.append(
            f"gradients of {side.name} overflow with {probe.name}, where its outputs agree: {c.kind} {c.tensor} is "
            f"{_shown_values(c)}"
        )
        return []

    def _beside_switches(self, side: Side, probe: Probe, failures: CellComparisons, budget: Budget) -> CellComparisons:
        """Return what fails beside the values at which operations switch; if nothing does, note what differs at them.

        There, relu has the gradient 0, a clamp 1, and a maximum with 0 has 1/2: each is the derivative on one side, or
        between both, and it is one function.
        """
        beside = replace(probe, name=f"{probe.name}, but not at these", inside=probe.beside, beside=None, exact=False)
        others = self._judge_again(side, beside, budget, grads=True)
        if others is None or others:
            return others or failures
        path, c = failures[0]
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
        on_reference = self.runs.on(probe, grads=grads, calls=counts_calls(side))
        return None if on_reference is None else self.on_probe.failures(side, probe, *on_reference)

    def _growth(self, probe: Probe) -> float:
        """The number of elements of a probe's inputs, as a multiple of that of the given ones."""
        truth = self.runs.truth
        before = sum(truth.values[key].size for key in truth.root_keys(INPUT))
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
        return self.compared != "outputs" and self.on_probe.options.grads and side.capabilities.gradients


def _is_conversion(side: Side) -> bool:
    """Whether a side is the program of the reference itself, which treats NaN and infinity as the reference does."""
    return isinstance(side, RunsProgram) and not is_imported(side.own_program())


def _shown_values(c: Comparison) -> str:
    if c.candidate_value is None or c.reference_value is None:
        return c.reason
    return f"{c.candidate_value:g} in place of {c.reference_value:g}"
