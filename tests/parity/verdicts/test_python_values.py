"""Values in results that are no tensors."""

from __future__ import annotations

import math

import numpy as np

from cellbridge.parity.results.comparison import FAIL, PASS
from cellbridge.parity.verdicts.judge import Tolerance
from cellbridge.parity.verdicts.python_values import judge_values


def test_a_reference_that_overflows_excuses_no_other_number() -> None:
    tolerance = Tolerance("float32")
    assert judge_values("rounding", 5.0, 1e39, math.inf, tolerance)["status"] == FAIL
    assert judge_values("rounding", math.inf, 1e39, math.inf, tolerance)["status"] == PASS


def test_values_of_other_classes_are_shown_with_their_classes() -> None:
    tolerance = Tolerance("float32")
    differ = judge_values("meaning", "2", "3", "3", tolerance)
    assert differ["reason"] == "'2', needed '3'"
    of_list = judge_values("meaning", ["2"], "2", "2", tolerance)
    assert of_list["reason"] == "['2'] (list), needed '2' (str)"


def test_complex_numbers_are_judged_by_both_parts() -> None:
    tolerance = Tolerance("float32")
    judged = judge_values("meaning", 1 + 2.5j, 1 + 2j, 1 + 2j, tolerance)
    assert (judged["status"], judged["index"], judged["candidate_value"]) == (FAIL, (1,), 2.5)
    numbers = np.array([[1 + 2j, 3j, 4], [5, 6, 7j]])
    off = numbers.copy()
    off[1, 0] += 1j
    judged = judge_values("meaning", off, numbers, numbers, tolerance)
    assert (judged["index"], judged["candidate_value"]) == ((1, 0, 1), 1.0)
