"""Bounds and norms: what is held, what stays, and what the gradient is at a bound."""

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
from tests.runtime.functional.judging import require_agreement

X = np.array([[1.0, -2.0, 3.0], [4.0, 0.5, -6.0]])
AWAY_FROM_BOUNDS = X + 0.25  # at them, the gradient of torch changed in 2.14
F = Tensor(X.astype(np.float32))
I = Tensor(np.array([1, -2, 3], np.int32))  # noqa: E741
EDGES = Tensor(np.array([-2.0, -1.0, 0.0, 1.0, 2.0], np.float32))

# ---- bounds ----


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (None, 1), (0, None), (2.0, -2.0), (np.array([0.0, -1.0, 1.0]), np.array(2.0))]
)
def test_clamp_agrees_with_torch(low: Any, high: Any) -> None:
    bounds = [Tensor(b) if isinstance(b, np.ndarray) else b for b in (low, high)]
    torch_bounds = [torch.from_numpy(b) if isinstance(b, np.ndarray) else b for b in (low, high)]
    for spelling in (ops.clamp, ops.clip, Tensor.clamp, Tensor.clip):
        require_agreement(
            lambda t, s=spelling: s(t, *bounds), lambda t: torch.clamp(t, *torch_bounds), AWAY_FROM_BOUNDS
        )
    np.testing.assert_array_equal(
        ops.clip_by_value(F, *bounds).asnumpy(), torch.clamp(torch.from_numpy(X), *torch_bounds)
    )


def test_gradients_at_the_bounds() -> None:
    assert grad(lambda x: ops.clamp(x, -1.0, 1.0))(EDGES).tolist() == [0.0, 1.0, 1.0, 1.0, 0.0]
    assert grad(lambda x: ops.clip_by_value(x, -1.0, 1.0))(EDGES).tolist() == [0.0, 0.5, 1.0, 0.5, 0.0]
    bounds = Tensor([-1.0]), Tensor([1.0])
    of_x, of_low, of_high = grad(ops.clamp, (0, 1, 2))(EDGES, *bounds)
    assert (of_x.tolist(), of_low.tolist(), of_high.tolist()) == ([0.0, 1.0, 1.0, 1.0, 0.0], [1.0], [1.0])
    of_x, of_low, of_high = grad(ops.clip_by_value, (0, 1, 2))(EDGES, *bounds)
    assert (of_x.tolist(), of_low.tolist(), of_high.tolist()) == ([0.0, 0.5, 1.0, 0.5, 0.0], [1.5], [1.5])


def test_clip_by_value_of_several_keeps_dtypes() -> None:
    clipped = ops.clip_by_value((F, I), -1, 1)
    assert isinstance(clipped, tuple)
    assert [(c.dtype, c.tolist()) for c in clipped] == [
        (ms.float32, [[1, -1, 1], [1, 0.5, -1]]),
        (ms.int32, [1, -1, 1]),
    ]
    assert isinstance(ops.clip_by_value([F], -1, 1), list)
    assert (ops.clip_by_value(I, -1.5, 1.5).dtype, ops.clip_by_value(I, -1.5, 1.5).tolist()) == (ms.int32, [1, -1, 1])
    assert (ops.clamp(I, -1.5, 1.5).dtype, ops.clamp(I, -1.5, 1.5).tolist()) == (ms.float32, [1.0, -1.5, 1.5])
    assert ops.clamp(I, -1, 1).dtype == ms.int32
    assert ops.clip_by_value(F, clip_value_max=1).tolist() == F.clamp(max=1).tolist()


# ---- norms ----


def _global_norm(arrays: list[np.ndarray[Any, Any]]) -> float:
    return math.sqrt(sum(float(np.square(a.astype(np.float64)).sum()) for a in arrays))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([(), (3,), (2, 2), (1, 4)]), min_size=1, max_size=4),
    st.floats(0.1, 20.0),
    st.sampled_from([np.float32, np.float64]),
    st.integers(0, 2**32),
)
def test_global_norm_is_bounded(shapes: list[tuple[int, ...]], bound: float, dtype: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.normal(0, 3, shape)).astype(dtype) for shape in shapes]
    factor = bound / max(_global_norm(arrays), bound)
    clipped = ops.clip_by_global_norm(tuple(Tensor(a) for a in arrays), bound)
    for c, a in zip(clipped, arrays, strict=True):
        assert (c.dtype, c.shape) == (dtype, a.shape)
        np.testing.assert_allclose(c.asnumpy(), a * factor, rtol=1e-5 if dtype == np.float32 else 1e-13)


def test_global_norm_of_the_example() -> None:
    gradients = Tensor([3.0, 4.0]), Tensor([12.0])
    assert [c.tolist() for c in ops.clip_by_global_norm(gradients, 13.0)] == [[3.0, 4.0], [12.0]]
    clipped = ops.clip_by_global_norm(list(gradients))
    assert isinstance(clipped, list)
    np.testing.assert_allclose(np.concatenate([c.asnumpy() for c in clipped]), np.array([3, 4, 12]) / 13, rtol=1e-6)
    bare = ops.clip_by_global_norm(gradients[0])
    np.testing.assert_allclose(bare.asnumpy(), [0.6, 0.8], rtol=1e-6)
    assert ops.clip_by_global_norm((Tensor([0.0, 0.0]),))[0].tolist() == [0.0, 0.0]


def test_half_precision_does_not_overflow_in_the_norm() -> None:
    half = Tensor(np.full(4, 1000.0, np.float16))
    clipped, single = ops.clip_by_global_norm((half, Tensor([0.0])), 1.0)
    assert (clipped.dtype, clipped.tolist(), single.dtype) == (ms.float16, [0.5] * 4, ms.float32)
    assert ops.clip_by_norm(half, 1.0).tolist() == [0.5] * 4


def test_an_infinite_gradient_spoils_its_own_place_only() -> None:
    spoilt, spared = ops.clip_by_global_norm((Tensor([math.inf, 1.0]), Tensor([2.0])))
    assert math.isnan(spoilt.tolist()[0])
    assert (spoilt.tolist()[1], spared.tolist()) == (0.0, [0.0])


@pytest.mark.parametrize("order", [1.0, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("bound", [0.5, 100.0])
def test_clip_by_norm_is_as_torch_clips_gradients(order: float, bound: float) -> None:
    arrays = [X, np.array([2.0, -7.0])]
    parameters = [torch.nn.Parameter(torch.from_numpy(a.copy())) for a in arrays]
    for parameter, a in zip(parameters, arrays, strict=True):
        parameter.grad = torch.from_numpy(a.copy())
    torch.nn.utils.clip_grad_norm_(parameters, bound, order)
    for c, parameter in zip(ops.clip_by_norm([Tensor(a) for a in arrays], bound, order), parameters, strict=True):
        assert parameter.grad is not None
        np.testing.assert_allclose(c.asnumpy(), parameter.grad.numpy(), rtol=1e-12)


# ---- errors ----


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ops.clip_by_value(F), ValueError, "'clip_value_min' and 'clip_value_max'"),
        (lambda: ops.clip_by_value(3, 1, 2), TypeError, "'x' must be a Tensor or a tuple or list"),
        (lambda: ops.clamp(F), ValueError, "'min' and 'max'"),
        (lambda: ops.clamp([F, F], 0, 1), TypeError, "'input' must be a Tensor"),
        (lambda: ops.clip_by_global_norm((F,), -1.0), ValueError, "'clip_norm' must be > 0, but got -1"),
        (lambda: ops.clip_by_global_norm((F,), 0), ValueError, "'clip_norm' must be > 0"),
        (lambda: ops.clip_by_global_norm((F,), "a"), TypeError, "'clip_norm'"),
        (lambda: ops.clip_by_global_norm((F,), use_norm=1.0), ValueError, "'use_norm' must be None"),
        (lambda: ops.clip_by_global_norm(()), ValueError, "at least one"),
        (lambda: ops.clip_by_global_norm((F, 3)), TypeError, "int: 3"),
        (lambda: ops.clip_by_norm(F, -1.0), ValueError, "'max_norm' must be >= 0"),
        (lambda: ops.clip_by_norm(Tensor([math.nan]), 1.0, error_if_nonfinite=True), RuntimeError, "finite"),
    ],
)
def test_errors_name_what_is_wrong(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
