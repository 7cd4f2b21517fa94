"""Integers of all widths to their ends: ONNX Runtime orders some of 64 bits wrongly, and computes others in float64."""

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
    expected, actual = function(*args), ms.jit(lambda a, b: function(a, b))(*args)
    pairs = zip(expected, actual, strict=True) if isinstance(expected, tuple) else [(expected, actual)]
    for expected_tensor, computed in pairs:
        np.testing.assert_array_equal(computed.asnumpy(), expected_tensor.asnumpy())


EXACT: dict[str, Callable[..., Any]] = {
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "// 3": lambda a, b: a // 3,
    "fmod": ops.fmod,
    "truncated quotient": lambda a, b: ops.div(a, b, rounding_mode="trunc"),
    "product": lambda a, b: a * b,
    "square": lambda a, b: a**2,
    "power of 35": lambda a, b: a**35,
    "power": lambda a, b: a ** (b % 64),
    "powers of 0 and 1": lambda a, b: (a % 2) ** b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "sum": lambda a, b: a.sum(),
    "product of matrices": lambda a, b: ops.matmul(a.reshape(1, -1), b.reshape(-1, 1)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_arithmetic_is_exact_to_the_ends(name: str, dtype: str) -> None:
    ends = np.iinfo(dtype)
    signed = [-1, -2, -3, -7] if ends.min else []
    numbers = [ends.max, ends.max - 1, ends.min, ends.min + 1, 0, 1, 2, 3, 5, 7, 40, 62, 63, 64, *signed]
    a, b = (ms.Tensor(grid.reshape(-1).astype(dtype)) for grid in np.meshgrid(numbers, [n for n in numbers if n]))
    function = EXACT[name]
    np.testing.assert_array_equal(ms.jit(lambda a, b: function(a, b))(a, b).asnumpy(), function(a, b).asnumpy())


def test_sums_of_any_axes_and_sizes_are_exact() -> None:
    def sums(x: Any) -> Any:
        return x.sum(0), x.sum((0, 2)), x.sum(-1, keepdims=True), x.sum(), (x > 0).sum()

    compiled = ms.jit(sums)
    for size in (2, 5, 0):
        x = ms.Tensor(_rng.integers(-(2**62), 2**62, (size, 3, 4)))
        for actual, expected in zip(compiled(x), sums(x), strict=True):
            np.testing.assert_array_equal(actual.asnumpy(), expected.asnumpy(), strict=True)
    assert compiled.cache_info().traces == 2
