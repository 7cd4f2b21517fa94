"""The verdict on one tensor: is it what the reference has, up to rounding?

Meaning, in float64: if both sides compute the same function they agree up to the rounding of double precision. The bar
is `MEANING_RELATIVE` of the tensor's size, plus `MEANING_NOISE` times the rounding error that the reference makes in
the working dtype, scaled to double precision (a tensor whose terms cancel has no digits that are worth comparing).

Rounding, in the working dtype: the largest error against the float64 truth, in units of the largest error that the
reference itself makes against it (at least one unit in the last place of the tensor's largest element). Both sides
compute on the same numbers in another order, so that a few units are normal; `ROUNDING_FACTOR` is the bar.

Where some elements are a thousand and more and stand far apart from the others (scores that a mask sets to -1e9), the
others are judged by themselves too, against the rounding error that the reference makes in them; else all errors would
be small beside the largest element.

Where the reference overflows in the working dtype, and the truth doesn't, the candidate may overflow as well.
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
"""Powers of two between elements that stand apart and the others, at least."""
MAGNITUDE_GAP_FACTOR = 10.0
"""How much more lenient the bars are for the others: what is computed together with large numbers may lose digits."""


@dataclass(frozen=True)
class Tolerance:
    """The bars of a run: computed ones, or `|candidate - reference| <= atol + rtol * |reference|` where given."""

    dtype: str
    rtol: float | None = None
    atol: float | None = None

    @property
    def overridden(self) -> bool:
        """Whether the user gave tolerances."""
        return self.rtol is not None or self.atol is not None

    @property
    def unit(self) -> float:
        """Spacing of the working dtype at 1."""
        return epsilon(self.dtype)


def epsilon(dtype: str) -> float:
    """Spacing of the floating-point numbers of a dtype at 1."""
    return float(ml_dtypes.finfo(as_dtype(dtype)).eps)  # type: ignore[no-untyped-call]


def _below_what_stands_apart(truth: Array) -> Iterator[float]:
    """Below which absolute values elements are that others, of a thousand and more, stand far apart from."""
    if size(truth) < 2.0**MAGNITUDE_GAP:
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
) -> dict[str, Any]:
    """Judge one tensor.

    Args:
        check: "meaning" or "rounding".
        candidate: of the side under test, float64 for meaning.
        truth: of the reference in float64.
        reference: of the reference in the working dtype.
        noise: largest error of the reference against `truth` in the working dtype, of one run or of several.
        tolerance: the bars.
        group_size: size of the gradients that meet in the Cell, whose rounding a gradient inherits; 0 for outputs.

    Returns:
        Fields of `Comparison`: status, reason, error, bar, ratio, ...
    """
    described = {"dtype": candidate.dtype.name, "shape": tuple(truth.shape)}
    if candidate.shape != truth.shape:
        return described | {
            "status": FAIL,
            "reason": f"shape {list(candidate.shape)}, needed {list(truth.shape)}",
            "error": np.inf,
            "ratio": np.inf,
        }
    if is_floating(candidate.dtype) != is_floating(truth.dtype):
        reason = f"dtype {candidate.dtype.name}, needed {reference.dtype.name}"
        return described | {"status": FAIL, "reason": reason, "error": np.inf, "ratio": np.inf}
    if not is_floating(truth.dtype):
        return described | _judge_exact(candidate, truth if check == "meaning" else reference)
    overflowing = reference if check == "rounding" else None
    found, index = error(candidate, truth, overflowing)
    unit, allowed = _bar(check, size(truth), noise, tolerance, group_size)
    if tolerance.overridden:
        passed, found, index, unit = _judge_close(candidate, truth if check == "meaning" else reference, tolerance)
        allowed = 1.0
    else:
        passed = found <= unit * allowed
        worse = (
            _fault_beside_large_numbers(check, candidate, truth, reference, tolerance, group_size) if passed else None
        )
        if worse is not None:
            passed, (found, index, unit, noise) = False, worse
    bar = unit * allowed
    ratio = 0.0 if found == 0 else found / unit if unit else np.inf
    fields = described | {
        "status": PASS if passed else FAIL,
        "error": found,
        "reference_error": noise,
        "bar": bar,
        "ratio": ratio,
        "allowed": allowed,
    }
    if not passed:
        fields["reason"] = _reason(check, tolerance)
    return fields | _elements(index, candidate, truth, reference)


def _fault_beside_large_numbers(
    check: str, candidate: Array, truth: Array, reference: Array, tolerance: Tolerance, group_size: float
) -> tuple[float, Index | None, float, float] | None:
    """What is wrong among numbers that larger ones stand apart from: error, index, unit, error of the reference."""
    if reference.shape != truth.shape:
        return None
    for limit in _below_what_stands_apart(truth):
        largest = size(truth, below=limit)
        of_reference = reference_error(reference, truth, below=limit)
        if of_reference > largest / 64:
            continue  # the reference itself has no digits there
        found, index = error(candidate, truth, reference if check == "rounding" else None, below=limit)
        unit, allowed = _bar(check, largest, of_reference, tolerance, group_size)
        if found > MAGNITUDE_GAP_FACTOR * unit * allowed:
            return found, index, MAGNITUDE_GAP_FACTOR * unit, of_reference
    return None


def _bar(check: str, largest: float, noise: float, tolerance: Tolerance, group_size: float) -> tuple[float, float]:
    """The unit that errors are measured in, and how many of it pass."""
    if check == "meaning":
        scaled_noise = noise * epsilon("float64") / tolerance.unit
        return MEANING_RELATIVE * largest + MEANING_NOISE * (scaled_noise + epsilon("float64") * group_size), 1.0
    return max(noise, tolerance.unit * max(largest, group_size * GROUP_SHARE)), ROUNDING_FACTOR


def _reason(check: str, tolerance: Tolerance) -> str:
    if tolerance.overridden:
        return "further off than rtol and atol allow"
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
    """By the user's rtol and atol: (passed, largest error, its index, the bar there)."""
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
