"""Products with Jacobians and Jacobians themselves against torch.autograd.functional."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, ParameterTuple, Tensor, nn, ops

SHAPES = st.sampled_from([(3,), (2, 3), (1,), ()])


def two(x: Any, y: Any) -> Any:
    """Two outputs of two inputs, for tensors of either kind."""
    return x * x * y, (x * y).sum()


@settings(deadline=None, max_examples=20)
@given(SHAPES, st.integers(0, 99))
def test_as_torch(shape: tuple[int, ...], seed: int) -> None:
    a, b, u, v = np.random.default_rng(seed).standard_normal((4, *shape))
    xs, ts = (Tensor(a), Tensor(b)), (torch.tensor(a), torch.tensor(b))
    outputs, pull = ms.vjp(two, *xs)
    t_out, t_vjp = torch.autograd.functional.vjp(two, ts, (torch.tensor(u), torch.tensor(2.0, dtype=torch.float64)))
    same((outputs, pull(Tensor(u), Tensor(np.float64(2.0)))), (t_out, t_vjp))
    same(
        ms.jvp(two, xs, (Tensor(u), Tensor(v))),
        torch.autograd.functional.jvp(two, ts, (torch.tensor(u), torch.tensor(v))),
    )
    expected = torch.autograd.functional.jacobian(two, ts)
    same(ms.jacrev(two, (0, 1))(*xs), expected)
    same(ms.jacfwd(two, (0, 1))(*xs), expected)
    same(ms.jacrev(lambda x: (x * x).sum())(xs[0]), 2 * ts[0])


def same(actual: Any, expected: Any) -> None:
    """Raise `AssertionError` unless nested tensors are alike."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for o, t in zip(actual, expected, strict=True):
            same(o, t)
    else:
        assert actual.shape == tuple(expected.shape)
        np.testing.assert_allclose(actual.asnumpy(), expected.numpy(), rtol=1e-9, atol=1e-12)


def test_second_derivatives_are_jacobians_of_gradients() -> None:
    x = Tensor(np.array([1.0, 2.0]))
    cubes = ms.grad(lambda v: (v**3).sum())
    for jacobian in (ms.jacrev, ms.jacfwd):
        np.testing.assert_allclose(jacobian(cubes)(x).asnumpy(), np.diag([6.0, 12.0]))


def test_vjp_with_weights_and_aux() -> None:
    net = nn.Dense(2, 1, has_bias=False)
    weights = ParameterTuple(net.trainable_params())
    x = Tensor(np.ones((1, 2), np.float32))
    _, pull = ops.vjp(net, x, weights=weights)
    (of_x,), (of_w,) = pull(Tensor([[2.0]]))
    np.testing.assert_allclose(of_x.asnumpy(), 2 * net.weight.asnumpy())
    np.testing.assert_allclose(of_w.asnumpy(), [[2, 2]])
    first, pull, rest = ops.vjp(lambda v: (v * v, v), x, has_aux=True)
    assert first.tolist() == rest.tolist() == [[1, 1]]
    assert pull(x)[0].tolist() == [[2, 2]]
    (jacobian, aux) = ops.jacrev(lambda v: (v * v, v, v), has_aux=True)(Tensor([3.0]))
    assert jacobian.tolist() == [[6]]
    assert [t.tolist() for t in aux] == [[3], [3]]


def test_gradients_among_the_operators() -> None:
    assert ops.grad is ms.grad
    assert ops.value_and_grad is ms.value_and_grad
    assert ops.GradOperation is ms.GradOperation
    w = Parameter(Tensor([2.0]), name="w")
    pairs = ops.grad(lambda x: x * w, 0, w, return_ids=True)(Tensor([3.0]))
    assert ops.get_grad(pairs, w).tolist() == [3]
    assert ops.get_grad(pairs, 0).tolist() == [2]


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ms.vjp(lambda v: v, 1.0), TypeError, "Tensors"),
        (lambda x: ms.vjp(lambda v: v, x)[1](1.0), TypeError, "vjp_fn"),
        (lambda x: ms.vjp(lambda v: v, x, has_aux=True), ValueError, "has_aux"),
        (lambda x: ms.jvp(lambda v: v, x, x[:1]), ValueError, "jvp"),
        (lambda x: ms.jacrev(lambda v: v, "a"), TypeError, "grad_position"),
    ],
)
def test_errors(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(Tensor([1.0, 2.0]))
