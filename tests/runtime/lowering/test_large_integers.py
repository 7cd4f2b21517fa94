"""Integers of 64 bits, of which ONNX Runtime orders some wrongly: those that differ in their last 32 bits alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import ops

_rng = np.random.default_rng(0)
A = _rng.integers(-(2**33), 2**33, (16, 32))
B = A + _rng.integers(-(2**32), 2**32, A.shape)
BOUND = 2**32 + 5

ORDERED: dict[str, Callable[..., Any]] = {
    "maximum": ops.maximum,
    "minimum": ops.minimum,
    "largest of rows": lambda a, b: ops.amax(a, 1, keepdims=True),
    "smallest of columns": lambda a, b: ops.amin(b, 0),
    "largest": lambda a, b: ops.amax(a),
    "smallest": lambda a, b: ops.amin(b, (0, 1)),
    "relu": lambda a, b: ops.relu(a),
    "clamp": lambda a, b: ops.clamp(a, -5, BOUND),
    "clamp below": lambda a, b: ops.clamp(a, None, BOUND),
    "sign": lambda a, b: ops.sign(a),
    "cummax": lambda a, b: ops.cummax(a, 1),
    "cummin": lambda a, b: ops.cummin(b, 0),
}


@pytest.mark.parametrize("name", ORDERED)
def test_integers_of_64_bits_are_ordered(name: str) -> None:
    function, args = ORDERED[name], (ms.Tensor(A), ms.Tensor(B))
    expected, found = function(*args), ms.jit(lambda a, b: function(a, b))(*args)
    pairs = zip(expected, found, strict=True) if isinstance(expected, tuple) else [(expected, found)]
    for wanted, computed in pairs:
        np.testing.assert_array_equal(computed.asnumpy(), wanted.asnumpy())
