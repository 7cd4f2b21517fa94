"""The verdict on values other than tensors that a network returns: numbers, strings, None, arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..results.comparison import FAIL, PASS
from .deviations import reference_error
from .judge import Tolerance, judge

EXACT_TYPES = (type(None), bool, int, str, bytes)
"""Types whose values must be equal."""
MAX_SHOWN = 60


def judge_values(check: str, candidate: Any, truth: Any, reference: Any, tolerance: Tolerance) -> dict[str, Any]:
    """Judge one value.

    Args:
        check: "meaning" or "rounding".
        candidate: the value of the side under test.
        truth: the value of the reference in float64.
        reference: the value of the reference in the working dtype.
        tolerance: the bars.

    Returns:
        Fields of `Comparison`. Floating-point numbers are judged like tensors. Objects of other classes count as equal
        if their classes are the same, since their contents aren't known.
    """
    if isinstance(truth, (float, complex, np.ndarray, np.generic)) and type(candidate) is type(truth):
        truth_array, candidate_array, reference_array = (_as_real(value) for value in (truth, candidate, reference))
        if truth_array.dtype != candidate_array.dtype and truth_array.dtype.kind != "f":
            return _differ(candidate, truth)
        return judge(
            check,
            candidate_array,
            truth_array,
            reference_array,
            reference_error(reference_array, truth_array),
            tolerance,
        )
    equal = type(candidate) is type(truth) and (not isinstance(truth, EXACT_TYPES) or candidate == truth)
    return {"status": PASS} if equal else _differ(candidate, truth)


def _as_real(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _differ(candidate: Any, truth: Any) -> dict[str, Any]:
    """Return the fields of a failure, with class names if the classes differ."""
    candidate_text, truth_text = (f"{value!r:.{MAX_SHOWN}}" for value in (candidate, truth))
    if type(candidate) is not type(truth):
        candidate_text, truth_text = (
            f"{candidate_text} ({type(candidate).__name__})",
            f"{truth_text} ({type(truth).__name__})",
        )
    return {"status": FAIL, "reason": f"{candidate_text}, needed {truth_text}", "error": np.inf, "ratio": np.inf}
