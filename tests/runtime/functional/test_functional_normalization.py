"""Normalization as functions and operator objects: against torch, moving statistics, half precision, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

import cellbridge.runtime as ms
from cellbridge.runtime import Parameter, Tensor, ops
from cellbridge.runtime.functional.normalization import instance_norm
from tests.runtime.against_torch import assert_as_torch, normal


def statistics(channels: int) -> tuple[np.ndarray, np.ndarray]:
    return normal(channels, seed=5), np.abs(normal(channels, seed=6)) + 0.5


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 5), (2, 3, 4, 5), (2, 3, 2, 3, 2)])
@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_is_torch_s(shape: tuple[int, ...], training: bool) -> None:
    mean, variance = statistics(3)
    own_statistics, torch_statistics = (
        [Tensor(mean), Tensor(variance)],
        [torch.from_numpy(mean.copy()), torch.from_numpy(variance.copy())],
    )
    assert_as_torch(
        lambda x, w, b: ops.batch_norm(x, *own_statistics, w, b, training=training, momentum=0.3, eps=1e-3),
        lambda x, w, b: F.batch_norm(x, *torch_statistics, w, b, training=training, momentum=0.3, eps=1e-3),
        normal(*shape), normal(3, seed=1), normal(3, seed=2),
    )  # fmt: skip
    for moved, expected in zip(own_statistics, torch_statistics, strict=True):  # in place
        np.testing.assert_allclose(moved.asnumpy(), expected.numpy(), rtol=1e-12)


def test_the_given_statistics_are_differentiable() -> None:
    mean, variance = statistics(2)
    assert_as_torch(
        lambda x, m, v: ops.batch_norm(x, m, v, None, None),
        lambda x, m, v: (x - m[:, None]) / (v[:, None] + 1e-5).sqrt(),
        normal(3, 2, 4), mean, variance,
    )  # fmt: skip


def test_the_object_returns_its_statistics() -> None:
    x, (mean, variance) = normal(4, 3, 2), statistics(3)
    y, m, v, *statistics_of_batch = ops.BatchNorm(is_training=True)(
        Tensor(x), Tensor(np.ones(3)), Tensor(np.zeros(3)), Tensor(mean), Tensor(variance)
    )
    np.testing.assert_allclose(m.asnumpy(), x.mean((0, 2)))
    np.testing.assert_allclose(v.asnumpy(), x.var((0, 2)))
    np.testing.assert_allclose(y.asnumpy().mean((0, 2)), 0, atol=1e-12)
    assert len(statistics_of_batch) == 2


@pytest.mark.parametrize("half", [ms.float16, ms.bfloat16])
@pytest.mark.parametrize("training", [False, True])
def test_statistics_of_half_precision_stay_float32(half: Any, training: bool) -> None:
    x = Tensor(1000 + normal(64, 2, 8).astype(np.float32)).astype(half)
    parameters = [np.zeros(2), np.ones(2), np.full(2, 1.001), np.full(2, 0.001)]
    mean, variance, gamma, beta = (Parameter(Tensor(p.astype(np.float32))) for p in parameters)
    y = ops.batch_norm(x, mean, variance, gamma, beta, training=training, momentum=1.0)
    assert y.dtype == half
    wide = x.asnumpy().astype(np.float32)
    if training:
        assert mean.dtype == variance.dtype == np.float32
        np.testing.assert_allclose(mean.asnumpy(), wide.mean((0, 2)), rtol=1e-6)
        np.testing.assert_allclose(variance.asnumpy(), wide.var((0, 2), ddof=1), rtol=1e-4)
        expected = (wide - wide.mean((0, 2))[:, None]) / np.sqrt(wide.var((0, 2)) + 1e-5)[:, None] * 1.001 + 0.001
    else:
        expected = wide / np.sqrt(1 + 1e-5) * 1.001 + 0.001
    step = {ms.float16: 2**-10, ms.bfloat16: 2**-7}[half]
    np.testing.assert_allclose(y.asnumpy().astype(np.float32), expected, rtol=step, atol=1e-4)  # rounded once


def test_layer_norm_is_torch_s() -> None:
    x, weight, bias = normal(3, 4, 5), normal(4, 5, seed=1), normal(4, 5, seed=2)
    assert_as_torch(
        lambda *given: ops.layer_norm(given[0], (4, 5), *given[1:], eps=1e-3),
        lambda *given: F.layer_norm(given[0], (4, 5), *given[1:], eps=1e-3),
        x, weight, bias,
    )  # fmt: skip
    assert_as_torch(lambda x: ops.layer_norm(x, (5,)), lambda x: F.layer_norm(x, (5,)), x)


@pytest.mark.parametrize(("norm", "params"), [(1, 1), (-1, -1), (1, -1), (-1, 1), (1, 2)])
def test_layer_norm_objects_choose_their_axes(norm: int, params: int) -> None:
    x = normal(3, 4, 5)
    shape = x.shape[params:]

    def expected(x: torch.Tensor, gamma: torch.Tensor, beta: torch.Tensor) -> Any:
        axes = tuple(range(norm % 3, 3))
        mean, variance = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
        return (x - mean) / (variance + 1e-7).sqrt() * gamma + beta, mean, variance

    assert_as_torch(ops.LayerNorm(norm, params), expected, x, normal(*shape, seed=1), normal(*shape, seed=2))


def test_group_norm_is_torch_s() -> None:
    x, weight, bias = normal(2, 6, 3, 2), normal(6, seed=1), normal(6, seed=2)
    assert_as_torch(
        lambda *given: ops.group_norm(given[0], 3, *given[1:], eps=1e-3),
        lambda *given: F.group_norm(given[0], 3, *given[1:], eps=1e-3),
        x, weight, bias,
    )  # fmt: skip
    assert_as_torch(lambda x: ops.group_norm(x, 2), lambda x: F.group_norm(x, 2), x)


def test_instance_norm_moves_its_statistics_in_training_only() -> None:
    x, (mean, variance) = normal(2, 3, 4, 2), statistics(3)
    own_statistics, torch_statistics = (
        [Tensor(mean), Tensor(variance)],
        [torch.from_numpy(mean.copy()), torch.from_numpy(variance.copy())],
    )
    ones, zeros = Tensor(np.ones(3)), Tensor(np.zeros(3))
    assert_as_torch(
        lambda x: instance_norm(x, *own_statistics, ones, zeros, True, 0.9, 1e-5),
        lambda x: F.instance_norm(x, *torch_statistics, momentum=0.9),
        x,
    )
    for moved, expected in zip(own_statistics, torch_statistics, strict=True):
        np.testing.assert_allclose(moved.asnumpy(), expected.numpy(), rtol=1e-12)
    assert_as_torch(lambda x: instance_norm(x, *own_statistics, ones, zeros, False, 0.9, 1e-5), F.instance_norm, x)
    np.testing.assert_allclose(own_statistics[0].asnumpy(), torch_statistics[0].numpy(), rtol=1e-12)


def test_rms_norm_gives_the_inverse_root_too() -> None:
    def expected(x: torch.Tensor, gamma: torch.Tensor) -> Any:
        inverse = (x.square().mean((-2, -1), keepdim=True) + 1e-6).rsqrt()
        return x * inverse * gamma, inverse

    assert_as_torch(ops.rms_norm, expected, normal(3, 4, 5), normal(4, 5, seed=1))


def test_l2_normalize_bounds_the_sum_of_squares() -> None:
    x = normal(3, 4, 5) * np.array([1.0, 1e-3, 1.0])[:, None, None]
    assert_as_torch(
        lambda x: ops.L2Normalize(axis=1, epsilon=0.01)(x),
        lambda x: x / x.square().sum(1, keepdim=True).clamp(min=0.01).sqrt(),
        x,
    )


def test_local_response_norm_is_torch_s() -> None:
    assert_as_torch(
        lambda x: ops.lrn(x, depth_radius=1, bias=2.0, alpha=0.5, beta=0.75),
        lambda x: F.local_response_norm(x, 3, alpha=1.5, beta=0.75, k=2.0),
        normal(2, 5, 3, 4),
    )


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda x, v: ops.batch_norm(x, v, v, v, v, momentum=1.5), ValueError, r"'momentum' must be .* range \[0, 1\]"),
        (lambda x, v: ops.batch_norm(x, v, v, v, v, training=1), TypeError, "'training' must be bool"),
        (lambda x, v: ops.batch_norm(x[:1, :, 0], v, v, v, v, training=True), ValueError, "more than one element"),
        (lambda x, v: ops.batch_norm(x, v[:1], v, v, v), ValueError, "shape"),
        (lambda x, v: ops.batch_norm(x.astype("int32"), v, v, v, v), TypeError, "floating-point dtype"),
        (lambda x, v: ops.layer_norm(x, (3,)), ValueError, r"must end in \(3,\)"),
        (lambda x, v: ops.layer_norm(x, ()), ValueError, "must end in"),
        (lambda x, v: ops.LayerNorm(-1, -1)(x, v, v), ValueError, r"'gamma' must have the shape \(4,\)"),
        (lambda x, v: ops.group_norm(x, 2), ValueError, "3 channels don't divide into 2 groups"),
        (lambda x, v: ops.group_norm(x, 0), ValueError, "'num_groups' must be an int > 0"),
        (lambda x, v: ops.lrn(x), ValueError, "must have 4 dimensions"),
    ],
)
def test_what_does_not_fit_is_refused(run: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        run(Tensor(normal(2, 3, 4)), Tensor(np.ones(3)))
