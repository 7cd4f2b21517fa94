"""New tensors: values, dtypes and shapes; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, grad, ops

X = Tensor([[1.0, 2.0, 3.0]], ms.float16)

CASES: dict[str, tuple[Callable[[], Tensor], Any, str]] = {
    "zeros": (lambda: ops.zeros((2, 1)), [[0], [0]], "float32"),
    "zeros of one size": (lambda: ops.zeros(2, ms.int32), [0, 0], "int32"),
    "zeros of a tensor": (lambda: ops.zeros(Tensor([1, 2])), [[0, 0]], "float32"),
    "Zeros": (lambda: ops.Zeros()((2,), ms.bool_), [False, False], "bool"),
    "ones": (lambda: ops.ones([2]), [1, 1], "float32"),
    "ones number": (lambda: ops.ones(()), 1, "float32"),
    "Ones": (lambda: ops.Ones()((1,), ms.float16), [1], "float16"),
    "full int": (lambda: ops.full((2,), 3), [3, 3], "int64"),
    "full float": (lambda: ops.full((2,), 0.5), [0.5, 0.5], "float32"),
    "full bool": (lambda: ops.full((1,), True), [True], "bool"),
    "full tensor": (lambda: ops.full((2,), Tensor(3, ms.int8)), [3, 3], "int8"),
    "full dtype": (lambda: ops.full((2,), 3, dtype=ms.bfloat16), [3, 3], "bfloat16"),
    "fill": (lambda: ops.fill(ms.int32, (2,), 3.5), [3, 3], "int32"),
    "Fill": (lambda: ops.Fill()(ms.float32, (2,), 1), [1, 1], "float32"),
    "zeros_like": (lambda: ops.zeros_like(X), [[0, 0, 0]], "float16"),
    "zeros_like dtype": (lambda: ops.zeros_like(X, dtype=ms.int64), [[0, 0, 0]], "int64"),
    "ZerosLike": (lambda: ops.ZerosLike()(X), [[0, 0, 0]], "float16"),
    "ones_like": (lambda: ops.ones_like(X), [[1, 1, 1]], "float16"),
    "OnesLike": (lambda: ops.OnesLike()(X), [[1, 1, 1]], "float16"),
    "full_like": (lambda: ops.full_like(X, 7), [[7, 7, 7]], "float16"),
    "fills": (lambda: X.fills(2), [[2, 2, 2]], "float16"),
    "x.fill": (lambda: X.fill(2), [[2, 2, 2]], "float16"),
    "new_zeros": (lambda: X.new_zeros(1, 2), [[0, 0]], "float16"),
    "new_ones": (lambda: X.new_ones((2,), dtype=ms.int32), [1, 1], "int32"),
    "new_full": (lambda: X.new_full((2,), 5), [5, 5], "float16"),
    "arange": (lambda: ops.arange(3), [0, 1, 2], "int64"),
    "arange from": (lambda: ops.arange(5, 1, -2), [5, 3], "int64"),
    "arange floats": (lambda: ops.arange(0, 1, 0.25), [0, 0.25, 0.5, 0.75], "float32"),
    "arange dtype": (lambda: ops.arange(2, dtype=ms.float16), [0, 1], "float16"),
    "arange nothing": (lambda: ops.arange(0), [], "int64"),
    "range": (lambda: ops.range(Tensor(0), Tensor(5), Tensor(2)), [0, 2, 4], "int64"),
    "Range": (lambda: ops.Range()(0.0, 5.0, 2.0), [0, 2, 4], "float32"),
    "linspace": (lambda: ops.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1], "float32"),
    "linspace tensors": (lambda: ops.linspace(Tensor(0.0, ms.float64), Tensor(1.0), 3), [0, 0.5, 1], "float64"),
    "LinSpace": (lambda: ops.LinSpace()(Tensor(0.0), Tensor(10.0), Tensor(3)), [0, 5, 10], "float32"),
    "logspace": (lambda: ops.logspace(0, 2, 3), [1, 10, 100], "float32"),
    "LogSpace": (lambda: ops.LogSpace(3, 2)(0, 2), [1, 2, 4], "float32"),
    "eye": (lambda: ops.eye(2), [[1, 0], [0, 1]], "float32"),
    "Eye": (lambda: ops.Eye()(2, 3, ms.int32), [[1, 0, 0], [0, 1, 0]], "int32"),
    "tril_indices": (lambda: ops.tril_indices(2, 2), [[0, 1, 1], [0, 0, 1]], "int64"),
    "triu_indices": (lambda: ops.triu_indices(2, 2, 1, dtype=ms.int32), [[0], [1]], "int32"),
    "scalar_to_tensor": (lambda: ops.scalar_to_tensor(3), 3, "float32"),
    "scalar_to_tensor dtype": (lambda: ops.ScalarToTensor()(3, ms.int32), 3, "int32"),
    "scalar_to_array": (lambda: ops.scalar_to_array(3), 3, "int64"),
    "scalar_to_array float": (lambda: ops.ScalarToArray()(2.5), 2.5, "float32"),
    "tuple_to_array": (lambda: ops.tuple_to_array((1, 2)), [1, 2], "int32"),
    "tuple_to_array floats": (lambda: ops.TupleToArray()((1.5, 2)), [1.5, 2], "float32"),
    "tensor": (lambda: ms.tensor([1, 2]), [1, 2], "int64"),
    "tensor dtype": (lambda: ms.tensor(1.5, ms.float16), 1.5, "float16"),
}


@pytest.mark.parametrize(("make", "values", "dtype"), CASES.values(), ids=CASES)
def test_values_and_dtypes(make: Callable[[], Tensor], values: Any, dtype: str) -> None:
    made = make()
    assert made.dtype.name == dtype
    assert made.shape == np.shape(values)
    assert made.tolist() == values


@settings(max_examples=50, deadline=None)
@given(st.integers(-5, 5), st.integers(-5, 5), st.integers(1, 3))
def test_arange_is_numpy_s(start: int, stop: int, step: int) -> None:
    step = step if start <= stop else -step
    np.testing.assert_array_equal(ops.arange(start, stop, step).asnumpy(), np.arange(start, stop, step))


def test_made_tensors_can_be_written_to_and_share_nothing() -> None:
    x = ops.zeros((2, 2))
    x[0, 0] = 1.0
    assert x.asnumpy().tolist() == [[1, 0], [0, 0]]
    assert x.asnumpy().flags.writeable


def test_clone_lets_gradients_through() -> None:
    x = Tensor([1.0, 2.0])
    assert x.clone() is not x
    assert grad(lambda x: (x.clone() * x).sum())(x).asnumpy().tolist() == [2.0, 4.0]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: ops.zeros((-1,)), ValueError, ("zeros", "negative")),
        (lambda: ops.zeros(2.5), TypeError, ("zeros", "size", "float")),
        (lambda: ops.zeros((1,), "float99"), TypeError, ("float99",)),
        (lambda: ops.full((1,), "a"), TypeError, ("full", "fill_value", "str")),
        (lambda: ops.arange(0, 5, 0), ValueError, ("arange", "step")),
        (lambda: ops.arange(5, 0), ValueError, ("arange", "step 1")),
        (lambda: ops.range(0, 5, 1, maxlen=3), ValueError, ("range", "maxlen", "3")),
        (lambda: ops.linspace(0, 1, 0), ValueError, ("linspace", "steps", "0")),
        (lambda: ops.eye(-1), ValueError, ("eye", "-1")),
        (lambda: ops.scalar_to_tensor([1]), TypeError, ("scalar_to_tensor", "list")),
        (lambda: ops.tuple_to_array([1]), TypeError, ("tuple_to_array", "list")),
    ],
)
def test_errors(wrong: Callable[[], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong()
    assert [word for word in words if word not in str(raised.value)] == []
