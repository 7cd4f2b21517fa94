"""Arithmetic as people write it: values and gradients as torch's, dtypes as MindSpore's, all spellings alike."""

from __future__ import annotations

import itertools
import math
import operator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, grad, ops
from tests.runtime.functional.judging import require_agreement

A = np.array([[1.5, -2.5, 3.25], [0.75, -4.0, 2.0]])
B = np.array([2.0, -1.5, 0.75])


def tensor(data: Any, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.array(data).astype(dtype))


def _floor_divide(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, b, rounding_mode="floor")


# ---- values and gradients ----


@pytest.mark.parametrize(
    ("function", "torch_function"),
    [
        (ops.add, torch.add),
        (ops.sub, torch.sub),
        (lambda a, b: ops.subtract(a, b, alpha=3), lambda a, b: torch.sub(a, b, alpha=3)),
        (lambda a, b: a.add(b, alpha=3), lambda a, b: torch.add(a, b, alpha=3)),
        (ops.mul, torch.mul),
        (ops.div, torch.div),
        (lambda a, b: ops.div(a, b, rounding_mode="floor"), lambda a, b: torch.div(a, b, rounding_mode="floor")),
        (lambda a, b: ops.div(a, b, rounding_mode="trunc"), lambda a, b: torch.div(a, b, rounding_mode="trunc")),
        (ops.floor_divide, _floor_divide),
        (ops.remainder, torch.remainder),
        (ops.fmod, torch.fmod),
        (lambda a, b: ops.pow(ops.abs(a), b), lambda a, b: a.abs().pow(b)),
        (ops.maximum, torch.maximum),
        (ops.minimum, torch.minimum),
        (ops.fmax, torch.fmax),
        (ops.fmin, torch.fmin),
        (ops.hypot, torch.hypot),
        (ops.logaddexp, torch.logaddexp),
        (ops.logaddexp2, torch.logaddexp2),
        (ops.ldexp, lambda a, b: a * 2**b),
        (ops.copysign, torch.copysign),
        (lambda a, b: ops.xlogy(a, ops.abs(b)), lambda a, b: torch.xlogy(a, b.abs())),
        (ops.xdivy, torch.div),
        (lambda a, b: ops.SquaredDifference()(a, b), lambda a, b: (a - b) ** 2),
        (lambda a, b: ops.DivNoNan()(a, b), torch.div),
        (lambda a, b: ops.MulNoNan()(a, b), torch.mul),
        (lambda a, b: ops.lerp(a, b, 0.3), lambda a, b: torch.lerp(a, b.expand(2, 3), 0.3)),
        (lambda a, b: ops.lerp(a, b, a), lambda a, b: torch.lerp(a, b.expand(2, 3), a)),
        (lambda a, b: ops.addcmul(a, b, a, 0.5), lambda a, b: torch.addcmul(a, b, a, value=0.5)),
        (lambda a, b: ops.addcdiv(a, a, b, value=2), lambda a, b: torch.addcdiv(a, a, b, value=2)),
        (lambda a, b: ops.addn([a, a * b, a]), lambda a, b: a + a * b + a),
    ],
)
def test_two_operands_agree_with_torch(function: Any, torch_function: Any) -> None:
    require_agreement(function, torch_function, A, B)


@pytest.mark.parametrize(
    ("function", "torch_function"),
    [
        (lambda x: x**2, lambda x: x**2),
        (lambda x: x**3, lambda x: x**3),
        (lambda x: x**-1, lambda x: x**-1),
        (lambda x: 2**x, lambda x: 2**x),
        (lambda x: abs(x) ** 0.5, lambda x: abs(x) ** 0.5),
        (lambda x: 1 / x - 2 * x + x % 2, lambda x: 1 / x - 2 * x + x % 2),
        (lambda x: 7 % x, lambda x: torch.remainder(torch.tensor(7.0), x)),
        (lambda x: 3 - x, lambda x: 3 - x),
        (lambda x: -x, lambda x: -x),
        (lambda x: +x, lambda x: +x),
        (lambda x: x * x * x, lambda x: x * x * x),
        (ops.square, torch.square),
        (ops.neg, torch.neg),
        (lambda x: ops.float_power(ops.abs(x), 1.5), lambda x: x.abs() ** 1.5),
    ],
)  # fmt: skip
def test_operators_agree_with_torch(function: Any, torch_function: Any) -> None:
    require_agreement(function, torch_function, A)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod]),
    st.sampled_from([((2, 3), (3,)), ((2, 1), (1, 4)), ((), (3,)), ((0, 2), (2,)), ((2, 3), (2, 3)), ((), ())]),
    st.integers(0, 2**32),
)
def test_dunder_operators_broadcast_as_torch(op: Any, shapes: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(0.5, 3, shape) * rng.choice([-1, 1], shape) for shape in shapes)
    torch_op = _floor_divide if op is operator.floordiv else op  # torch's own has no derivative
    require_agreement(op, torch_op, np.asarray(a), np.asarray(b), rtol=1e-7, atol=1e-9)


def test_division_of_integers() -> None:
    a, b = tensor([7, -7, 7, -7], np.int32), tensor([3, 3, -3, -3], np.int32)
    assert (a // b).tolist() == [2, -3, -3, 2]
    assert (a % b).tolist() == [1, 2, -2, -1]
    assert ops.fmod(a, b).tolist() == [1, -1, 1, -1]
    assert ops.Mod()(a, b).tolist() == [1, -1, 1, -1]
    assert ops.truncate_div(a, b).tolist() == [2, -2, -2, 2]
    large = Tensor(2**53 + 1)
    assert ops.div(large, 1, rounding_mode="trunc").item() == 2**53 + 1
    assert (a / b).dtype == ms.float32
    assert all(f(a, b).dtype == ms.int32 for f in (ops.floor_divide, ops.remainder, ops.fmod, ops.truncate_div))


def test_zero_is_an_exception_where_it_should_be() -> None:
    nothing = [0.0, 0.0, 0.0, 0.0]
    for value in (0.0, math.inf, math.nan, -1.0):
        assert ops.xlogy(tensor(nothing), value).tolist() == nothing
        assert ops.MulNoNan()(tensor([value] * 4), 0.0).tolist() == nothing
    assert ops.xdivy(tensor([0.0]), 0.0).tolist() == [0.0]
    assert ops.DivNoNan()(tensor([3.0]), 0.0).tolist() == [0.0]
    gradients = grad(lambda x, y: ops.xlogy(x, y), (0, 1))(tensor([0.0, 0.0]), tensor([2.0, 0.0]))
    np.testing.assert_allclose(np.stack([g.asnumpy() for g in gradients]), [[math.log(2), 0], [0, 0]], rtol=1e-6)
    assert grad(lambda x: ops.DivNoNan()(x, tensor([0.0])))(tensor([3.0])).tolist() == [0.0]


def test_equal_operands_share_the_gradient() -> None:
    for op in (ops.maximum, ops.minimum):
        of_a, of_b = grad(op, (0, 1))(tensor([2.0]), tensor([2.0]))
        assert of_a.tolist() == of_b.tolist() == [0.5]
    assert grad(lambda x: ops.maximum(x, 2.0))(tensor([2.0])).tolist() == [0.5]


def test_large_logarithms_do_not_overflow() -> None:
    big = tensor([1000.0, -1000.0, math.inf])
    np.testing.assert_allclose(ops.logaddexp(big, big).asnumpy(), [1000 + math.log(2), -1000 + math.log(2), math.inf])
    assert ops.fmax(tensor([math.nan, 1.0]), tensor([2.0, math.nan])).tolist() == [2.0, 1.0]
    assert ops.heaviside(tensor([-2.0, 0.0, 3.0]), 0.5).tolist() == [0.0, 0.5, 1.0]
    assert ops.signbit(tensor([-0.0, 0.0, -1.0])).tolist() == [True, False, True]


# ---- dtypes ----

_TENSORS = {
    "f": np.float32, "h": np.float16, "d": np.float64, "i": np.int32, "l": np.int64, "u": np.uint8, "c": np.int8,
    "b": np.bool_,
}  # fmt: skip
# What MindSpore 2.10 gives: row + column
_SUMS = """
    2        2.5      f        h        d        i        l        u        c        b
f   float32  float32  float32  float32  float64  float32  float32  float32  float32  float32
h   float16  float16  float32  float16  float64  float16  float16  float16  float16  float16
d   float64  float64  float64  float64  float64  float64  float64  float64  float64  float64
i   int32    float32  float32  float16  float64  int32    int64    int32    int32    int32
l   int64    float32  float32  float16  float64  int64    int64    int64    int64    int64
u   uint8    float32  float32  float16  float64  int32    int64    uint8    int16    uint8
c   int8     float32  float32  float16  float64  int32    int64    int16    int8     int8
b   int64    float32  float32  float16  float64  int32    int64    uint8    int8     bool
"""
_ROWS = [line.split() for line in _SUMS.strip().splitlines()]
_TABLE = [(row[0], column, dtype) for row in _ROWS[1:] for column, dtype in zip(_ROWS[0], row[1:], strict=True)]


@pytest.mark.parametrize(("left", "right", "dtype"), _TABLE)
def test_dtypes_of_sums(left: str, right: str, dtype: str) -> None:
    a = tensor([1, 2], _TENSORS[left])
    b: Any = {"2": 2, "2.5": 2.5}.get(right)
    b = tensor([1, 1], _TENSORS[right]) if b is None else b
    assert (a + b).dtype == (b + a).dtype == dtype


def test_bfloat16_meets_float16_in_float32() -> None:
    a = tensor([1.0], ms.bfloat16)
    assert (a + 2.5).dtype == ms.bfloat16
    assert (a * tensor([1], np.int64)).dtype == ms.bfloat16
    assert (a + tensor([1.0], np.float16)).dtype == ms.float32


def test_numbers_alone_make_tensors() -> None:
    assert ops.add(1, 2).dtype == ms.int64
    assert ops.mul(1.5, 2).dtype == ms.float32
    assert ops.float_power(tensor([2], np.int32), 2).dtype == ms.float64
    assert (tensor([2], np.int32) ** -1).tolist() == [0]
    assert (tensor([True], np.bool_) ** 2).dtype == ms.int64


# ---- spellings ----


def test_spellings_are_alike() -> None:
    a, b = tensor(A), tensor(B)
    spellings: dict[str, list[Any]] = {
        "add": [ops.Add(), ops.TensorAdd(), ops.tensor_add, operator.add, Tensor.add],
        "sub": [ops.Sub(), ops.subtract, ops.tensor_sub, operator.sub, Tensor.sub, Tensor.subtract],
        "mul": [ops.Mul(), ops.multiply, ops.tensor_mul, operator.mul, Tensor.mul, Tensor.multiply],
        "div": [ops.Div(), ops.RealDiv(), ops.divide, ops.true_divide, operator.truediv, Tensor.div, Tensor.divide],
        "floor_divide": [ops.FloorDiv(), ops.floor_div, ops.floordiv, operator.floordiv, Tensor.floor_divide],
        "remainder": [ops.FloorMod(), ops.floor_mod, ops.floormod, ops.tensor_mod, operator.mod, Tensor.remainder],
        "fmod": [ops.Mod(), ops.truncate_mod, Tensor.fmod],
        "pow": [ops.Pow(), ops.pows, ops.tensor_pow, operator.pow, Tensor.pow],
        "maximum": [ops.Maximum(), Tensor.maximum],
        "minimum": [ops.Minimum(), Tensor.minimum],
    }
    for name, others in spellings.items():
        expected = getattr(ops, name)(a, b).asnumpy()
        for spelling in others:
            np.testing.assert_array_equal(spelling(a, b).asnumpy(), expected, err_msg=name)


def test_numbers_on_the_left() -> None:
    x = tensor([2, 5], np.int32)
    assert [(7 + x).tolist(), (7 - x).tolist(), (7 * x).tolist()] == [[9, 12], [5, 2], [14, 35]]
    assert [(7 / x).tolist(), (7 // x).tolist(), (7 % x).tolist(), (2**x).tolist()] == [
        [3.5, np.float32(1.4)], [3, 1], [1, 2], [4, 32],
    ]  # fmt: skip
    assert isinstance(np.float32(2) * x, Tensor)
    assert isinstance(np.ones(2, np.float32) * x, Tensor)


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x + None, TypeError, "'other'"),
        (lambda x: ops.mul(x, "a"), TypeError, "'mul'"),
        (lambda x: x + tensor([1.0, 2.0]), ValueError, "broadcast"),
        (lambda x: ops.div(x, 2, rounding_mode="up"), ValueError, "'up'"),
        (lambda x: x.astype(np.int32) // 0, ZeroDivisionError, "zero"),
        (lambda x: ops.addn(x), TypeError, "list or tuple"),
        (lambda x: ops.addn([]), ValueError, "at least one"),
        (lambda x: ops.addn([x, x[:1]]), ValueError, "shape"),
        (lambda x: ops.addn([x, x.astype(np.int32)]), TypeError, "dtype"),
    ],
)
def test_errors_name_what_is_wrong(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(tensor([1.0, 2.0, 3.0]))


def test_second_derivatives() -> None:
    x = tensor([0.5, 2.0], np.float64)
    for first, expected in ((lambda v: v**3, 6 * x.asnumpy()), (lambda v: 1 / v, 2 / x.asnumpy() ** 3)):
        np.testing.assert_allclose(grad(grad(first))(x).asnumpy(), expected, rtol=1e-12)


def test_reflected_and_plain_operators_of_all_pairs() -> None:
    values = [2, 1.5, tensor([3.0]), tensor([2], np.int32)]
    for (a, b), op in itertools.product(itertools.permutations(values, 2), (operator.add, operator.pow)):
        plain = [v.item() if isinstance(v, Tensor) else v for v in (a, b)]
        result = op(a, b)
        assert float(result) == pytest.approx(op(*plain), rel=1e-6)


def test_tensors_of_others_are_told_from_ours() -> None:
    message = r"'other' must be a Tensor, but got torch's Tensor: tensor\(\[1.\]\): convert it, Tensor\(x.numpy"
    with pytest.raises(TypeError, match=message):
        Tensor([1.0]) + torch.ones(1)
