"""Combinations, integrals, covariances, blocks and gates against torch, over drawn shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, grad, ops
from tests.runtime.functional.judging import require_agreement

SEEDS = st.integers(0, 999)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 4), st.integers(1, 3), st.booleans(), SEEDS)
def test_of_vectors(n: int, r: int, flag: bool, seed: int) -> None:
    a, b = np.random.default_rng(seed).standard_normal((2, n))
    require_agreement(lambda x, y: ops.cartesian_prod(x, y), torch.cartesian_prod, a, b)
    require_agreement(lambda x: ops.combinations(x, r, flag), lambda x: torch.combinations(x, r, flag), a)
    require_agreement(lambda x: ops.vander(x, r), lambda x: x[:, None] ** torch.arange(r - 1, -1, -1), a)
    require_agreement(ops.block_diag, torch.block_diag, a[None], b[None])
    require_agreement(lambda x: ops.diagflat(x, r), lambda x: torch.diagflat(x, r), a[None])


@settings(deadline=None, max_examples=25)
@given(st.sampled_from([0, 1, -1]), st.booleans(), SEEDS)
def test_integrals(dim: int, points: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = rng.standard_normal((3, 4))
    if points:
        x = rng.standard_normal(y.shape[dim])
        require_agreement(
            lambda a, b: ops.trapz(a, b, dim=dim), lambda a, b: torch.trapezoid(a.movedim(dim, -1), b, dim=-1), y, x
        )
    else:
        require_agreement(lambda a: ops.trapz(a, dx=0.3, dim=dim), lambda a: torch.trapezoid(a, dx=0.3, dim=dim), y)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 1), st.booleans(), st.booleans(), st.booleans(), SEEDS)
def test_covariances(correction: int, vector: bool, counts: bool, weights: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(5 if vector else (3, 5))
    f = rng.integers(1, 4, 5) if counts else None
    a = rng.uniform(0.5, 2, 5) if weights else None
    require_agreement(
        lambda t: ops.cov(
            t, correction=correction, fweights=None if f is None else Tensor(f),
            aweights=None if a is None else Tensor(a),
        ),
        lambda t: torch.cov(
            t, correction=correction, fweights=None if f is None else torch.tensor(f),
            aweights=None if a is None else torch.tensor(a),
        ),
        x,
    )  # fmt: skip


@settings(deadline=None, max_examples=15)
@given(SEEDS)
def test_contractions_of_a_batch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((2, 5, 3, 6))
    require_agreement(lambda x, y: ops.batch_dot(x, y, (1, 2)), lambda x, y: torch.einsum("bij,bkil->bjkl", x, y), a, b)
    require_agreement(ops.batch_dot, lambda x, y: torch.einsum("bi,bi->b", x, y)[:, None], a[:, 0], a[:, 1])


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 1), st.floats(0.5, 3), SEEDS)
def test_gates(mode: int, p: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, cos, sin = rng.standard_normal((3, 2, 3, 4))
    require_agreement(lambda t: ops.swiglu(t, 2), lambda t: torch.nn.functional.silu(t[..., :2]) * t[..., 2:], x)

    def rotated(t: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        if mode == 0:
            return t * c + torch.cat((-t[..., 2:], t[..., :2]), -1) * s
        return t * c + torch.stack((-t[..., 1::2], t[..., ::2]), -1).flatten(-2) * s

    require_agreement(lambda t, c, s: ops.rotary_position_embedding(t, c, s, mode), rotated, x, cos, sin)
    require_agreement(lambda t: ops.renorm(t, p, 1, 0.7), lambda t: torch.renorm(t, p, 1, 0.7), x, rtol=1e-6)


def test_gumbel_softmax_draws_classes() -> None:
    ms.set_seed(3)
    logits = Tensor(np.log(np.tile([0.2, 0.3, 0.5], (4000, 1))))
    hard = ops.gumbel_softmax(logits, hard=True).asnumpy()
    assert set(np.unique(hard)) <= {0.0, 1.0} | set(np.unique(hard[np.abs(hard - np.round(hard)) < 1e-12]))
    np.testing.assert_allclose(hard.mean(0), [0.2, 0.3, 0.5], atol=0.03)
    np.testing.assert_allclose(ops.gumbel_softmax(logits, 0.5).asnumpy().sum(1), 1)
    weights = Tensor(np.array([1.0, 2.0, 3.0]))

    def f(x: Any, hard: bool) -> Any:
        ms.set_seed(5)
        return (ops.gumbel_softmax(x, 0.7, hard) * weights).sum()

    np.testing.assert_allclose(
        *(grad(f)(logits[:3], hard).asnumpy() for hard in (False, True))
    )  # that of one-hot draws is that of the softmax


@pytest.mark.parametrize(
    ("name", "torch_window"),
    [
        ("hann_window", torch.hann_window), ("hamming_window", torch.hamming_window),
        ("blackman_window", torch.blackman_window), ("bartlett_window", torch.bartlett_window),
        ("kaiser_window", torch.kaiser_window),
    ],
)  # fmt: skip
@pytest.mark.parametrize("length", [0, 1, 2, 7, 8])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name: str, torch_window: Any, length: int, periodic: bool) -> None:
    window = getattr(ops, name)(length, periodic, dtype=ms.float64)
    np.testing.assert_allclose(
        window.asnumpy(), torch_window(length, periodic, dtype=torch.float64).numpy(), atol=1e-12
    )


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda x: ops.cartesian_prod(x[None]), ValueError),
        (lambda x: ops.combinations(x[None]), ValueError),
        (lambda x: ops.vander(x[None]), ValueError),
        (lambda x: ops.cov(x[None, None]), ValueError),
        (lambda x: ops.batch_dot(x, x), ValueError),
        (lambda x: ops.batch_dot(x[None], x[None], (0, 1)), ValueError),
        (lambda x: ops.block_diag(x[None, None]), ValueError),
        (lambda x: ops.gumbel_softmax(x, 0.0), ValueError),
        (lambda x: ops.hann_window(-1), ValueError),
        (lambda x: ops.hann_window(3, dtype=ms.int32), TypeError),
        (lambda x: ops.rotary_position_embedding(x, x, x, 2), ValueError),
    ],
)
def test_errors(call: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="For '"):
        call(Tensor([1.0, 2.0]))
