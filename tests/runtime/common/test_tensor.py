"""`Tensor`: what it is made of, what it says of itself, and that it shares nothing with arrays outside."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, grad
from cellbridge.runtime.common.initializer import One, initializer


@pytest.mark.parametrize(
    ("data", "dtype", "shape"),
    [
        (3, "int64", ()),
        (1.5, "float32", ()),
        (True, "bool", ()),
        ([1, 2], "int64", (2,)),
        ((1.5, 2), "float32", (2,)),
        ([[1], [2]], "int64", (2, 1)),
        ([True, False], "bool", (2,)),
        ([], "float32", (0,)),
        (np.array([1.0]), "float64", (1,)),
        (np.array([1], np.int16), "int16", (1,)),
        (np.array([1], ">i4"), "int32", (1,)),
        (np.float16(2), "float16", ()),
        ([np.float64(1), np.float64(2)], "float64", (2,)),
        ([Tensor([1.0]), Tensor([2.0])], "float32", (2, 1)),
        (Tensor([1], ms.int8), "int8", (1,)),
    ],
)
def test_what_a_tensor_is_made_of(data: Any, dtype: str, shape: tuple[int, ...]) -> None:
    tensor = Tensor(data)
    assert (str(tensor.dtype), tensor.shape) == (dtype, shape)
    assert Tensor(data, ms.float16).dtype == np.float16


@pytest.mark.parametrize("data", ["a", None, 1 + 2j, [[1], [2, 3]], ["a"], np.array(["a"]), object(), np.longdouble(1)])
def test_what_it_is_not_made_of(data: Any) -> None:
    with pytest.raises(TypeError, match="tensor"):
        Tensor(data)


def test_bytes_in_the_other_order_are_turned() -> None:
    image = np.array([1.5, -2.0], ">f4")
    for tensor in (Tensor(image), Tensor.from_numpy(image), Tensor(image, ms.float32)):
        assert tensor.dtype == ms.float32
        assert tensor.tolist() == [1.5, -2.0]
    assert ms.Parameter(image).dtype == ms.float32


def test_filled_by_an_initializer() -> None:
    assert Tensor(shape=(2,), dtype=ms.float16, init=One()).init_data().tolist() == [1.0, 1.0]
    assert initializer("ones", [2]).init_data().dtype == np.float32
    assert ms.tensor([1.0], ms.float64).dtype == np.float64


def test_what_it_says_of_itself() -> None:
    x = Tensor([[1.0, 2.0], [3.0, 4.0]])
    assert (x.shape, x.ndim, x.dim(), x.size, x.numel(), x.itemsize, x.nbytes) == ((2, 2), 2, 2, 4, 4, 4, 16)
    assert (len(x), [row.tolist() for row in x]) == (2, [[1.0, 2.0], [3.0, 4.0]])
    assert (x.item(1, 0), x[0, 1].item(), x.tolist()) == (3.0, 2.0, [[1.0, 2.0], [3.0, 4.0]])
    assert (int(Tensor(2.7)), float(Tensor([2.5])), bool(Tensor([[0.0]])), f"{Tensor(2.5):.2f}") == (
        2,
        2.5,
        False,
        "2.50",
    )
    assert [10, 20, 30][Tensor(1)] == 20
    assert len({x: 1, Tensor([1.0]): 2}) == 2


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda: bool(Tensor([1.0, 2.0])), ValueError, "ambiguous.* one element, got 2"),
        (lambda: bool(Tensor([])), ValueError, "empty"),
        (lambda: Tensor([1.0, 2.0]).item(), ValueError, r"one element, but got shape \(2,\)"),
        (lambda: len(Tensor(1.0)), TypeError, "0-d"),
        (lambda: list(Tensor(1.0)), TypeError, "0-d"),
        (lambda: [1, 2][Tensor(1.0)], TypeError, "integer tensor.* float32"),
        (lambda: Tensor.from_numpy([1.0]), TypeError, "from_numpy.*array.*list"),
        (lambda: Tensor([1.0]).unknown, AttributeError, "unknown"),
    ],
)
def test_refusals(act: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        act()


def test_repr() -> None:
    assert repr(Tensor([1.0, 2.0])) == "Tensor(shape=[2], dtype=Float32, value=[1., 2.])"
    assert repr(Tensor(3)) == "Tensor(shape=[], dtype=Int64, value=3)"
    assert repr(Tensor([[1, 2], [3, 4]])) == "Tensor(shape=[2, 2], dtype=Int64, value=\n[[1, 2],\n [3, 4]])"
    assert repr(Tensor([1.5], ms.bfloat16)) == "Tensor(shape=[1], dtype=BFloat16, value=[1.5])"
    assert (str(Tensor([1.0, 2.0])), f"{Tensor(True)}") == ("[1. 2.]", "True")


def test_arrays_outside_stay_apart() -> None:
    array = np.array([1.0, 2.0])
    tensors = [Tensor(array), Tensor.from_numpy(array)]
    array[0] = 9.0
    for tensor in tensors:
        taken = [tensor.asnumpy(), np.asarray(tensor), tensor.numpy()]
        for copy_ in taken:
            copy_[1] = 9.0
        assert tensor.tolist() == [1.0, 2.0]


def test_tensors_made_of_tensors_stay_apart() -> None:
    x = Tensor([1.0, 2.0])
    others = [Tensor(x), x.copy(), copy.deepcopy(x), copy.copy(x), x.value()]
    for twin in others:
        twin[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    assert all(twin.tolist() == [9.0, 2.0] for twin in others)
    assert x.assign_value(Tensor([5.0, 6.0])) is x
    assert x.tolist() == [5.0, 6.0]


def test_pickling() -> None:
    x = pickle.loads(pickle.dumps(Tensor([1.5], ms.bfloat16)))
    assert (x.tolist(), x.dtype) == ([1.5], ms.bfloat16)


def test_a_copy_and_numpy_within_a_differentiated_function() -> None:
    x = Tensor([3.0])
    assert grad(lambda x: x.copy() * x)(x).tolist() == [6.0]
    assert grad(lambda x: copy.deepcopy(x) * x)(x).tolist() == [3.0]  # a copy of the value, which is a constant
    assert grad(lambda x: Tensor(x.asnumpy()) * x)(x).tolist() == [3.0]
    assert grad(lambda x: np.float64(2) * x * np.array([2.0], np.float32))(x).tolist() == [4.0]


@pytest.mark.parametrize("function", [torch.nn.MSELoss(), torch.nn.Linear(2, 1), torch.sum, torch.ones(2).copy_])
def test_functions_of_torch_say_whose_tensor_they_were_given(function: Callable[..., Any]) -> None:
    given = (Tensor([1.0, 2.0]),) * (2 if isinstance(function, torch.nn.MSELoss) else 1)
    with pytest.raises(
        TypeError, match=r"^torch's \w+ was given a Tensor of cellbridge.runtime: use the equivalent in"
    ):
        function(*given)
