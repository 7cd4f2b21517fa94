"""Activation functions and rectifiers against torch, in all their spellings; what they reject."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, normal

Function = Callable[..., Any]

CORNERS = np.array([-7.0, -6.0, -4.0, -3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 4.0, 6.0, 7.0])
NUMBERS = np.concatenate([CORNERS, normal(8) * 3.0, [-300.0, -40.0, 40.0, 300.0]])

FUNCTIONS: list[tuple[str, Function, Function]] = [
    ("relu", ops.relu, F.relu),
    ("relu6", ops.relu6, F.relu6),
    ("hardtanh", ops.hardtanh, F.hardtanh),
    ("hardtanh of other bounds", lambda x: ops.hardtanh(x, -0.5, 3.0), lambda x: F.hardtanh(x, -0.5, 3.0)),
    ("leaky_relu", ops.leaky_relu, lambda x: F.leaky_relu(x, 0.2)),
    ("leaky_relu, steep", lambda x: ops.leaky_relu(x, 2), lambda x: F.leaky_relu(x, 2.0)),
    ("elu", ops.elu, F.elu),
    ("elu 0.3", lambda x: ops.elu(x, 0.3), lambda x: F.elu(x, 0.3)),
    ("selu", ops.selu, F.selu),
    ("celu", ops.celu, F.celu),
    ("celu 0.5", lambda x: ops.celu(x, 0.5), lambda x: F.celu(x, 0.5)),  # ATen rounds 1 / alpha to float32
    ("hardshrink", ops.hardshrink, F.hardshrink),
    ("hardshrink 3", lambda x: ops.hardshrink(x, 3), lambda x: F.hardshrink(x, 3)),
    ("softshrink", ops.softshrink, F.softshrink),
    ("softshrink 3", lambda x: ops.softshrink(x, 3), lambda x: F.softshrink(x, 3)),
    ("threshold", lambda x: ops.threshold(x, 0.5, -20), lambda x: F.threshold(x, 0.5, -20)),
    ("sigmoid", ops.sigmoid, torch.sigmoid),
    ("tanh", ops.tanh, torch.tanh),
    ("logsigmoid", ops.logsigmoid, F.logsigmoid),
    ("hardsigmoid", ops.hardsigmoid, F.hardsigmoid),
    ("softsign", ops.softsign, F.softsign),
    ("tanhshrink", ops.tanhshrink, F.tanhshrink),
    ("silu", ops.silu, F.silu),
    ("mish", ops.mish, F.mish),
    ("hardswish", ops.hardswish, F.hardswish),
    ("gelu", ops.gelu, F.gelu),
    ("gelu by tanh", lambda x: ops.gelu(x, "tanh"), lambda x: F.gelu(x, approximate="tanh")),
    ("fast_gelu", ops.fast_gelu, lambda x: x * torch.sigmoid(1.702 * x)),
    ("softplus", ops.softplus, F.softplus),
    ("softplus 2, 3", lambda x: ops.softplus(x, 2, 3), lambda x: F.softplus(x, 2, 3)),
]


@pytest.mark.parametrize(
    ("function", "torch_function"), [case[1:] for case in FUNCTIONS], ids=[case[0] for case in FUNCTIONS]
)
def test_is_torch_s_at_corners_too(function: Function, torch_function: Function) -> None:
    # ATen holds 1 / 6 of hardsigmoid in float32
    assert_as_torch(function, torch_function, NUMBERS, rtol=1e-7 if function is ops.hardsigmoid else 1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("function", "torch_function"), [case[1:] for case in FUNCTIONS], ids=[case[0] for case in FUNCTIONS]
)
def test_keeps_narrow_dtypes(function: Function, torch_function: Function, dtype: torch.dtype) -> None:
    x = torch.from_numpy(NUMBERS).to(dtype)
    name = {torch.float32: np.float32, torch.float16: np.float16, torch.bfloat16: ml_dtypes.bfloat16}[dtype]
    y = function(Tensor(x.double().numpy().astype(name)))
    assert y.dtype == np.dtype(name)
    # several roundings where a function is composed of ops
    rounding = 4 * float(torch.finfo(dtype).eps)
    expected = torch_function(x.double()).numpy()
    np.testing.assert_allclose(y.asnumpy().astype(np.float64), expected, rtol=rounding, atol=rounding)


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(-3, 2), st.sampled_from(["softmax", "log_softmax", "softmin"]))
def test_softmax_is_torch_s_along_every_axis(size: int, axis: int, name: str) -> None:
    assert_as_torch(
        lambda x: getattr(ops, name)(x, axis), lambda x: getattr(F, name)(x, axis), normal(2, size, 3) * 9.0
    )


def test_softmax_takes_a_dtype_and_a_tuple_of_one_axis() -> None:
    x = Tensor(np.arange(3))
    assert ops.softmax(x, dtype=ms.float32).dtype == ms.float32
    np.testing.assert_array_equal(
        ops.Softmax((0,))(x.astype(ms.float32)).asnumpy(), ops.softmax(x, 0, dtype=ms.float32)
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_glu_is_torch_s(axis: int) -> None:
    assert_as_torch(lambda x: ops.glu(x, axis), lambda x: F.glu(x, axis), normal(4, 6))


@pytest.mark.parametrize(("shape", "slopes"), [((3, 4), 4), ((3, 4), 1), ((2, 3, 2, 2), 3), ((5,), 1)])
def test_prelu_is_torch_s(shape: tuple[int, ...], slopes: int) -> None:
    assert_as_torch(ops.prelu, F.prelu, normal(*shape), normal(slopes, seed=1))


def test_rrelu_draws_slopes_within_its_bounds_and_differentiates_with_them() -> None:
    x = Tensor(np.array([-2.0] * 500 + [3.0]))
    y, gradient = ms.value_and_grad(lambda t: ops.rrelu(t, 0.1, 0.3))(x)
    slopes = y.asnumpy()[:500] / -2.0
    assert 0.1 <= slopes.min() < 0.12
    assert 0.28 < slopes.max() < 0.3
    np.testing.assert_allclose(gradient.asnumpy(), [*slopes, 1.0])


def test_all_spellings_are_one() -> None:
    x = Tensor(normal(2, 4))
    spelling: list[tuple[Any, list[Any]]] = [
        (ops.relu(x), [x.relu(), ops.ReLU()(x), nn.ReLU()(x)]),
        (ops.relu6(x), [ops.ReLU6()(x), nn.ReLU6()(x)]),
        (ops.sigmoid(x), [x.sigmoid(), ops.Sigmoid()(x), nn.Sigmoid()(x)]),
        (ops.tanh(x), [x.tanh(), ops.Tanh()(x), nn.Tanh()(x)]),
        (ops.softmax(x, 0), [x.softmax(0), ops.Softmax(0)(x), ops.Softmax(axis=0)(x), nn.Softmax(0)(x)]),
        (ops.log_softmax(x), [x.log_softmax(), ops.LogSoftmax()(x), nn.LogSoftmax()(x)]),
        (ops.gelu(x, "tanh"), [ops.GeLU()(x), nn.GELU()(x)]),
        (ops.gelu(x), [nn.GELU(approximate=False)(x)]),
        (ops.fast_gelu(x), [ops.FastGeLU()(x), ops.FastGelu()(x), nn.FastGelu()(x)]),
        (ops.hardswish(x), [ops.HSwish()(x), nn.HSwish()(x)]),
        (ops.hardsigmoid(x), [ops.HSigmoid()(x), nn.HSigmoid()(x)]),
        (ops.softplus(x), [ops.Softplus()(x)]),
        (ops.softsign(x), [ops.Softsign()(x), nn.Softsign()(x)]),
        (ops.elu(x, 0.5), [ops.Elu(0.5)(x), nn.ELU(0.5)(x)]),
        (ops.selu(x), [ops.SeLU()(x), nn.SeLU()(x)]),
        (ops.celu(x, 2.0), [ops.CeLU(2.0)(x), nn.CELU(2.0)(x)]),
        (ops.mish(x), [ops.Mish()(x), nn.Mish()(x)]),
        (ops.silu(x), [ops.SiLU()(x), nn.SiLU()(x)]),
        (ops.hardshrink(x, 0.1), [x.hardshrink(0.1), ops.HShrink(0.1)(x), nn.HShrink(0.1)(x)]),
        (ops.softshrink(x, 0.1), [x.soft_shrink(0.1), ops.soft_shrink(x, 0.1), ops.SoftShrink(0.1)(x)]),
        (ops.glu(x, 0), [ops.GLU(0)(x), nn.GLU(0)(x)]),
    ]
    for expected, others in spelling:
        for result in others:
            np.testing.assert_array_equal(result.asnumpy(), expected.asnumpy())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ops.softmax(x, 2), ValueError, ["axis 2"]),
        (lambda x: ops.softmax(x, 1.0), TypeError, ["'softmax'", "'axis'", "float"]),
        (lambda x: ops.gelu(x, "erf"), ValueError, ["'gelu'", "'approximate'", "none", "'erf'"]),
        (lambda x: ops.gelu(x.astype(ms.int32)), TypeError, ["'gelu'", "floating-point", "Int32"]),
        (lambda x: ops.celu(x, 0), ValueError, ["'celu'", "'alpha'", "0"]),
        (lambda x: ops.softplus(x, 0), ValueError, ["'softplus'", "'beta'"]),
        (lambda x: ops.softshrink(x, -1), ValueError, ["'softshrink'", "'lambd'", ">= 0", "-1"]),
        (lambda x: ops.glu(x), ValueError, ["'glu'", "even", "(2, 3)"]),
        (lambda x: ops.hardtanh(x, 2, 1), ValueError, ["'hardtanh'", "'min_val'"]),
        (lambda x: ops.rrelu(x, 1, 0.5), ValueError, ["'rrelu'", "'lower'"]),
        (lambda x: ops.prelu(x, Tensor([0.1, 0.2])), ValueError, ["prelu", "(3,)"]),
        (lambda x: ops.relu("x"), TypeError, ["'relu'", "Tensor", "str"]),
    ],
)
def test_errors_name_what_is_wrong(call: Function, error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call(Tensor(np.ones((2, 3), np.float32)))
    assert [word for word in words if word not in str(raised.value)] == []
