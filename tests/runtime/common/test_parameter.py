"""`Parameter` and `ParameterTuple`: dtypes, names, values and copies."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, ParameterTuple, Tensor, nn


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (3, "int32"),
        (3.0, "float32"),
        (np.float64(3.0), "float32"),  # a Python float, too
        ([1, 2], "int64"),
        ([1.0, 2.0], "float32"),
        (np.array([1.0]), "float64"),
        (np.array([1], np.int16), "int16"),
        (Tensor([1.0], ms.float16), "float16"),
    ],
)
def test_dtypes(data: Any, dtype: str) -> None:
    assert str(Parameter(data).dtype) == dtype


def test_names() -> None:
    assert Parameter(1.0, name="a").name == "a"
    assert Parameter(1.0).name == Parameter(1.0, name=" ").name == "Parameter"
    cell = nn.Cell()
    cell.w = Parameter(1.0)
    assert cell.w.name == "w"
    cell.w.name = "other"
    assert cell.w.name == "other"


def test_repr() -> None:
    p = Parameter(Tensor(np.ones((2, 3)), ms.float16), name="net.weight", requires_grad=False)
    assert repr(p) == str(p) == "Parameter (name=net.weight, shape=(2, 3), dtype=Float16, requires_grad=False)"


def test_set_data_keeps_the_dtype_and_returns_the_parameter() -> None:
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    assert p.set_data(Tensor([3, 4], ms.int32)) is p
    assert (p.tolist(), str(p.dtype)) == ([3.0, 4.0], "float32")
    p.set_data(Parameter(Tensor([5.0, 6.0], ms.float64)))
    assert (p.tolist(), str(p.dtype)) == ([5.0, 6.0], "float32")
    whole = Parameter(Tensor([0, 0], ms.int32))
    assert whole.set_data(Tensor([1.5, -2.5])).tolist() == [1, -2]
    assert p.set_data(Tensor([1.0]), slice_shape=True).shape == (1,)
    number = Parameter(1.0)
    assert number.set_data(2).asnumpy() == 2.0


def test_data_is_the_value_alone() -> None:
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    assert type(p.data) is type(p.value()) is Tensor
    p.data = Tensor([3.0, 4.0])
    assert p.data.tolist() == p.value().tolist() == [3.0, 4.0]
    p[0] = 9.0
    assert (p.tolist(), p.init_data() is p) == ([9.0, 4.0], True)


def test_results_of_operators_are_tensors() -> None:
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    assert [type(x) for x in (p + 1, p[0], p.astype(ms.float16), p.copy())] == [Tensor] * 4


def test_what_a_parameter_was_made_of_stays_apart() -> None:
    x = Tensor([1.0, 2.0])
    p = Parameter(x, name="p")
    p.set_data(Tensor([3.0, 4.0]))
    q = Parameter(x, name="q")
    q[0] = 9.0
    assert (x.tolist(), p.tolist(), q.tolist()) == ([1.0, 2.0], [3.0, 4.0], [9.0, 2.0])


def test_clones() -> None:
    p = Parameter(Tensor([3.0]), name="p", requires_grad=False)
    for init, value in (("same", 3.0), ("zeros", 0.0), ("ones", 1.0), (5.0, 5.0)):
        clone = p.clone(init)
        assert (clone.tolist(), clone.name, clone.requires_grad, clone.dtype) == ([value], "p", False, p.dtype)
    clone = p.clone()
    clone.set_data(Tensor([4.0]))
    assert p.tolist() == [3.0]


def test_copies() -> None:
    p = Parameter(Tensor([3.0]), name="p", requires_grad=False)
    both = [copy.deepcopy([p, p]), pickle.loads(pickle.dumps([p, p]))]
    for first, second in both:
        assert first is second is not p
        assert (repr(first), first.tolist()) == (repr(p), [3.0])
    tuple_ = copy.deepcopy(ParameterTuple([p]))
    assert type(tuple_) is ParameterTuple
    assert tuple_[0] is not p


@pytest.mark.parametrize(
    ("act", "error", "words"),
    [
        (lambda p: Parameter(1.0, name=3), ValueError, ["name", "string", "3"]),
        (lambda p: Parameter(1.0, requires_grad=1), TypeError, ["requires_grad", "bool", "int"]),
        (lambda p: setattr(p, "requires_grad", None), TypeError, ["requires_grad", "'p'", "bool", "None"]),
        (lambda p: setattr(p, "name", 3), ValueError, ["name", "3"]),
        (lambda p: Parameter("a"), TypeError, ["str"]),
        (lambda p: Parameter((1.0, 2.0)), TypeError, ["list", "tuple"]),
        (lambda p: Parameter(True), ValueError, ["bool", "True"]),
        (lambda p: p.set_data(np.ones(2)), TypeError, ["'p'", "Tensor or a number", "ndarray", "Tensor(...)"]),
        (lambda p: p.set_data([1.0, 2.0]), TypeError, ["'p'", "list"]),
        (lambda p: p.set_data(None), TypeError, ["'p'", "NoneType"]),
        (lambda p: p.set_data(Tensor([1.0])), ValueError, ["'p'", "(2,)", "(1,)", "slice_shape"]),
        (lambda p: p.set_data(3.0), ValueError, ["'p'", "(2,)", "()"]),
        (lambda p: ParameterTuple([p, Tensor(1.0)]), TypeError, ["Parameters", "Tensor"]),
        (lambda p: ParameterTuple([p, Parameter(1.0, name="p")]), ValueError, ["'p'", "already exists"]),
    ],
)
def test_refusals(act: Callable[[Parameter], Any], error: type[Exception], words: list[str]) -> None:
    p = Parameter(Tensor([1.0, 2.0]), name="p")
    with pytest.raises(error) as raised:
        act(p)
    assert [word for word in words if word not in str(raised.value)] == []
    assert repr(p) == "Parameter (name=p, shape=(2,), dtype=Float32, requires_grad=True)"


def test_tuples_of_parameters() -> None:
    a, b = Parameter(Tensor([1.0]), name="a"), Parameter(Tensor([2.0]), name="b")
    both = ParameterTuple([a, b, a])
    assert isinstance(both, tuple)
    assert len(both) == 3
    clones = ParameterTuple([a, b]).clone(prefix="moments", init="zeros")
    assert [(c.name, c.tolist()) for c in clones] == [("moments.a", [0.0]), ("moments.b", [0.0])]
    assert [p.name for p in ParameterTuple([Parameter(1.0), Parameter(2.0)])] == ["Parameter$1", "Parameter$2"]
    assert len(ParameterTuple(nn.Dense(1, 1).get_parameters())) == 2
