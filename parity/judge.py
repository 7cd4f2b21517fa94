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

from ..runtime.ir.types import as_dtype, is_floating
from .results import FAIL, PASS

MEANING_RELATIVE = 1e-11
MEANING_NOISE = 64.0
ROUNDING_FACTOR = 10.0
GROUP_SHARE = 1.0 / 16.0
APART = 10
"""Powers of two between elements that stand apart and the others, at least."""
APART_FACTOR = 10.0
"""How much more lenient the bars are for the others: what is computed together with large numbers may lose digits."""

Array = np.ndarray[Any, Any]


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


def size(array: Array | None) -> float:
    """Largest absolute finite element, 0 for none."""
    if array is None or array.size == 0:
        return 0.0
    largest = max(abs(float(array.max())), abs(float(array.min())))
    if np.isfinite(largest):
        return largest
    magnitudes = np.abs(array.astype(np.float64, copy=False))
    return float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes)))


def error(candidate: Array, truth: Array) -> tuple[float, tuple[int, ...] | None]:
    """Largest absolute difference and its index; infinite where one side is NaN or infinite and the other isn't so."""
    if truth.size == 0:
        return 0.0, None
    a, b = candidate.astype(np.float64, copy=False), truth.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        difference = np.asarray(a - b)
    np.abs(difference, out=difference)
    flat = int(np.argmax(difference))  # that of a NaN, if there is any
    if not np.isfinite(difference.flat[flat]):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        difference = np.where(np.isfinite(difference), difference, np.where(same, 0.0, np.inf))
        flat = int(np.argmax(difference))
    return float(difference.flat[flat]), tuple(int(i) for i in np.unravel_index(flat, difference.shape))


def reference_error(reference: Array, truth: Array) -> float:
    """Largest error that the reference makes in the working dtype, where it doesn't overflow."""
    return error(_without(_overflowed(reference, truth), reference, truth), truth)[0]


def _overflowed(reference: Array, truth: Array) -> Array | None:
    """Where the reference isn't finite though the truth is; None for nowhere."""
    if reference.shape != truth.shape or not is_floating(reference.dtype) or bool(np.isfinite(reference).all()):
        return None
    return np.asarray(~np.isfinite(reference) & np.isfinite(truth))


def _without(overflowed: Array | None, array: Array, truth: Array) -> Array:
    """The array with the truth in place of what isn't finite where the reference overflows."""
    if overflowed is None:
        return array
    return np.where(overflowed & ~np.isfinite(array), truth, array.astype(np.float64))


def _below_what_stands_apart(truth: Array) -> Iterator[Array]:
    """Where elements are that others, of a thousand and more, stand far apart from; for each such distance."""
    magnitudes = np.abs(truth, dtype=np.float64)
    found = magnitudes[np.isfinite(magnitudes) & (magnitudes > 0)]
    if not found.size or found.max() < 2.0**APART:
        return
    exponents = np.frexp(found)[1]
    lowest = int(exponents.min())
    occupied = np.flatnonzero(np.bincount(exponents - lowest)) + lowest
    for low, high in pairwise(occupied):
        if high - low > APART and high > APART:
            yield magnitudes < 2.0 ** int(low)


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
    candidate = _without(_overflowed(reference, truth), candidate, truth) if check == "rounding" else candidate
    found, index = error(candidate, truth)
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
) -> tuple[float, tuple[int, ...] | None, float, float] | None:
    """What is wrong among numbers that larger ones stand apart from: error, index, unit, error of the reference."""
    if reference.shape != truth.shape:
        return None
    for small in _below_what_stands_apart(truth):
        largest = size(truth[small])
        of_reference = reference_error(np.where(small, reference, truth), truth)
        if of_reference > largest / 64:
            continue  # the reference itself has no digits there
        found, index = error(np.where(small, candidate, truth), truth)
        unit, allowed = _bar(check, largest, of_reference, tolerance, group_size)
        if found > APART_FACTOR * unit * allowed:
            return found, index, APART_FACTOR * unit, of_reference
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
    differing = np.argwhere(candidate != expected)
    if not len(differing):
        return {"status": PASS}
    index = tuple(int(i) for i in differing[0])
    share = f"{len(differing)} of {expected.size} elements differ"
    return {"status": FAIL, "reason": share, "error": np.inf, "ratio": np.inf} | _elements(
        index, candidate, expected, expected
    )


def _judge_close(
    candidate: Array, reference: Array, tolerance: Tolerance
) -> tuple[bool, float, tuple[int, ...] | None, float]:
    """By the user's rtol and atol: (passed, largest error, its index, the bar there)."""
    a, b = candidate.astype(np.float64), reference.astype(np.float64)
    bars = (tolerance.atol or 0.0) + (tolerance.rtol or 0.0) * np.abs(b)
    with np.errstate(invalid="ignore"):
        excess = np.abs(a - b) - bars
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    excess = np.where(same, -np.inf, np.where(np.isnan(excess), np.inf, excess))
    if not excess.size:
        return True, 0.0, None, 0.0
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(excess)), excess.shape))
    with np.errstate(invalid="ignore"):
        return bool((excess <= 0).all()), float(np.abs(a - b)[index]), index, float(bars[index])


def _elements(index: tuple[int, ...] | None, candidate: Array, truth: Array, reference: Array) -> dict[str, Any]:
    if index is None:
        return {}
    return {
        "index": index,
        "candidate_value": float(candidate[index]),
        "truth": float(truth[index]),
        "reference_value": float(reference[index]) if reference.shape == truth.shape else None,
    }
