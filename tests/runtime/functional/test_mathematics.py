"""Elementwise functions of one operand, rounding, trigonometry: as torch's, in all their spellings."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, grad, ops
from cellbridge.runtime.functional.public_op import PUBLIC_OPS, PublicOp
from tests.runtime.functional.judging import require_agreement

ALL = np.array([[-2.75, -1.0, -0.3], [0.4, 1.5, 3.25]])
POSITIVE = np.array([[0.05, 0.5, 1.0], [1.5, 2.25, 7.0]])
UNIT = np.array([[-0.9, -0.4, -0.05], [0.1, 0.6, 0.95]])
ABOVE_ONE = np.array([1.05, 1.5, 4.0])
SHARES = np.array([0.05, 0.5, 0.9])

CASES: list[tuple[str, Any, np.ndarray[Any, Any]]] = [
    ("abs", torch.abs, ALL), ("sign", torch.sign, ALL), ("reciprocal", torch.reciprocal, ALL),
    ("sqrt", torch.sqrt, POSITIVE), ("rsqrt", torch.rsqrt, POSITIVE),
    ("exp", torch.exp, ALL), ("exp2", torch.exp2, ALL), ("expm1", torch.expm1, ALL),
    ("log", torch.log, POSITIVE), ("log1p", torch.log1p, POSITIVE), ("log2", torch.log2, POSITIVE),
    ("log10", torch.log10, POSITIVE), ("logit", torch.logit, SHARES),
    ("erf", torch.erf, ALL), ("erfc", torch.erfc, ALL), ("erfinv", torch.erfinv, UNIT), ("sinc", torch.sinc, ALL),
    ("lgamma", torch.lgamma, POSITIVE), ("square", torch.square, ALL),
    ("sin", torch.sin, ALL), ("cos", torch.cos, ALL), ("tan", torch.tan, ALL), ("asin", torch.asin, UNIT),
    ("acos", torch.acos, UNIT), ("atan", torch.atan, ALL), ("sinh", torch.sinh, ALL), ("cosh", torch.cosh, ALL),
    ("asinh", torch.asinh, ALL), ("acosh", torch.acosh, ABOVE_ONE), ("atanh", torch.atanh, UNIT),
    ("deg2rad", torch.deg2rad, ALL), ("rad2deg", torch.rad2deg, ALL),
    ("floor", torch.floor, ALL), ("ceil", torch.ceil, ALL), ("trunc", torch.trunc, ALL), ("round", torch.round, ALL),
    ("frac", torch.frac, ALL), ("neg", torch.neg, ALL),
]  # fmt: skip


@pytest.mark.parametrize(("name", "torch_function", "x"), CASES, ids=lambda v: v if isinstance(v, str) else "")
def test_values_and_gradients_agree_with_torch(name: str, torch_function: Any, x: np.ndarray[Any, Any]) -> None:
    require_agreement(getattr(ops, name), torch_function, x)


def test_digamma_agrees_with_torch() -> None:  # torch's derivative of it is right to nine digits only
    require_agreement(ops.digamma, torch.digamma, POSITIVE, rtol=1e-8)
    require_agreement(lambda x: ops.polygamma(2, x), lambda x: torch.polygamma(2, x), POSITIVE)
    assert ops.Polygamma()(Tensor(0), Tensor([1.5])).tolist() == ops.digamma(Tensor([1.5])).tolist()


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["exp", "sin", "cos", "erf", "atan", "asinh", "abs", "floor", "round", "frac", "expm1", "sinc"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.integers(0, 2**32),
)
def test_any_shape(name: str, shape: list[int], seed: int) -> None:
    x = np.asarray(np.random.default_rng(seed).uniform(-3, 3, shape))
    require_agreement(getattr(ops, name), getattr(torch, name), x)


def test_atan2() -> None:
    require_agreement(ops.atan2, torch.atan2, ALL, np.array([0.5, -2.0, 1.0]))
    assert ops.atan2(Tensor([1], ms.int32), 1).dtype == ms.float32


# ---- spellings ----

FAMILIES = ("mathematics", "trigonometry", "roundings")
SPELLED = [s for s in PUBLIC_OPS.values() if s.function.__module__.rpartition(".")[2] in FAMILIES and s.methods]


@pytest.mark.parametrize("spelling", SPELLED, ids=lambda s: s.function.__name__)
def test_spellings_are_alike(spelling: PublicOp) -> None:
    operands = [Tensor(np.array([0.3, 0.7], np.float32))] * (2 if spelling.function.__name__ == "atan2" else 1)
    expected = spelling.function(*operands).asnumpy()
    others = [getattr(Tensor, name) for name in spelling.methods]
    others += [getattr(ops, name) for name in (*spelling.aliases, spelling.function.__name__)]
    others += [getattr(ops, primitive.name)() for primitive in spelling.primitives]
    for function in others:
        np.testing.assert_array_equal(function(*operands).asnumpy(), expected)


def test_the_names_of_the_field_are_there() -> None:
    objects = "Abs ACos Acosh Asin Asinh Atan Atan2 Atanh Ceil Cos Cosh Erf Erfc Erfinv Exp Expm1 Floor Inv Log Log1p"
    objects += " Neg Reciprocal Rint Round Rsqrt Sign Sin Sinh Sqrt Square Tan Trunc"
    assert all(isinstance(getattr(ops, name), type) for name in objects.split())
    functions = "absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh inv negative sgn tensor_exp tensor_expm1"
    assert all(callable(getattr(ops, name)) for name in functions.split())


# ---- dtypes and conventions ----


def test_integers() -> None:
    x = Tensor([4, -2], ms.int32)
    assert ops.exp(x).dtype == ops.sin(x).dtype == ops.reciprocal(x).dtype == ms.float32
    for name in ("abs", "sign", "floor", "ceil", "round", "trunc", "square", "neg"):
        assert getattr(ops, name)(x).dtype == ms.int32, name
    assert ops.abs(Tensor([True])).dtype == ms.bool_
    assert ops.sqrt(Tensor([True])).dtype == ms.float32
    assert abs(x).tolist() == [4, 2]


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.float32, ms.float64])
def test_floating_dtypes_stay(dtype: Any) -> None:
    x = Tensor(np.array([0.25, 0.5]).astype(dtype))
    names = [name for name, _, _ in CASES if name != "acosh"]
    assert {getattr(ops, name)(x).dtype for name in names} == {dtype}


def test_rounding_to_decimals() -> None:
    x = np.array([0.125, -1.375, 2.5, 3.5, 1234.5])
    require_agreement(lambda t: ops.round(t), torch.round, x)
    require_agreement(lambda t: ops.round(t, decimals=2), lambda t: torch.round(t, decimals=2), x)
    require_agreement(lambda t: t.round(-2), lambda t: torch.round(t, decimals=-2), x)
    assert round(Tensor([2.5, 3.5])).tolist() == [2.0, 4.0]
    assert ops.round(Tensor([1234], ms.int32), decimals=-2).tolist() == [1200]
    assert ops.round(Tensor([1234], ms.int32), decimals=2).tolist() == [1234]


def test_gradients_at_the_edges() -> None:
    assert grad(ops.abs)(Tensor([0.0])).tolist() == [0.0]
    assert grad(ops.sinc)(Tensor([0.0])).tolist() == [0.0]
    assert grad(ops.sqrt)(Tensor([0.0])).tolist() == [math.inf]
    assert grad(lambda x: ops.logit(x, 0.1))(Tensor([0.05])).tolist() == [0.0]


def test_logit_object_takes_no_eps_by_a_negative_one() -> None:
    x = Tensor([0.0, 0.3])
    assert ops.Logit()(x).tolist()[0] == -math.inf
    np.testing.assert_allclose(ops.Logit(0.1)(x).asnumpy(), ops.logit(x, 0.1).asnumpy())


def test_errors_name_the_operator() -> None:
    with pytest.raises(TypeError, match="'sqrt'"):
        ops.sqrt("four")
    with pytest.raises(TypeError, match="'decimals'"):
        ops.round(Tensor([1.0]), decimals=1.5)


def test_second_derivatives() -> None:
    x = Tensor(np.array([0.3, 1.2]))
    for name, second in [("sin", lambda v: -np.sin(v)), ("exp", np.exp), ("log", lambda v: -1 / v**2)]:
        derivative = grad(grad(getattr(ops, name)))(x).asnumpy()
        np.testing.assert_allclose(derivative, second(x.asnumpy()), rtol=1e-12)
