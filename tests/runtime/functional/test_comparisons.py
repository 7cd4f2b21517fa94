"""Comparisons, logic, bits, choice and conversion: as torch's and NumPy's, with the dtypes of MindSpore."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, grad, ops
from tests.runtime.functional.judging import require_agreement

X = Tensor(np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]], np.float32))
I = Tensor(np.array([[1, -2, 3], [4, 5, -6]], np.int32))  # noqa: E741
FLAGS = Tensor(np.array([[True, False, True], [False, False, True]]))
SPECIAL = Tensor(np.array([1.0, math.nan, math.inf, -math.inf], np.float32))

# ---- comparisons ----

SIGNS = {
    "equal": (operator.eq, "eq", "Equal"), "not_equal": (operator.ne, "ne", "NotEqual"),
    "less": (operator.lt, "lt", "Less"), "less_equal": (operator.le, "le", "LessEqual"),
    "greater": (operator.gt, "gt", "Greater"), "greater_equal": (operator.ge, "ge", "GreaterEqual"),
}  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(SIGNS)),
    st.sampled_from([(np.float32, np.float32), (np.int32, np.float32), (np.int64, np.uint8), (np.bool_, np.int32)]),
    st.integers(0, 2**32),
)
def test_comparisons_in_all_spellings(name: str, dtypes: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 3, shape).astype(t) for shape, t in zip(((2, 3), (3,)), dtypes, strict=True))
    sign, short, primitive = SIGNS[name]
    expected = sign(a, b)
    spellings = [getattr(ops, name), getattr(ops, short), getattr(ops, primitive)(), sign]
    spellings += [getattr(Tensor, name), getattr(Tensor, short)]
    for compare in spellings:
        result = compare(Tensor(a), Tensor(b))
        assert result.dtype == ms.bool_
        np.testing.assert_array_equal(result.asnumpy(), expected)


def test_comparison_with_numbers() -> None:
    assert (X > 1).tolist() == operator.lt(1, X).tolist() == [[False, False, True], [True, False, False]]
    assert (I < 1.5).tolist() == [[True, True, False], [False, False, True]]
    assert (FLAGS == True).tolist() == FLAGS.tolist()  # noqa: E712
    assert operator.eq(X, np.float32(1)).tolist()[0] == [True, False, False]
    assert [ops.tensor_gt(X, 3).tolist(), ops.tensor_le(X, -6).tolist()] == [(X > 3).tolist(), (X <= -6).tolist()]


def test_equality_with_what_is_no_tensor() -> None:
    assert (X == None) is False  # noqa: E711
    assert (X != None) is True  # noqa: E711
    assert (X == "a") is False
    assert X in {X: 1}
    parameter = Parameter(X, name="p")
    assert (parameter == X).all()
    assert hash(parameter) == id(parameter)


def test_closeness() -> None:
    near = np.array([1.0 + 5e-6, math.nan, math.inf, math.inf], np.float32)
    for equal_nan in (False, True):
        expected = torch.isclose(torch.tensor(SPECIAL.asnumpy()), torch.tensor(near), equal_nan=equal_nan)
        assert ops.isclose(SPECIAL, Tensor(near), equal_nan=equal_nan).tolist() == expected.tolist()
    assert ops.isclose(Tensor([1.0]), Tensor([math.inf])).tolist() == [False]
    assert ops.IsClose(rtol=0.0, atol=1.0)(I, I + 1).asnumpy().all()
    assert X.isclose(X + 1e-3, rtol=1e-2).asnumpy().all()
    assert X.allclose(X) is True
    assert X.allclose(X + 1) is False
    assert ops.approximate_equal(Tensor([1.0, 1.0]), Tensor([1.0 + 5e-6, 1.1])).tolist() == [True, False]
    assert ops.ApproximateEqual(0.2)(Tensor([1.0]), Tensor([1.1])).tolist() == [True]
    with pytest.raises(ValueError, match="'rtol'"):
        ops.isclose(X, X, rtol=-1.0)


def test_special_numbers() -> None:
    assert SPECIAL.isnan().tolist() == ops.IsNan()(SPECIAL).tolist() == [False, True, False, False]
    assert SPECIAL.isinf().tolist() == ops.IsInf()(SPECIAL).tolist() == [False, False, True, True]
    assert SPECIAL.isfinite().tolist() == ops.IsFinite()(SPECIAL).tolist() == [True, False, False, False]
    assert ops.isposinf(SPECIAL).tolist() == [False, False, True, False]
    assert ops.isneginf(SPECIAL).tolist() == [False, False, False, True]
    assert [ops.isnan(I).asnumpy().any(), ops.isinf(I).asnumpy().any(), ops.isfinite(I).asnumpy().all()] == [0, 0, 1]


def test_numbers_take_the_place_of_nan_and_infinities() -> None:
    largest = float(np.finfo(np.float32).max)
    assert ops.nan_to_num(SPECIAL).tolist() == [1.0, 0.0, largest, -largest]
    assert SPECIAL.nan_to_num(5.0, 2.0, 3.0).tolist() == ops.NanToNum(5.0, 2.0, 3.0)(SPECIAL).tolist() == [1, 5, 2, 3]
    assert grad(ops.nan_to_num)(SPECIAL).tolist() == [1.0, 0.0, 0.0, 0.0]
    half = ops.nan_to_num(SPECIAL.astype(ms.bfloat16))
    assert (half.dtype, bool(ops.isfinite(half).all())) == (ms.bfloat16, True)
    assert ops.nan_to_num(I) is I


# ---- logic and bits ----


def test_logic_counts_numbers_as_truths() -> None:
    zeros = Tensor(np.array([[0, 1, 0], [1, 0, 0]], np.float32))
    for name, sign in {
        "logical_and": np.logical_and,
        "logical_or": np.logical_or,
        "logical_xor": np.logical_xor,
    }.items():
        expected = sign(FLAGS.asnumpy(), zeros.asnumpy())
        primitive = getattr(ops, "".join(part.capitalize() for part in name.split("_")))()
        for spelling in (getattr(ops, name), getattr(Tensor, name), primitive):
            np.testing.assert_array_equal(spelling(FLAGS, zeros).asnumpy(), expected)
    assert ops.logical_not(zeros).tolist() == (~zeros).tolist() == [[True, False, True], [False, True, True]]
    assert (~FLAGS).tolist() == ops.LogicalNot()(FLAGS).tolist() == np.invert(FLAGS.asnumpy()).tolist()


def test_bits() -> None:
    a = np.array([5, -3, 12], np.int32)
    b = np.array([3, 6, 1], np.int32)
    x, y = Tensor(a), Tensor(b)
    assert ((x & y).tolist(), (x | y).tolist(), (x ^ y).tolist()) == (
        (a & b).tolist(),
        (a | b).tolist(),
        (a ^ b).tolist(),
    )
    assert (x & 1).tolist() == (1 & x).tolist() == (a & 1).tolist()
    assert ops.BitwiseAnd()(x, y).tolist() == x.bitwise_and(y).tolist() == ops.bitwise_and(x, y).tolist()
    assert ops.invert(x).tolist() == x.bitwise_not().tolist() == (~a).tolist()
    assert ops.bitwise_left_shift(x, y).tolist() == (x << y).tolist() == (a << b).tolist()
    assert ops.bitwise_right_shift(x, 1).tolist() == (x >> 1).tolist() == (a >> 1).tolist()
    assert ((2 << y).tolist(), (64 >> y).tolist()) == ((2 << b).tolist(), (64 >> b).tolist())
    assert (FLAGS & True).tolist() == FLAGS.tolist()
    assert (FLAGS ^ FLAGS).dtype == ms.bool_
    assert (x | Tensor([1], ms.uint8)).dtype == ms.int32
    with pytest.raises(TypeError, match="integers or bools"):
        X & X
    with pytest.raises(ValueError, match="one element"):
        bool(FLAGS and FLAGS)


# ---- choice ----


def test_where_agrees_with_torch() -> None:
    flags = FLAGS.asnumpy()
    require_agreement(
        lambda a, b: ops.where(Tensor(flags), a, b),
        lambda a, b: torch.where(torch.from_numpy(flags), a, b),
        np.arange(6.0).reshape(2, 3),
        np.array([1.0, 2.0, 3.0]),
    )
    assert grad(lambda x: ops.where(x > 0, x, 0.0))(X).tolist() == [[1, 0, 1], [1, 1, 0]]


def test_where_with_numbers() -> None:
    assert ops.where(FLAGS, X, 0).dtype == ms.float32
    assert ops.where(FLAGS, 1, 0).dtype == ms.int64
    assert ops.where(FLAGS, 1.0, 0.0).dtype == ms.float32
    assert ops.where(FLAGS, I, 1.5).dtype == ms.float32
    assert ops.where(FLAGS, X.astype(ms.float16), X).dtype == ms.float32
    for spelling in (ops.select, ops.Select(), ops.where):
        assert spelling(FLAGS, X, 0).tolist() == [[1, 0, 3], [0, 0, -6]]
    assert X.where(FLAGS, 0).tolist() == X.select(FLAGS, 0).tolist() == [[1, 0, 3], [0, 0, -6]]
    for condition in (I, True, X):
        with pytest.raises(TypeError, match="'condition'"):
            ops.where(condition, X, 0)


# ---- conversion ----


def test_conversion() -> None:
    x = Tensor([1.75, -1.75, 0.0])
    assert (x.int().dtype, x.int().tolist()) == (ms.int32, [1, -1, 0])
    names = {"half": ms.float16, "bfloat16": ms.bfloat16, "float": ms.float32, "double": ms.float64, "byte": ms.uint8,
             "short": ms.int16, "long": ms.int64, "bool": ms.bool_}  # fmt: skip
    assert {name: getattr(x, name)().dtype for name in names} == names
    assert x.bool().tolist() == [True, True, False]
    for dtype in (ms.int64, "int64", int, np.int64):
        assert x.astype(dtype).dtype == x.to(dtype).dtype == ops.cast(x, dtype).dtype == ms.int64
    assert ops.Cast()(x, ms.float16).dtype == ms.float16
    assert (ops.cast(1.5, ms.int32).tolist(), ops.cast(True, ms.float32).tolist()) == (1, 1.0)
    assert ops.type_as(x, I).dtype == x.type_as(I).dtype == ms.int32
    assert (x.type(), x.type(ms.int32).dtype) == ("Float32", ms.int32)
    assert (ops.is_floating_point(x), I.is_floating_point(), FLAGS.is_signed(), I.is_signed()) == (
        True,
        False,
        False,
        True,
    )
    assert ops.dtype(x) == ops.DType()(x) == ms.float32
    with pytest.raises(TypeError, match="foo"):
        x.astype("foo")


def test_gradients_flow_through_conversion_of_floats_only() -> None:
    x = Tensor([1.5, 2.5])
    assert grad(lambda v: (v.astype(ms.float16) * 2).astype(ms.float32))(x).dtype == ms.float32
    assert grad(lambda v: v.astype(ms.float16) * 2)(x).tolist() == [2.0, 2.0]
    assert grad(lambda v: v.astype(ms.int32) * v)(x).tolist() == [1.0, 2.0]
    assert grad(lambda v: (v > 2) * v)(x).tolist() == [0.0, 1.0]
