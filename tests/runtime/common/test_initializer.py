"""Initializers: distributions, names, shapes and errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cellbridge.runtime import Parameter, Tensor, nn
from cellbridge.runtime.common.dtype import bfloat16, float16, float32, int32
from cellbridge.runtime.common.initializer import (
    Constant,
    Dirac,
    HeNormal,
    HeUniform,
    Identity,
    Initializer,
    Normal,
    One,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    XavierNormal,
    XavierUniform,
    Zero,
    initializer,
)
from cellbridge.runtime.ops import random

SHAPE = (64, 32, 3, 3)
FAN_IN, FAN_OUT = 32 * 9, 64 * 9


@pytest.fixture(autouse=True)
def _seeded() -> None:
    random.seed(5)


@pytest.mark.parametrize(
    ("init", "deviation"),
    [
        (Normal(0.3), 0.3),
        (XavierNormal(2.0), 2 * math.sqrt(2 / (FAN_IN + FAN_OUT))),
        (HeNormal(), math.sqrt(2 / FAN_IN)),
        (HeNormal(0, "fan_out", "relu"), math.sqrt(2 / FAN_OUT)),
        (HeNormal(nonlinearity="tanh"), 5 / 3 / math.sqrt(FAN_IN)),
        (HeNormal(1.0), math.sqrt(1 / FAN_IN)),
        (VarianceScaling(3.0, "fan_avg", "untruncated_normal"), math.sqrt(3 / ((FAN_IN + FAN_OUT) / 2))),
        (VarianceScaling(), math.sqrt(1 / FAN_IN)),
    ],
    ids=repr,
)
def test_deviation_of_normal_draws(init: Initializer, deviation: float) -> None:
    sampled = initializer(init, SHAPE).asnumpy()
    assert sampled.std() == pytest.approx(deviation, rel=0.02)
    assert abs(sampled.mean()) < 4 * deviation / math.sqrt(sampled.size)


@pytest.mark.parametrize(
    ("init", "bound"),
    [
        (Uniform(0.3), 0.3),
        (XavierUniform(), math.sqrt(6 / (FAN_IN + FAN_OUT))),
        (HeUniform(math.sqrt(5)), 1 / math.sqrt(FAN_IN)),
        (VarianceScaling(2.0, "fan_out", "uniform"), math.sqrt(6 / FAN_OUT)),
    ],
    ids=repr,
)
def test_bound_of_even_draws(init: Initializer, bound: float) -> None:
    sampled = initializer(init, SHAPE).asnumpy()
    assert 0.999 * bound < np.abs(sampled).max() <= np.float32(bound)
    assert sampled.std() == pytest.approx(bound / math.sqrt(3), rel=0.02)


def test_truncated_normal_has_the_moments_of_its_density() -> None:
    sampled = initializer(TruncatedNormal(sigma=2.0, mean=0.5, a=-1.0, b=3.0), (200, 500)).asnumpy()
    x = np.linspace(-1, 3, 100001)
    density = np.exp(-(((x - 0.5) / 2) ** 2) / 2)
    mean = (x * density).sum() / density.sum()
    assert sampled.min() >= -1
    assert sampled.max() <= 3
    assert sampled.mean() == pytest.approx(mean, abs=0.02)
    assert sampled.std() == pytest.approx(math.sqrt(((x - mean) ** 2 * density).sum() / density.sum()), rel=0.02)


def test_truncated_normal_far_from_its_mean_ends() -> None:
    sampled = initializer(TruncatedNormal(sigma=1.0, mean=0.0, a=20.0, b=1e6), (100,)).asnumpy()
    assert sampled.min() >= 20
    assert sampled.max() < 21


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (2, 3, 2)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]) -> None:
    matrix = initializer(Orthogonal(2.0), shape).asnumpy().astype(np.float64).reshape(shape[0], -1)
    smaller = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(smaller, 4 * np.eye(len(smaller)), atol=1e-5)


def test_sparse_columns_have_their_zeros_in_different_places() -> None:
    zeros = initializer(Sparse(0.25), (10, 40)).asnumpy() == 0
    assert (zeros.sum(0) == 3).all()
    assert len({tuple(column) for column in zeros.T}) > 10


def test_dirac_convolution_passes_its_input_on() -> None:
    weight = initializer(Dirac(groups=2), (6, 4, 3, 3)).asnumpy()
    assert weight.sum() == 6
    assert [weight[out, out % 3, 1, 1] for out in range(6)] == [1] * 6


def test_without_chance() -> None:
    assert initializer(Zero(), 3).tolist() == [0, 0, 0]
    assert initializer(One(), [2]).tolist() == [1, 1]
    assert initializer(Identity(), (2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert initializer(Constant([1, 2]), (2, 2), int32).tolist() == [[1, 2], [1, 2]]
    assert initializer(2.5, ()).item() == 2.5
    assert initializer(np.float32(2), (1,)).tolist() == [2]


@pytest.mark.parametrize(
    "name",
    ["normal", "uniform", "zeros", "ones", "zero", "one", "xavier_uniform", "xavier_normal", "XavierUniform",
     "he_uniform", "he_normal", "HeNormal", "orthogonal", "identity", "varianceScaling", "TruncatedNormal"],
)  # fmt: skip
def test_names(name: str) -> None:
    made = initializer(name, (3, 4), float16)
    assert (made.shape, made.dtype) == ((3, 4), float16)


def test_names_have_the_defaults_of_their_classes() -> None:
    assert np.abs(initializer("uniform", SHAPE).asnumpy()).max() == pytest.approx(0.07, rel=0.01)
    assert initializer("normal", SHAPE).asnumpy().std() == pytest.approx(0.01, rel=0.02)


def test_dtypes_and_seed() -> None:
    assert initializer("ones", 2).dtype == float32
    random.seed(3)
    first = initializer("normal", (3, 4), bfloat16)
    later = initializer("normal", (3, 4), bfloat16)
    random.seed(3)
    repeated = initializer("normal", (3, 4), bfloat16)
    assert first.dtype == bfloat16
    assert first.tolist() == repeated.tolist() != later.tolist()


def test_tensor_is_returned_as_it_is() -> None:
    given = Tensor([[1.0, 2.0]], float16)
    assert initializer(given, (1, 2)) is given
    assert initializer(given) is given
    assert Parameter(initializer(given, [1, 2]), name="w").dtype == float16


def test_initializer_of_the_user_fills_in_place() -> None:
    class Ramp(Initializer):
        def __init__(self, step: float) -> None:
            super().__init__(step=step)
            self.step = step

        def _initialize(self, arr: np.ndarray) -> None:
            arr[:] = np.arange(arr.size).reshape(arr.shape) * self.step

    assert initializer(Ramp(0.5), (2, 2)).tolist() == [[0, 0.5], [1, 1.5]]
    assert Tensor(shape=(2,), dtype=float32, init=Ramp(2)).tolist() == [0, 2]
    assert repr(Ramp(0.5)) == "Ramp(step=0.5)"


@pytest.mark.parametrize(
    ("error", "words", "make"),
    [
        (ValueError, "'kaiming'", lambda: initializer("kaiming", (2, 2))),
        (ValueError, "truncated_normal", lambda: initializer("truncated_normal", (2, 2))),
        (ValueError, r"\(2, 2\).*\(3,\)", lambda: initializer(Tensor([1.0, 2.0, 3.0]), (2, 2))),
        (ValueError, "'shape'", lambda: initializer("ones", (0, 2))),
        (ValueError, "'shape'", lambda: initializer("ones")),
        (TypeError, "'init'", lambda: initializer(None, (2, 2))),
        (TypeError, "sparsity", lambda: Sparse()),
        (ValueError, "HeNormal.*at least 2", lambda: initializer("he_normal", 3)),
        (ValueError, "XavierUniform.*at least 2", lambda: initializer("xavier_uniform", 3)),
        (ValueError, "'mode'", lambda: HeUniform(mode="fan_avg")),
        (ValueError, "'nonlinearity'", lambda: HeNormal(nonlinearity="gelu")),
        (ValueError, "'negative_slope'", lambda: HeNormal(negative_slope="0")),
        (ValueError, "'scale'", lambda: VarianceScaling(scale=0)),
        (ValueError, "'distribution'", lambda: VarianceScaling(distribution="normal")),
        (ValueError, "'sigma'", lambda: Normal(-1)),
        (ValueError, "'a'", lambda: TruncatedNormal(a=2.0, b=1.0)),
        (ValueError, "Identity.* 2 dim", lambda: initializer("identity", 3)),
        (ValueError, "3 or 4 or 5", lambda: initializer("dirac", (2, 2))),
        (ValueError, "'groups'", lambda: initializer(Dirac(4), (6, 2, 3))),
        (ValueError, "Orthogonal", lambda: initializer("orthogonal", 3)),
        (ValueError, "Sparse", lambda: initializer(Sparse(0.1), (2, 3, 4))),
        (NotImplementedError, "_initialize", lambda: initializer(Initializer(), 2)),
    ],
)
def test_errors_name_what_is_wrong(error: type[Exception], words: str, make: object) -> None:
    with pytest.raises(error, match=words):
        make()  # type: ignore[operator]


def test_reinitializing_a_network_by_the_types_of_its_layers() -> None:
    net = nn.SequentialCell([nn.Conv2d(3, 64, 3), nn.BatchNorm2d(64), nn.Dense(64, 32), nn.Dense(32, 2)])
    for _, cell in net.cells_and_names():
        if isinstance(cell, nn.Conv2d):
            init = HeNormal(negative_slope=0, mode="fan_out", nonlinearity="relu")
            cell.weight.set_data(initializer(init, cell.weight.shape, cell.weight.dtype))
        elif isinstance(cell, nn.BatchNorm2d):
            cell.gamma.set_data(initializer("ones", cell.gamma.shape))
            cell.beta.set_data(initializer("zeros", cell.beta.shape))
        elif isinstance(cell, nn.Dense):
            cell.weight.set_data(initializer(HeUniform(negative_slope=math.sqrt(5)), cell.weight.shape))
            cell.bias.set_data(initializer("zeros", cell.bias.shape))
    assert net[0].weight.asnumpy().std() == pytest.approx(math.sqrt(2 / (64 * 9)), rel=0.1)
    assert np.abs(net[2].weight.asnumpy()).max() <= 1 / 8
    assert not net[3].bias.asnumpy().any()


@pytest.mark.parametrize("make", [lambda i: nn.Dense(2, 1, weight_init=i), lambda i: nn.Conv2d(2, 1, 1, weight_init=i)])
def test_layers_take_all_that_initializer_takes(make: Callable[[Any], nn.Cell]) -> None:
    shape = make("ones").weight.shape
    for init, value in (("ones", 1.0), (3, 3.0), (One(), 1.0), (Tensor(np.full(shape, 4.0, np.float32)), 4.0)):
        assert (make(init).weight.asnumpy() == value).all()
    with pytest.raises(ValueError, match="shape"):
        make(Tensor([1.0]))
