"""Values in results that are no tensors."""

from __future__ import annotations

import math

from cellbridge.parity.results.comparison import FAIL, PASS
from cellbridge.parity.verdicts.judge import Tolerance
from cellbridge.parity.verdicts.python_values import judge_values


def test_a_reference_that_overflows_excuses_no_other_number() -> None:
    tolerance = Tolerance("float32")
    assert judge_values("rounding", 5.0, 1e39, math.inf, tolerance)["status"] == FAIL
    assert judge_values("rounding", math.inf, 1e39, math.inf, tolerance)["status"] == PASS
