"""Pooling by powers, over windows of random places, and its reverse: against torch, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops
from tests.runtime.against_torch import assert_as_torch, normal

# ---- by powers ----


@pytest.mark.parametrize("power", [1, 2.0, 3.5])
@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"stride": 2, "ceil_mode": True}], ids=str)
def test_pooling_by_powers_is_torch_s(power: float, options: dict[str, Any]) -> None:
    x = np.abs(normal(2, 3, 7, 5)) + 0.1
    for kernel in (2, (3, 2)):
        assert_as_torch(nn.LPPool2d(power, kernel, **options), torch.nn.LPPool2d(power, kernel, **options), x)
    assert_as_torch(nn.LPPool2d(power, 3, **options), torch.nn.LPPool2d(power, 3, **options), x[0])
    for sequence in (x[0], x[0, 0]):
        assert_as_torch(nn.LPPool1d(power, 2, **options), torch.nn.LPPool1d(power, 2, **options), sequence)


def test_squares_of_negative_numbers_count_too() -> None:
    assert_as_torch(nn.LPPool1d(2, 3), torch.nn.LPPool1d(2, 3), normal(2, 3, 9))


# ---- over windows of random places ----


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("kernel", [2, 3, "mixed"])
def test_pooling_at_random_places_is_torch_s(axes: int, kernel: Any) -> None:
    shape, windows = (8, 7, 9)[:axes], (3, 4, 2)[:axes]
    kernel = (2, 3, 1)[:axes] if kernel == "mixed" else kernel
    samples = np.random.default_rng(1).random((2, 3, axes))
    cell_class, module_class = (getattr(module, f"FractionalMaxPool{axes}d") for module in (nn, torch.nn))
    cell = cell_class(kernel, windows, return_indices=True, _random_samples=Tensor(samples))
    module = module_class(kernel, windows, return_indices=True, _random_samples=torch.from_numpy(samples))
    assert_as_torch(cell, module, normal(2, 3, *shape))
    single = cell_class(kernel, windows, _random_samples=Tensor(samples[:1]))
    module = module_class(kernel, windows, _random_samples=torch.from_numpy(samples[:1]))
    assert_as_torch(single, module, normal(3, *shape))


def test_places_are_drawn_anew_and_by_the_seed() -> None:
    x = Tensor(normal(1, 4, 30, 30))
    cell = nn.FractionalMaxPool2d(2, output_ratio=0.6)
    draws = []
    for seed in (1, 1, 2):
        ms.set_seed(seed)
        draws.append(cell(x).asnumpy())
    assert draws[0].shape == (1, 4, 18, 18)
    np.testing.assert_array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[0], draws[2])
    assert nn.FractionalMaxPool3d(2, output_ratio=(0.5, 0.5, 0.9))(Tensor(normal(2, 5, 6, 8))).shape == (2, 2, 3, 7)
    assert nn.FractionalMaxPool2d(3, 1)(x).shape == (1, 4, 1, 1)


# ---- back to where maxima were ----


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(2, None, 0), (3, 2, 1), (2, 3, 0)])
def test_maxima_go_back_to_where_they_were_as_in_torch(axes: int, kernel: int, stride: Any, padding: int) -> None:
    pool = getattr(torch.nn, f"MaxPool{axes}d")(kernel, stride, padding, return_indices=True)
    sizes = (7, 8, 9)[:axes]
    values, indices = (t.numpy() for t in pool(torch.from_numpy(normal(2, 3, *sizes))))
    cell = getattr(nn, f"MaxUnpool{axes}d")(kernel, stride, padding)
    module = getattr(torch.nn, f"MaxUnpool{axes}d")(kernel, stride, padding)
    if kernel >= (stride or kernel):  # windows cover everything: no index lies beyond the default output
        assert_as_torch(cell, module, values[..., :2], np.minimum(indices[..., :2], 2))
    for size in (sizes, (2, 3, *sizes)):
        assert_as_torch(lambda *xs, size=size: cell(*xs, size), lambda *xs: module(*xs, sizes), values, indices)
    assert_as_torch(lambda *xs: cell(*xs, sizes), lambda *xs: module(*xs, sizes), values[0], indices[0])


def test_a_pooling_layer_and_its_reverse() -> None:
    x = Tensor(np.arange(16.0).reshape(1, 1, 4, 4))
    values, indices = nn.MaxPool2d(2, 2, "pad", return_indices=True)(x)
    y = nn.MaxUnpool2d(2)(values, indices.astype(ms.int32))
    np.testing.assert_array_equal(y.asnumpy(), np.where(np.isin(x.asnumpy(), (5, 7, 13, 15)), x.asnumpy(), 0))
    np.testing.assert_array_equal(ops.max_unpool2d(values, indices, 2).asnumpy(), y.asnumpy())


# ---- errors ----

X = Tensor(np.ones((1, 2, 4, 4), np.float32))
PLACES = Tensor(np.zeros((1, 2, 4, 4), np.int64))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.LPPool1d(0, 2)(X[0]), ValueError, ["'lp_pool1d'", "'norm_type'", "not be 0"]),
        (lambda: nn.LPPool2d("2", 2)(X), TypeError, ["'norm_type'", "str"]),
        (lambda: nn.LPPool1d(2, (2, 2))(X[0]), TypeError, ["'kernel_size'", "int", "tuple"]),
        (lambda: nn.LPPool2d(2, 0)(X), ValueError, ["'kernel_size'", ">= 1"]),
        (lambda: nn.LPPool2d(2, 2)(PLACES), TypeError, ["'x'", "floating-point", "Int64"]),
        (lambda: nn.FractionalMaxPool2d(2)(X), ValueError, ["'output_size'", "'output_ratio'", "None"]),
        (lambda: nn.FractionalMaxPool2d(2, 4)(X), ValueError, ["(4, 4) windows of (2, 2)", "(4, 4)"]),
        (lambda: nn.FractionalMaxPool2d(2, output_ratio=1.0)(X), ValueError, ["'output_ratio'", "(0, 1)", "1.0"]),
        (lambda: nn.FractionalMaxPool2d(2, output_ratio=(0.5,))(X), ValueError, ["'output_ratio'", "2"]),
        (lambda: nn.FractionalMaxPool3d(2, 1)(X[0, 0]), ValueError, ["5 dimensions", "(4, 4)"]),
        (lambda: nn.FractionalMaxPool2d(2, 2, _random_samples=X)(X), ValueError, ["(1, 2, 2)", "(1, 2, 4, 4)"]),
        (lambda: nn.MaxUnpool2d(2)(X, PLACES[0]), ValueError, ["one shape", "(2, 4, 4)"]),
        (lambda: nn.MaxUnpool2d(2)(X, X), TypeError, ["'indices'", "integers", "float32"]),
        (lambda: nn.MaxUnpool2d(2)(X, PLACES + 64), ValueError, ["'indices'", "[0, 64)", "64"]),
        (lambda: nn.MaxUnpool2d(2)(X, PLACES, (10, 8)), ValueError, ["'output_size'", "(8, 8)", "(10, 8)"]),
        (lambda: nn.MaxUnpool2d(2)(X, PLACES, (8,)), ValueError, ["'output_size'", "2 sizes", "(8,)"]),
        (lambda: nn.MaxUnpool2d(2)(X, PLACES, 8), TypeError, ["'output_size'", "tuple"]),
        (lambda: nn.MaxUnpool1d(2)(X, PLACES), ValueError, ["3 dimensions", "(1, 2, 4, 4)"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []
