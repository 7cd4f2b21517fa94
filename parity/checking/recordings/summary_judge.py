"""`SummaryJudge`: the verdict on each value of a run of which some tensors are known by their summaries alone.

Of such a tensor, the elements that both sides have are judged as those of any other, and so are the numbers on all its
elements. Where the elements of two tensors differ by d, their norms differ by at most the norm of d (the triangle
inequality), their means by at most that divided by the root of the number of elements (Cauchy and Schwarz), and their
extremes by at most the largest element of d. So these are the bars, for the d that a passing tensor may have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ....runtime.ir.types import is_floating
from ...judging.noise import NoiseKey
from ...judging.rounding_bounds.cell_bounds import Bound
from ...judging.value_judge import ValueJudge
from ...results.comparison import FAIL, NOT_COMPARED, PASS
from ...sides.records import OUTPUT, Array, Key
from ...verdicts.judge import Tolerance, allowed_error
from .recording import Boundary
from .summaries import Summarized, Tensor


@dataclass
class SummaryJudge(ValueJudge):
    """Judges values of one side by the reference's; see `ValueJudge`.

    Attributes:
        summarized: what is known of the tensors that aren't whole.
    """

    summarized: Mapping[Boundary, Summarized] = field(default_factory=dict)

    @cached_property
    def _of_key(self) -> dict[NoiseKey, Summarized]:
        """The tensors that aren't whole, as `Noise` names them."""
        kinds = {"parameter_gradient": "parameter", "buffer_update": "update"}
        return {
            boundary if isinstance(boundary, Key) else (kinds[boundary[0]], boundary[1]): tensor
            for boundary, tensor in self.summarized.items()
            if isinstance(boundary, Key) or boundary[0] in kinds
        }

    def of(
        self, check: str, key: NoiseKey, value: Array, truth: Array, reference: Array, group_size: float = 0.0
    ) -> dict[str, Any]:
        """Return the fields of the comparison of a value, by its elements that are known and numbers on all."""
        tensor = self._of_key.get(key)
        if tensor is None:
            return super().of(check, key, value, truth, reference, group_size)
        if tensor.candidate.shape != tensor.truth.shape:
            reason = f"shape {list(tensor.candidate.shape)}, needed {list(tensor.truth.shape)}"
            return {"status": FAIL, "reason": reason, "shape": tensor.truth.shape, "error": np.inf, "ratio": np.inf}
        working = tensor.working or Tensor.of(reference)
        if reference.shape == tensor.truth.shape and tensor.working is None:
            reference = working.elements(tensor.places)
        fields = super().of(check, key, value, truth, reference, group_size)
        if fields.get("index") is not None:
            fields["index"] = tuple(map(int, np.unravel_index(tensor.places[fields["index"][0]], tensor.truth.shape)))
        fields |= {"shape": tensor.truth.shape, "error_map": None}
        if fields["status"] != PASS:
            return fields
        if (
            isinstance(key, Key)
            and (key.path, key.kind) == ("", OUTPUT)
            and math.isnan(tensor.truth.statistics["norm"])
        ):
            reason = "NaN in the reference, in a tensor that wasn't recorded whole"
            return fields | {"status": NOT_COMPARED, "reason": reason}
        if not is_floating(tensor.truth.dtype):
            difference = tensor.exact_difference
            return fields | (
                {"status": FAIL, "reason": difference, "error": np.inf, "ratio": np.inf} if difference else {}
            )
        errors = _Errors(tensor, working, self.noise.error(key, check), self.noise.assumed)
        return fields | _judge_statistics(check, errors, self.tolerance, group_size)

    def _bound(self, key: NoiseKey, check: str) -> Bound | None:
        """Return the rounding error that each of the elements that are compared may have; None if unknown."""
        bound, tensor = super()._bound(key, check), self._of_key.get(key)
        if bound is None or tensor is None:
            return bound
        return Bound(*(Tensor.of(array).elements(tensor.places) for array in bound))


@dataclass(frozen=True)
class _Errors:
    """The reference's own error in a tensor that isn't whole.

    Attributes:
        tensor: what is known of the tensor.
        working: the reference's in its working dtype.
        measured: the largest error of an element that was measured.
        assumed: the error, relative to the largest element, of a reference whose errors aren't known; 0 where they are.
    """

    tensor: Summarized
    working: Tensor
    measured: float
    assumed: float

    @cached_property
    def largest(self) -> float:
        """The largest error of an element."""
        known = self._differences(self._whole)
        return max(self.measured, self.assumed * self.extreme, float(np.abs(known).max(initial=0.0)))

    @cached_property
    def norm(self) -> float:
        """The norm of the errors of all elements; if some are known, these stand for all."""
        if self.assumed:
            return self.assumed * self.scale
        known = self._differences(self._whole)
        if not known.size:
            return self.largest / self.extreme * self.scale if self.extreme else 0.0
        norm = math.sqrt(np.square(known).mean() * self.count)
        maximum = float(np.abs(known).max())
        return norm * max(1.0, self.largest / maximum) if maximum else norm  # it may have been measured several times

    @property
    def _whole(self) -> bool:
        return self.working.whole is not None and self.tensor.truth.whole is not None

    def _differences(self, whole: bool) -> Array:
        """Return the errors of the elements that are known; without infinities, where the working dtype overflows."""
        sides = self.working, self.tensor.truth
        arrays = [
            side.whole if whole and side.whole is not None else side.elements(self.tensor.places) for side in sides
        ]
        with np.errstate(invalid="ignore"):
            errors = arrays[0].reshape(-1).astype(np.float64) - arrays[1].reshape(-1)
        return errors[np.isfinite(errors)]

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.tensor.truth.shape)

    @property
    def scale(self) -> float:
        """The norm of the tensor."""
        return self.tensor.truth.statistics["norm"]

    @property
    def extreme(self) -> float:
        """The largest magnitude of an element; the norm is at least as large, where the extremes aren't known."""
        known = self.tensor.truth.statistics
        extremes = [abs(known[name]) for name in ("least", "greatest") if name in known]
        return max(extremes, default=self.scale)


def _judge_statistics(check: str, errors: _Errors, tolerance: Tolerance, group_size: float) -> dict[str, Any]:
    """Return the fields that change because of the numbers on all elements: those of the first that fails."""
    truth, candidate = errors.tensor.truth.statistics, errors.tensor.candidate.statistics
    working = errors.working.statistics
    root = math.sqrt(max(1, errors.count))
    bars = {
        "norm": (errors.scale, errors.norm, root),
        "mean": (errors.scale / root, errors.norm / root, 1.0),
        "least": (errors.extreme, errors.largest, 1.0),
        "greatest": (errors.extreme, errors.largest, 1.0),
    }
    for name, number in candidate.items():
        expected = {stats[name] for stats in (truth, working) if name in stats}
        if name not in truth or number in expected or (math.isnan(number) and any(map(math.isnan, expected))):
            continue
        what = (
            f"the {name if name in ('norm', 'mean') else f'{name} element'} of the tensor, which wasn't recorded whole"
        )
        if name == "finite":
            if not min(expected) <= number <= max(expected):
                reason = f"{number:.0f} of {errors.count} elements are finite, needed {truth[name]:.0f}"
                return {"status": FAIL, "reason": reason, "error": np.inf, "ratio": np.inf, "index": None}
            continue
        off = abs(number - truth[name])
        values = f"{number:.9g}, needed {truth[name]:.9g}"
        if not math.isfinite(off):
            reason = f"{what}, is {values}"
            return {"status": FAIL, "reason": reason, "error": np.inf, "ratio": np.inf, "index": None}
        scale, noise, width = bars[name]
        unit, allowed = allowed_error(check, scale, noise, tolerance, group_size * width)
        if tolerance.overridden:
            unit, allowed = (tolerance.atol or 0.0) * width + (tolerance.rtol or 0.0) * scale, 1.0
        if off > unit * allowed:
            ratio = off / unit if unit else np.inf
            kind = "not the same function" if check == "meaning" else "less precise than the reference"
            return {
                "status": FAIL, "reason": f"{kind}: {what}, is {values}", "error": off, "ratio": ratio,
                "bar": unit * allowed, "allowed": allowed, "index": (), "candidate_value": number,
                "truth": truth[name], "reference_value": working.get(name),
            }  # fmt: skip
    return {}
