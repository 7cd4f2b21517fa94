from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.nn import functional as F

from cellbridge.runtime import ops
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ops import activation, rectifier, self_gated
from tests.runtime.ops.cases_activation import CORNERS

Array = np.ndarray[Any, Any]

JUDGES: dict[str, Any] = {
    "relu": F.relu, "leaky_relu": F.leaky_relu, "elu": F.elu, "selu": F.selu, "softplus": F.softplus, "silu": F.silu,
    "log_sigmoid": F.logsigmoid, "mish": F.mish, "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "gelu": F.gelu,
}  # fmt: skip


def arrays(limit: float) -> st.SearchStrategy[Array]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, max_side=5)
    return hnp.arrays(np.float64, shapes, elements=st.floats(-limit, limit, allow_subnormal=False))


@pytest.mark.parametrize("name", JUDGES)
@given(x=arrays(1000.0))
@settings(max_examples=50, deadline=None)
@pytest.mark.every(2)
def test_kernels_agree_with_torch(name: str, x: Array) -> None:
    with np.errstate(all="ignore"):
        actual = ops.get(name)(x)
    np.testing.assert_allclose(actual, JUDGES[name](torch.from_numpy(x)).numpy(), rtol=1e-13, atol=1e-15)


def check_gradient(name: str, x: Array) -> None:
    op = ops.get(name)
    assert op.vjp_rule is not None
    with np.errstate(all="ignore"):
        actual = op.vjp_rule(np.ones_like(x), np.asarray(op(x)), x, **op.attribute_defaults)
    tensor = torch.from_numpy(x).requires_grad_()
    (expected,) = torch.autograd.grad(JUDGES[name](tensor).sum(), tensor)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", JUDGES)
@given(x=arrays(30.0))
@settings(max_examples=50, deadline=None)
@pytest.mark.every(2)
def test_gradients_agree_with_torch(name: str, x: Array) -> None:
    check_gradient(name, x)


@pytest.mark.parametrize("name", JUDGES)
def test_gradients_at_corners_are_those_of_torch(name: str) -> None:
    check_gradient(name, CORNERS)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@given(data=st.data())
@settings(max_examples=50, deadline=None)
@pytest.mark.every(2)
def test_softmax_along_any_axis(name: str, data: st.DataObject) -> None:
    x = data.draw(arrays(1e4))
    axis = data.draw(st.integers(-max(x.ndim, 1), max(x.ndim, 1) - 1))
    expected = getattr(torch, name)(torch.from_numpy(x), dim=axis).numpy()
    np.testing.assert_allclose(ops.get(name)(x, axis=axis), expected, rtol=1e-13, atol=1e-300)


def test_a_row_masked_throughout_is_nan_as_in_torch() -> None:
    x = np.array([[-np.inf, -np.inf], [0.0, -np.inf]])
    with np.errstate(invalid="ignore"):
        actual = activation.softmax(x, axis=-1)
    np.testing.assert_array_equal(actual, torch.softmax(torch.from_numpy(x), -1).numpy())


@pytest.mark.parametrize("name", [*JUDGES, "softmax", "log_softmax"])
def test_float32_is_about_as_accurate_as_torch(name: str) -> None:
    """Against float64: at most twice torch's own error, and a unit in the last place of the largest value."""
    x = (np.random.default_rng(0).normal(size=(50, 200)) * 3).astype(np.float32)
    judge = JUDGES.get(name) or (lambda t: getattr(torch, name)(t, dim=-1))
    attributes = {} if name in JUDGES else {"axis": -1}
    exact = judge(torch.from_numpy(x.astype(np.float64))).numpy()
    actual = ops.get(name)(x, **attributes)
    assert actual.dtype == np.float32
    allowed = 2 * np.abs(judge(torch.from_numpy(x)).numpy() - exact).max() + np.spacing(np.float32(np.abs(exact).max()))
    assert np.abs(actual - exact).max() <= allowed


@pytest.mark.parametrize("name", [*JUDGES, "softmax", "log_softmax"])
def test_kernels_leave_their_operand_alone(name: str) -> None:
    x = np.linspace(-3.0, 3.0, 12, dtype=np.float32)
    before = x.copy()
    ops.get(name)(x, **({} if name in JUDGES else {"axis": 0}))
    np.testing.assert_array_equal(x, before)


def test_weights_of_prelu_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"weight of shape \(1,\) or \(3,\), given float64\[4\]"):
        rectifier.prelu(np.ones((2, 3, 4)), np.ones(4))
    with pytest.raises(ShapeError, match=r"given float64\[3, 1\]"):
        rectifier.prelu(np.ones((2, 3)), np.ones((3, 1)))


def test_unknown_approximation_of_gelu() -> None:
    with pytest.raises(ShapeError, match="needed approximate 'none' or 'tanh', given 'fast'"):
        self_gated.gelu(np.ones(2), approximate="fast")


def test_softmax_along_an_axis_that_is_not_there() -> None:
    with pytest.raises(ShapeError, match="axis 2 is out of range for 2 dimensions"):
        activation.softmax(np.ones((2, 2)), axis=2)
