"""Integers of one and two bytes, and unsigned ones of four, give in ONNX Runtime what they give in the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import cellbridge.runtime as ms
from cellbridge.converter import to_onnx
from cellbridge.runtime import Tensor, ops

FUNCTIONS: dict[str, Any] = {
    "neg": lambda x: -x,
    "cumsum": lambda x: x.cumsum(1),
    "matmul": lambda x: ops.matmul(x, x.T),
    "triangle": lambda x: (ops.tril(x), ops.triu(x, 1)),
    "table": lambda x: ops.gather(Tensor(np.arange(6.0)), ops.clamp(x, 0, 5), 0),
    "largest": lambda x: (x.max(), x.max(1), x.min(0), x.argmax(1), x.argmin(), ops.cummax(x, 1), ops.maximum(x, 2)),
    "order": lambda x: (ops.sort(x, 1), ops.topk(x, 2)),
    "chosen": lambda x: (ops.where(x > 1, x, x * 2), x.masked_fill(x > 1, 3), ops.relu(x)),
    "pooled": lambda x: ops.max_pool2d(x.reshape(1, 1, 2, 3), 2, 1),
    "padded": lambda x: (ops.pad(x, (1, 2)), ops.pad(x, (1, 1), mode="reflect")),
}


@pytest.mark.parametrize("dtype", [ms.int8, ms.uint8, ms.int16, ms.uint16, ms.uint32, ms.int32], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_small_integers_are_computed_and_wrap_around(name: str, dtype: Any) -> None:
    largest = np.iinfo(dtype).max
    x = Tensor(np.array([[1, 0, 3], [2, largest, largest - 1]], dtype))
    program = ms.trace(FUNCTIONS[name], (x,)).program
    expected_results, given = program(x), ms.compile(program, "cpu")(x)
    for actual, expected in zip(_arrays(given), _arrays(expected_results), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    onnx.checker.check_model(to_onnx(program), full_check=True)


def _arrays(result: Any) -> list[Any]:
    return [array for part in result for array in _arrays(part)] if isinstance(result, tuple) else [result]
