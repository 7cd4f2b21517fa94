"""Properties of matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ops import linear

Array = np.ndarray[Any, Any]
products = hnp.mutually_broadcastable_shapes(signature=np.matmul.signature, max_dims=3, max_side=4)


@settings(deadline=None)
@given(products, st.integers(0, 99))
def test_matmul_and_its_gradients(shapes: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape) for shape in shapes.input_shapes)
    tensors = torch.from_numpy(a).requires_grad_(), torch.from_numpy(b).requires_grad_()
    expected = torch.matmul(*tensors)
    y = linear.matmul(a, b)
    assert y.shape == shapes.result_shape
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    g = rng.standard_normal(y.shape)
    expected_gradients = torch.autograd.grad(expected, tensors, torch.from_numpy(np.asarray(g)))
    for actual, gradient in zip(linear.matmul.apply_vjp([g], [y], [a, b], {}), expected_gradients, strict=True):
        np.testing.assert_allclose(actual, gradient.numpy(), rtol=1e-12, atol=1e-12)


def layouts(x: Array) -> dict[str, Array]:
    """The matrices `x` (batch, n, m) in memory layouts in which they come about."""
    return {
        "contiguous": x,
        "transposed": np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
        "heads": np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
        "every_other": np.repeat(x, 2, axis=-1)[..., ::2],
        "batch_last": np.ascontiguousarray(np.moveaxis(x, 0, -1)).transpose(2, 0, 1),
        "reversed": np.ascontiguousarray(x[..., ::-1])[..., ::-1],
        "expanded": np.broadcast_to(x[:1, :, :1], x.shape),
    }


LAYOUTS = sorted(layouts(np.zeros((1, 1, 1))))


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("right", LAYOUTS)
def test_every_memory_layout_reaches_blas(left: str, right: str) -> None:
    rng = np.random.default_rng(0)
    a = layouts(rng.standard_normal((2, 5, 4)).astype(np.float32))[left]
    b = layouts(rng.standard_normal((2, 4, 3)).astype(np.float32))[right]
    expected = np.einsum("bik,bkj->bij", a.astype(np.float64), b.astype(np.float64))
    np.testing.assert_allclose(linear.matmul(a, b), expected, rtol=1e-5, atol=1e-5)
    for operand in (a, b):
        prepared = linear._copy_for_blas(operand)
        steps = prepared.strides[-2:]
        assert prepared.itemsize in steps
        assert max(steps) >= prepared.itemsize * min(prepared.shape[-2:])


@settings(deadline=None)
@given(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4), st.integers(0, 3), st.booleans())
def test_linear_is_that_of_torch(shape: tuple[int, ...], features: int, with_bias: bool) -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal(shape), rng.standard_normal((features, shape[-1]))
    bias = rng.standard_normal(features) if with_bias else None
    inputs = [x, weight] if bias is None else [x, weight, bias]
    tensors = [torch.from_numpy(array).requires_grad_() for array in inputs]
    expected = torch.nn.functional.linear(*tensors)
    y = linear.linear(*inputs)
    np.testing.assert_allclose(y, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    g = rng.standard_normal(y.shape)
    expected_gradients = torch.autograd.grad(expected, tensors, torch.from_numpy(g))
    actual = linear.linear.apply_vjp([g], [y], [x, weight, bias], {})
    for gradient, tensor in zip(actual[: len(inputs)], expected_gradients, strict=True):
        np.testing.assert_allclose(gradient, tensor.numpy(), rtol=1e-12, atol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="inner dimensions differ: 3 and 2"):
        linear.matmul(np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(ShapeError, match="don't broadcast"):
        linear.matmul(np.zeros((2, 2, 3)), np.zeros((3, 3, 2)))
    with pytest.raises(ShapeError, match="x has 3 features, the weight takes 2"):
        linear.linear(np.zeros((2, 3)), np.zeros((4, 2)))
    with pytest.raises(ShapeError, match="one dtype"):
        linear.linear(np.zeros((2, 3)), np.zeros((4, 3), np.float32))


def test_cotangents_that_nobody_wants_are_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = np.ones((2, 3)), np.ones((4, 3))
    products = []
    real = linear.matmul.kernel_rule
    assert real is not None
    monkeypatch.setattr(linear.matmul, "kernel_rule", lambda *a: products.append(1) or real(*a))
    y = linear.linear(x, weight)
    to_x, to_weight, to_bias = linear.linear.apply_vjp([y], [y], [x, weight, None], {}, [False, True, False])
    assert to_x is to_bias is None
    np.testing.assert_array_equal(to_weight, y.T @ x)
    assert len(products) == 1
