"""`RunJudge`: judges a run of a side by the reference's on the same inputs.

It is the one place where the truth, the reference's rounding error and the bars come together: for sides that are run
here, on the given inputs, on further ones and in a second call, and for recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..options import Options
from ..results.comparison import FAIL
from ..sides.records import Records
from ..sides.side import Side
from ..verdicts.judge import Tolerance
from .comparer import CellComparisons, Comparer, fails
from .measured_errors import remeasure
from .noise import Noise
from .value_judge import ValueJudge


class JudgeOfValues(Protocol):
    """Makes what judges each value of a run."""

    def __call__(self, truth: Records, noise: Noise, tolerance: Tolerance) -> ValueJudge:
        """Return it for a truth, the reference's rounding error, and the bars."""


@dataclass(frozen=True)
class RunJudge:
    """Judges runs of one side, in one way of feeding.

    Attributes:
        comparer: compares the values of a run with the reference's.
        rounded: sides whose numbers may have been rounded to float32, which is no fault.
    """

    comparer: Comparer
    rounded: Sequence[Side] = ()

    @classmethod
    def of(
        cls,
        side: str,
        feeding: str,
        truth: Records,
        noise: Noise,
        owners: Mapping[str, str],
        options: Options,
        *,
        grads: bool,
        rounded: Sequence[Side] = (),
        values: JudgeOfValues = ValueJudge,
    ) -> RunJudge:
        """Return the judge of a side.

        Args:
            side: name of the side.
            feeding: where Cells have their inputs from: "isolated", "end to end", or what a further run is called.
            truth: the reference's records in float64.
            noise: its rounding error.
            owners: path of the Cell that owns each parameter and buffer, by qualified name.
            options: `rtol` and `atol` replace the computed bars.
            grads: whether gradients are compared.
            rounded: sides whose numbers may have been rounded to float32.
            values: makes what judges each value.
        """
        tolerance = Tolerance(noise.run.dtype, options.rtol, options.atol)
        return cls(Comparer(side, feeding, values(truth, noise, tolerance), owners, grads), rounded)

    @property
    def noise(self) -> Noise:
        """The reference's rounding error."""
        return self.comparer.noise

    @property
    def values(self) -> ValueJudge:
        """What judges each value."""
        return self.comparer.values

    def judge(
        self,
        check: str,
        records: Records,
        is_wrong: Callable[[CellComparisons], bool] = fails,
    ) -> CellComparisons:
        """Return the comparisons of a run; see `settle`."""

        def compare() -> CellComparisons:
            return self.comparer.compare(check, records)

        return self.settle(check, compare(), compare, is_wrong)

    def settle(
        self,
        check: str,
        comparisons: CellComparisons,
        compare: Callable[[], CellComparisons],
        is_wrong: Callable[[CellComparisons], bool] = fails,
        *,
        may_be_noise: Callable[[CellComparisons], bool] | None = None,
        samples: bool = True,
        bounds: bool = True,
    ) -> CellComparisons:
        """Return the comparisons of a run after measuring the reference's own errors as often as needed.

        Args:
            check: "meaning" or "rounding".
            comparisons: the comparisons by the errors that were measured before.
            compare: compares again, by those measured since.
            is_wrong: whether comparisons say that the side is wrong.
            may_be_noise: whether they may still say so because of rounding; `is_wrong` if None.
            samples: whether the reference may be run again with a jitter.
            bounds: whether the rounding errors that the computation itself may commit are computed at last.
        """
        noise, may_be = self.noise, may_be_noise or is_wrong
        measures = [(is_wrong, lambda: not noise.samples["rounding"] and noise.sample())]
        if check == "meaning":  # rounding numbers to float32 is no fault
            measures.append((may_be, lambda: noise.allow_rounded_numbers(self.rounded)))
        if samples:  # a computation that loses digits may amplify small errors
            measures.append((may_be, lambda: noise.sample(check)))
        comparisons = remeasure(comparisons, compare, *measures)
        if bounds and check == "rounding" and may_be(comparisons):
            failing = sorted({path for path, c in comparisons if c.status == FAIL})
            if noise.compute_bounds(failing):
                comparisons = compare()
        return comparisons
