"""Calls as MindSpore 2.10 answers them on the CPU: values, dtypes and shapes, measured there (`measured.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import Tensor
from tests.runtime.functional.operands_of_calls import result_of

MEASURED = json.loads((Path(__file__).parent / "measured.json").read_text())
VALUES: dict[str, Any] = MEASURED["values"]
TYPES: dict[str, str] = MEASURED["types"]


def require_equal(actual: Any, expected: Any) -> None:
    """Raise `AssertionError` unless a result is what was measured.

    Of a tensor, the first 24 elements were kept, to five digits; the tanh of MindSpore has as many.
    """
    if isinstance(expected, list):
        assert isinstance(actual, (tuple, list))
        assert len(actual) == len(expected)
        for f, e in zip(actual, expected, strict=True):
            require_equal(f, e)
    elif isinstance(expected, dict) and "shape" in expected:
        assert isinstance(actual, Tensor)
        assert (str(actual.dtype), list(actual.shape)) == (expected["dtype"], expected["shape"])
        values = actual.asnumpy().astype(np.float64).reshape(-1)[: len(expected["data"])]
        rough = 2e-3 if "16" in expected["dtype"] and "int" not in expected["dtype"] else 2e-4
        np.testing.assert_allclose(values, np.array(expected["data"], np.float64), rtol=rough, atol=rough / 4)
    elif isinstance(expected, dict):
        assert str(actual).lower() == expected["dtype"]
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=1e-4)
    else:
        assert actual == expected


@pytest.mark.every(2)
@pytest.mark.parametrize("call", VALUES)
def test_values(call: str) -> None:
    require_equal(result_of(call), VALUES[call])


@pytest.mark.parametrize("start", range(0, len(TYPES), 100))
def test_dtypes_and_shapes(start: int) -> None:
    for call in list(TYPES)[start : start + 100]:
        result = result_of(call)
        assert f"{result.dtype}{list(result.shape)}".replace(" ", "") == TYPES[call], call


@pytest.mark.parametrize(
    "wrong",
    [
        {"dtype": "float32", "shape": [2], "data": [1.0, 2.01]},
        {"dtype": "float64", "shape": [2], "data": [1.0, 2.0]},
        {"dtype": "float32", "shape": [2, 1], "data": [1.0, 2.0]},
        {"dtype": "float32", "shape": [2], "data": ["nan", 2.0]},
        [{"dtype": "float32", "shape": [2], "data": [1.0, 2.0]}],
        2,
    ],
)
def test_a_planted_fault_is_found(wrong: Any) -> None:
    result = Tensor(np.array([1.0, 2.0], np.float32))
    require_equal(result, {"dtype": "float32", "shape": [2], "data": [1.0, 2.0]})
    with pytest.raises((AssertionError, ValueError)):
        require_equal(result, wrong)
