"""Draws: their shapes, dtypes and distributions, and that seeds repeat them; errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, ops

MANY = 20_000
X = Tensor(np.zeros((2, 3), np.float32))

# mean and standard deviation of MANY draws; None: not compared
DRAWS: dict[str, tuple[Callable[[], Tensor], str, float, float]] = {
    "standard_normal": (lambda: ops.standard_normal((MANY,)), "float32", 0, 1),
    "StandardNormal": (lambda: ops.StandardNormal()((MANY,)), "float32", 0, 1),
    "randn": (lambda: ops.randn(2, MANY // 2, dtype=ms.float64), "float64", 0, 1),
    "normal": (lambda: ops.normal((MANY,), 3.0, 2.0), "float32", 3, 2),
    "normal tensors": (lambda: ops.normal((MANY,), Tensor([3.0]), Tensor(2.0)), "float32", 3, 2),
    "rand": (lambda: ops.rand((MANY,)), "float32", 0.5, 12**-0.5),
    "rand half": (lambda: ops.rand(MANY, dtype=ms.float16), "float16", 0.5, 12**-0.5),
    "uniform": (lambda: ops.uniform((MANY,), Tensor(-1.0), Tensor(3.0)), "float32", 1, 4 * 12**-0.5),
    "uniform int": (lambda: ops.uniform((MANY,), Tensor(0), Tensor(5), dtype=ms.int32), "int32", 2, 2**0.5),
    "UniformReal": (lambda: ops.UniformReal()((MANY,)), "float32", 0.5, 12**-0.5),
    "UniformInt": (lambda: ops.UniformInt()((MANY,), Tensor(0), Tensor(5)), "int32", 2, 2**0.5),
    "randint": (lambda: ops.randint(0, 5, (MANY,)), "int64", 2, 2**0.5),
    "bernoulli": (lambda: ops.bernoulli(ops.zeros(MANY), 0.2), "float32", 0.2, 0.4),
    "bernoulli tensor": (lambda: ops.bernoulli(ops.zeros(MANY, ms.int32), Tensor([0.2])), "int32", 0.2, 0.4),
    "Bernoulli": (lambda: ops.Bernoulli()(ops.zeros(MANY), 0.2), "float32", 0.2, 0.4),
    "x.bernoulli": (lambda: ops.full((MANY,), 0.2).bernoulli(), "float32", 0.2, 0.4),
    "multinomial": (lambda: ops.multinomial(Tensor([0.0, 1.0, 3.0]), MANY), "int32", 1.75, 3**0.5 / 4),
    "Multinomial": (lambda: ops.Multinomial()(Tensor([1.0, 0.0, 1.0]), MANY), "int32", 1, 1),
}


@pytest.mark.parametrize(("draw", "dtype", "mean", "deviation"), DRAWS.values(), ids=DRAWS)
def test_distributions(draw: Callable[[], Tensor], dtype: str, mean: float, deviation: float) -> None:
    ms.set_seed(3)
    sampled = draw()
    assert sampled.dtype.name == dtype
    assert sampled.size == MANY
    values = sampled.asnumpy().astype(np.float64)
    assert abs(values.mean() - mean) < 5 * deviation / MANY**0.5
    assert abs(values.std() / deviation - 1) < 0.05


@pytest.mark.parametrize(("draw", "dtype", "mean", "deviation"), DRAWS.values(), ids=DRAWS)
def test_set_seed_repeats(draw: Callable[[], Tensor], dtype: str, mean: float, deviation: float) -> None:
    ms.set_seed(1)
    first, second = draw().asnumpy(), draw().asnumpy()
    ms.set_seed(1)
    np.testing.assert_array_equal(draw().asnumpy(), first)
    assert not np.array_equal(first, second)


def test_a_seed_repeats_its_draw_and_leaves_the_others_alone() -> None:
    ms.set_seed(1)
    plain = [ops.randn(4).tolist(), ops.randn(4).tolist()]
    ms.set_seed(1)
    assert ops.randn(4).tolist() == plain[0]
    seeded = ops.randn(4, seed=7).tolist()
    assert ops.randn(4).tolist() == plain[1]
    assert ops.randn(4, seed=7).tolist() == seeded
    assert ops.bernoulli(X, Tensor(0.5), seed=7).tolist() == ops.bernoulli(X, Tensor(0.5), seed=7).tolist()
    assert ops.shuffle(ops.arange(50), seed=7).tolist() == ops.shuffle(ops.arange(50), seed=7).tolist()


def test_shapes() -> None:
    assert ops.randn().shape == ops.rand().shape == (1,)
    assert ops.randn(2, 3).shape == ops.rand((2, 3)).shape == (2, 3)
    assert ops.normal((3,), Tensor([[1.0], [2.0]]), 1.0).shape == (2, 3)
    assert ops.multinomial(ops.ones((4, 3)), 5).shape == (4, 5)
    for like, dtype in [(ops.randn_like, "float32"), (ops.rand_like, "float32")]:
        assert (like(X).shape, like(X).dtype.name) == ((2, 3), dtype)
    assert ops.randint_like(X, 0, 5, dtype=ms.int32).dtype == np.int32


def test_orders() -> None:
    assert sorted(ops.randperm(50).tolist()) == list(range(50))
    assert ops.randperm(3, dtype=ms.int32).dtype == np.int32
    assert ops.randperm(0).shape == (0,)
    assert sorted(ops.RandpermV2()(Tensor(4)).tolist()) == [0, 1, 2, 3]
    x = Tensor(np.arange(40).reshape(20, 2))
    shuffled = ops.shuffle(x).asnumpy()
    assert sorted(shuffled.tolist()) == x.tolist()
    np.testing.assert_array_equal(shuffled[:, 1], shuffled[:, 0] + 1)


def test_without_replacement_every_index_is_drawn_once() -> None:
    sampled = ops.multinomial(ops.ones((6, 4)), 4, replacement=False).asnumpy()
    assert np.sort(sampled, axis=1).tolist() == [[0, 1, 2, 3]] * 6
    assert 0 not in ops.multinomial(Tensor([0.0, 1.0, 2.0]), 2, False).tolist()


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: ops.randn(2, dtype=ms.int32), ValueError, ("randn", "float", "int32")),
        (lambda: ops.randint(0, 5, (2,), dtype=ms.float32), ValueError, ("randint", "int", "float32")),
        (lambda: ops.randint(5, 5, (2,)), ValueError, ("randint", "5 and 5")),
        (lambda: ops.randint(0.5, 5, (2,)), TypeError, ("randint", "low", "float")),
        (lambda: ops.randint_like(X, 0, 5), ValueError, ("randint_like", "float32")),
        (lambda: ops.rand_like(Tensor([1])), ValueError, ("rand_like", "int64")),
        (lambda: ops.uniform((2,), Tensor([0, 1]), Tensor(5), dtype=ms.int32), ValueError, ("uniform", "0-d")),
        (lambda: ops.bernoulli(X, 1.5), ValueError, ("bernoulli", "'p'", "[0, 1]", "1.5")),
        (lambda: ops.randn(2, seed=-1), ValueError, ("randn", "seed", "-1")),
        (lambda: ops.randperm(-1), ValueError, ("randperm", "-1")),
        (lambda: ops.multinomial(Tensor([1.0]), 2, False), ValueError, ("multinomial", "num_samples", "2")),
        (lambda: ops.multinomial(Tensor([[[1.0]]]), 2), ValueError, ("multinomial", "dimensions", "3")),
    ],
)
def test_errors(wrong: Callable[[], Any], error: type[Exception], words: tuple[str, ...]) -> None:
    with pytest.raises(error) as raised:
        wrong()
    assert [word for word in words if word not in str(raised.value)] == []
