"""The verdict on one tensor: does it agree with the reference up to rounding?

Meaning, in float64: two sides that compute the same function agree up to the rounding of double precision. The bar
is `MEANING_RELATIVE` times the tensor's largest element, plus `MEANING_NOISE` times the reference's rounding error in
the working dtype, scaled to double precision (terms that cancel leave few significant digits to compare).

Rounding, in the working dtype: the largest error against the float64 truth, in units of the reference's own largest
error (at least one unit in the last place of the tensor's largest element). Both sides compute with the same numbers in
a different order, so errors of a few units are normal; `ROUNDING_FACTOR` units pass. Elements also pass whose error is
within the rounding that the computation itself may commit, if that is known (`rounding_bounds`).

If some elements are at least a thousand and far larger than the others (scores that a mask sets to -1e9), the others
are judged separately too, against the reference's rounding error in them; otherwise every error in them would be small
compared with the largest element. Scores that are masked so need only agree to the digits of the working dtype: a
softmax makes 0 of them all, whether what the mask hides was added to them or replaced.

Where the reference overflows in the working dtype and the truth doesn't, the candidate may overflow too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np

from ...runtime.ir.types import as_dtype, is_floating
from ..results.comparison import FAIL, PASS
from .deviations import Array, Index, differing, error, excess, exponents, reference_error, size

MEANING_RELATIVE = 1e-11
MEANING_NOISE = 64.0
ROUNDING_FACTOR = 10.0
GROUP_SHARE = 1.0 / 16.0
MAGNITUDE_GAP = 10
"""The smallest gap, in powers of two, that separates large elements from the others."""
MASKED = 2.0**13
"""The smallest magnitude of scores that a mask sets: `exp(x - max(x))` is 0 for them in float64."""
MAGNITUDE_GAP_FACTOR = 10.0
"""Factor on the bars for the smaller elements: computing together with large numbers may cost them digits."""


@dataclass(frozen=True)
class Tolerance:
    """The bars of a run: computed, or `|candidate - reference| <= atol + rtol * |reference|` if the user gives them."""

    dtype: str
    rtol: float | None = None
    atol: float | None = None

    @property
    def overridden(self) -> bool:
        """Whether the user gave tolerances."""
        return self.rtol is not None or self.atol is not None

    @property
    def unit(self) -> float:
        """Spacing of the working dtype's numbers at 1."""
        return epsilon(self.dtype)


def epsilon(dtype: str) -> float:
    """Spacing of the floating-point numbers of a dtype at 1."""
    return float(ml_dtypes.finfo(as_dtype(dtype)).eps)  # type: ignore[no-untyped-call]


def _magnitude_limits(truth: Array, largest: float) -> Iterator[float]:
    """Yield the upper limit of each group of elements that a wide gap separates from larger ones over a thousand."""
    if largest < 2.0**MAGNITUDE_GAP:
        return
    for low, high in pairwise(exponents(truth)):
        if high - low > MAGNITUDE_GAP and high > MAGNITUDE_GAP:
            yield 2.0**low


def judge(
    check: str,
    candidate: Array,
    truth: Array,
    reference: Array,
    noise: float,
    tolerance: Tolerance,
    group_size: float = 0.0,
    bound: Array | None = None,
) -> dict[str, Any]:
    """Judge one tensor.

    Args:
        check: "meaning" or "rounding".
        candidate: the tensor of the side under test, float64 for meaning.
        truth: the tensor of the reference in float64.
        reference: the tensor of the reference in the working dtype.
        noise: largest error of the reference against `truth` in the working dtype, over one or more runs.
        tolerance: the bars.
        group_size: largest element of the gradients that meet in the Cell, whose rounding a gradient inherits; 0 for
            outputs.
        bound: for each element, the error that rounding may cause in the working dtype; None if unknown.

    Returns:
        Fields of `Comparison`: status, reason, error, bar, ratio, ...
    """
    fields_of_tensor = {"dtype": candidate.dtype.name, "shape": tuple(truth.shape)}
    if candidate.shape != truth.shape:
        return fields_of_tensor | {
            "status": FAIL,
            "reason": f"shape {list(candidate.shape)}, needed {list(truth.shape)}",
            "error": np.inf,
            "ratio": np.inf,
        }
    if is_floating(candidate.dtype) != is_floating(truth.dtype):
        reason = f"dtype {candidate.dtype.name}, needed {reference.dtype.name}"
        return fields_of_tensor | {"status": FAIL, "reason": reason, "error": np.inf, "ratio": np.inf}
    if not is_floating(truth.dtype):
        return fields_of_tensor | _judge_exact(candidate, truth if check == "meaning" else reference)
    overflowing = reference if check == "rounding" else None
    largest_error, index = error(candidate, truth, overflowing)
    largest = size(truth)
    unit, allowed = allowed_error(check, largest, noise, tolerance, group_size)
    if check == "meaning" and bound is None and largest_error > unit * allowed:
        bound = _rounding_of_masked_scores(truth, largest, tolerance)
    if tolerance.overridden:
        passed, largest_error, index, unit = _judge_close(
            candidate, truth if check == "meaning" else reference, tolerance
        )
        allowed = 1.0
    else:
        passed = largest_error <= unit * allowed
        if not passed and bound is not None:
            outside, outside_index = error(candidate, truth, overflowing, within=bound)
            passed = outside <= unit * allowed
            if not passed:
                largest_error, index = outside, outside_index
            if index is not None and unit > 0:
                allowed = max(allowed, float(bound[index]) / unit)
            elif index is not None:  # the truth is zeros
                unit, allowed = float(bound[index]), 1.0
        worse = (
            _error_among_smaller_elements(check, candidate, truth, largest, reference, tolerance, group_size, bound)
            if passed
            else None
        )
        if worse is not None:
            passed, (largest_error, index, unit, noise) = False, worse
    bar = unit * allowed
    ratio = 0.0 if largest_error == 0 else largest_error / unit if unit else np.inf
    fields = fields_of_tensor | {
        "status": PASS if passed else FAIL,
        "error": largest_error,
        "reference_error": noise,
        "bar": bar,
        "ratio": ratio,
        "allowed": allowed,
    }
    if not passed:
        fields["reason"] = _reason(check, tolerance)
    return fields | _elements(index, candidate, truth, reference)


def _rounding_of_masked_scores(truth: Array, largest: float, tolerance: Tolerance) -> Array | None:
    """Half a unit in the working dtype's last place for scores that a mask sets, 0 for others; None without any."""
    limits = list(_magnitude_limits(truth, largest))
    if not limits:
        return None
    masked = (truth <= -MASKED) & (truth < -limits[-1]) & np.isfinite(truth)
    return np.where(masked, tolerance.unit / 2 * np.abs(truth), 0.0) if masked.any() else None


def _error_among_smaller_elements(
    check: str,
    candidate: Array,
    truth: Array,
    largest: float,
    reference: Array,
    tolerance: Tolerance,
    group_size: float,
    bound: Array | None,
) -> tuple[float, Index | None, float, float] | None:
    """Judge the elements that a wide gap separates from larger ones.

    Returns:
        Error, index, unit and the reference's error, for the first group that fails; None if all pass.
    """
    if reference.shape != truth.shape:
        return None
    for limit in _magnitude_limits(truth, largest):
        largest_below = size(truth, below=limit)
        of_reference = reference_error(reference, truth, below=limit)
        if of_reference > largest_below / 64:
            continue  # the reference itself has no significant digits there
        largest_error, index = error(
            candidate, truth, reference if check == "rounding" else None, below=limit, within=bound
        )
        unit, allowed = allowed_error(check, largest_below, of_reference, tolerance, group_size)
        if largest_error > MAGNITUDE_GAP_FACTOR * unit * allowed:
            return largest_error, index, MAGNITUDE_GAP_FACTOR * unit, of_reference
    return None


def allowed_error(
    check: str, largest: float, noise: float, tolerance: Tolerance, group_size: float
) -> tuple[float, float]:
    """Return the unit that errors are measured in, and the number of units that pass; see `judge`."""
    if check == "meaning":
        scaled_noise = noise * epsilon("float64") / tolerance.unit
        return MEANING_RELATIVE * largest + MEANING_NOISE * (scaled_noise + epsilon("float64") * group_size), 1.0
    return max(noise, tolerance.unit * max(largest, group_size * GROUP_SHARE)), ROUNDING_FACTOR


def _reason(check: str, tolerance: Tolerance) -> str:
    if tolerance.overridden:
        return "the error exceeds rtol and atol"
    return "not the same function" if check == "meaning" else "less precise than the reference"


def _judge_exact(candidate: Array, expected: Array) -> dict[str, Any]:
    count, index = differing(candidate, expected)
    if not count:
        return {"status": PASS}
    share = f"{count} of {expected.size} elements differ"
    return {"status": FAIL, "reason": share, "error": np.inf, "ratio": np.inf} | _elements(
        index, candidate, expected, expected
    )


def _judge_close(candidate: Array, reference: Array, tolerance: Tolerance) -> tuple[bool, float, Index | None, float]:
    """Judge by the user's rtol and atol; return (passed, largest error, its index, the bar there)."""
    atol, rtol = tolerance.atol or 0.0, tolerance.rtol or 0.0
    most, index = excess(candidate, reference, atol, rtol)
    if index is None:
        return True, 0.0, None, 0.0
    a, b = float(candidate[index]), float(reference[index])
    return most <= 0, abs(a - b), index, atol + rtol * abs(b)


def _elements(index: Index | None, candidate: Array, truth: Array, reference: Array) -> dict[str, Any]:
    if index is None:
        return {}
    return {
        "index": index,
        "candidate_value": float(candidate[index]),
        "truth": float(truth[index]),
        "reference_value": float(reference[index]) if reference.shape == truth.shape else None,
    }
