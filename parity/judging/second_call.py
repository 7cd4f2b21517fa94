"""A second call of the reference and of a side, with the state that the first call leaves.

State that a network keeps where the other side doesn't first shows in a second call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from ...runtime.errors import UsageError
from ..options import Options
from ..results.comparison import FAIL, Comparison
from ..sides.records import Records
from ..sides.reported_cells import require_finite
from ..sides.run import OUTPUTS, Call, Run
from ..sides.side import Side
from .choices import ChoiceFinder
from .comparer import fails
from .noise import Noise
from .run_judge import RunJudge
from .value_judge import ValueJudge

ISOLATED, SECOND_CALL, THIRD_CALL = "isolated", "second call", "third call"
A_CALL_BEFORE = "another call before"
"""What is different about the inputs of a Cell in the second call, to follow "with"."""


@dataclass(eq=False)
class SecondCall:
    """Judges sides by the reference's second call, which is made once.

    Attributes:
        reference: the reference.
        first: the run of its first call, to be replayed.
        working_dtype: the dtype that the network computes in.
        owners: the Cell of each parameter and buffer.
        rounded: sides whose numbers may have been rounded to float32.
        choices: finds what the reference has chosen.
        options: `rtol` and `atol` replace the computed bars.
        evidence: by name of a side that failed, truth, records and noise of the run in float64.
    """

    reference: Side
    first: Run
    working_dtype: str
    owners: Mapping[str, str]
    rounded: Sequence[Side]
    choices: ChoiceFinder
    options: Options
    evidence: dict[str, tuple[Records, Records, Noise]] = field(default_factory=dict, init=False)

    def repeat(self, *, calls_twice: bool) -> Records:
        """Return the records of the root in a repetition of the reference's first call, in float64.

        Args:
            calls_twice: whether a side will be judged by the second call: then the first of both is that repetition.
        """
        if calls_twice and self._reference is not None and (first := self._reference[1].earlier) is not None:
            return first
        return self.reference.run(replace(self.first, wanted=OUTPUTS))

    def judge(self, side: Side, *, replays_choices: bool) -> list[tuple[str, Comparison]]:
        """Return the comparisons of a second call as (Cell path, comparison); none for a side without state.

        With `replays_choices`, what the reference chose in its second call is replayed if the side fails.
        """
        if not side.capabilities.calls.keeps_state or self._reference is None:
            return []
        run, truth, noise = self._reference
        comparisons = self._compare(side, run, truth, noise)
        if replays_choices and fails(comparisons):
            choices = self.choices.of(run, self.reference.run(run.want(inner=True)))
            run = replace(run, reference=replace(run.reference, choices=choices))
            noise = Noise(self.reference, truth, replace(run, dtype=self.working_dtype), unmeasured=True)
            comparisons = self._compare(side, run, truth, noise)
        if fails(comparisons) and side.capabilities.has_cells:
            of_root = self.evidence.get(side.name)
            inside = self._failing_cells(side, run)
            if not inside and of_root is not None:
                self.evidence[side.name] = of_root
            comparisons = inside + comparisons
        return comparisons

    def _failing_cells(self, side: Side, run: Run) -> list[tuple[str, Comparison]]:
        """Return what fails in the second call of Cells on the reference's inputs; nothing if the root alone does."""
        truth = self.reference.run(run.want(inner=True))
        run = replace(run, feed=truth).want(inner=True)
        noise = Noise(self.reference, truth, replace(run, dtype=self.working_dtype), unmeasured=True)
        comparisons = self._compare(side, run, truth, noise, ISOLATED)
        failing = [(path, replace(c, probe=A_CALL_BEFORE)) for path, c in comparisons if c.status == FAIL]
        return failing if any(path for path, _ in failing) else []

    def _compare(
        self, side: Side, run: Run, truth: Records, noise: Noise, feeding: str = SECOND_CALL
    ) -> list[tuple[str, Comparison]]:
        values = partial(ValueJudge, is_port=side.capabilities.is_port)
        judge = RunJudge.of(
            side.name, feeding, truth, noise, self.owners, self.options, grads=False, rounded=self.rounded,
            values=values,
        )  # fmt: skip
        records = side.run(run)
        comparisons = judge.judge("meaning", records)
        if fails(comparisons):
            self.evidence[side.name] = truth, records, noise
        return comparisons

    @cached_property
    def _reference(self) -> tuple[Run, Records, Noise] | None:
        """The reference's second call: its settings, its records in float64, and its rounding error."""
        if not self.reference.capabilities.calls.keeps_state:
            return None
        settled = replace(self.first.reference, cotangents=None, choices={})
        plain = replace(self.first, wanted=OUTPUTS, reference=settled)
        for run in (replace(plain, call=Call(second="varied")), replace(plain, call=Call(second="same"))):
            try:
                truth = self.reference.run(run)
                require_finite(truth, "float64")
            except UsageError:  # the network doesn't accept these numbers
                continue
            return run, truth, Noise(self.reference, truth, replace(run, dtype=self.working_dtype), unmeasured=True)
        return None
