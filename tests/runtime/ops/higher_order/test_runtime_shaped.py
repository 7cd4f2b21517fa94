"""Operators whose result has a shape that values of their operands decide: what a table of cases can't hold."""

from __future__ import annotations

import numpy as np

from tests.runtime.ops.cases import OpCase
from tests.runtime.ops.cases_runtime_shaped import attributes
from tests.runtime.ops.checks import run_vjp


def test_bounds_of_a_range_have_no_gradient() -> None:
    bounds = [np.array(1.0), np.array(4.0), np.array(1.5)]
    case = OpCase("runtime_shaped", tuple(bounds), attributes("Range", ("a",), dtype=np.dtype(np.float64)))
    numbers = np.array([1.0, 2.5])
    assert list(run_vjp(case, [np.ones(2)], [numbers], bounds)) == [None, None, None]
