"""The verdict on what a network returns beside tensors: numbers, strings, None, arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..results.comparison import FAIL, PASS
from .deviations import reference_error
from .judge import Tolerance, judge

COMPARED = (type(None), bool, int, str, bytes)
"""Kinds of values that must be equal."""
MAX_SHOWN = 60


def judge_values(check: str, given: Any, needed: Any, in_working: Any, tolerance: Tolerance) -> dict[str, Any]:
    """Judge one value.

    Args:
        check: "meaning" or "rounding".
        given: of the side under test.
        needed: of the reference in float64.
        in_working: of the reference in the working dtype.
        tolerance: the bars.

    Returns:
        Fields of `Comparison`: floating-point numbers are judged as a tensor of them is. Objects of other classes are
        equal to any of their class: what they hold isn't known.
    """
    if isinstance(needed, (float, complex, np.ndarray, np.generic)) and type(given) is type(needed):
        expected, value, reference = (_as_real(each) for each in (needed, given, in_working))
        if expected.dtype != value.dtype and expected.dtype.kind != "f":
            return _differ(given, needed)
        return judge(check, value, expected, reference, reference_error(reference, expected), tolerance)
    equal = type(given) is type(needed) and (not isinstance(needed, COMPARED) or given == needed)
    return {"status": PASS} if equal else _differ(given, needed)


def _as_real(value: Any) -> np.ndarray[Any, Any]:
    array = np.asarray(value)
    return np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array


def _differ(given: Any, needed: Any) -> dict[str, Any]:
    """A failure; the classes are named where the values look alike."""
    shown, expected = (f"{value!r:.{MAX_SHOWN}}" for value in (given, needed))
    if type(given) is not type(needed):
        shown, expected = f"{shown} ({type(given).__name__})", f"{expected} ({type(needed).__name__})"
    return {"status": FAIL, "reason": f"{shown}, needed {expected}", "error": np.inf, "ratio": np.inf}
