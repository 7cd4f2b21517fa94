"""Dropout as functions, operator objects and Cells: what is dropped, how the rest is scaled, gradients, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, nn, ops

ONES = Tensor(np.ones(20000, np.float32))


def dropped(y: Tensor) -> float:
    return float((y.asnumpy() == 0).mean())


@pytest.mark.parametrize("p", [0.1, 0.5, 0.75])
def test_elements_are_dropped_and_the_others_scaled(p: float) -> None:
    y = ops.dropout(ONES, p)
    assert y.dtype == ms.float32
    assert abs(dropped(y) - p) < 0.02
    np.testing.assert_allclose(np.unique(y.asnumpy()), [0.0, 1 / (1 - p)], rtol=1e-6)


def test_every_call_draws_anew_unless_it_has_a_seed() -> None:
    assert not np.array_equal(ops.dropout(ONES).asnumpy(), ops.dropout(ONES).asnumpy())
    assert np.array_equal(ops.dropout(ONES, seed=3).asnumpy(), ops.dropout(ONES, seed=3).asnumpy())
    first, second = (ops.Dropout(0.5, 1, 2)(ONES)[0].asnumpy() for _ in range(2))
    assert np.array_equal(first, second)
    ms.set_seed(5)
    first = ops.dropout(ONES).asnumpy()
    ms.set_seed(5)
    assert np.array_equal(ops.dropout(ONES).asnumpy(), first)


def test_nothing_is_dropped_outside_of_training() -> None:
    assert ops.dropout(ONES, training=False) is ONES
    for cell in (nn.Dropout(), nn.Dropout1d(), nn.Dropout2d(), nn.Dropout3d()):
        assert cell(ONES) is ONES
    assert nn.Dropout(p=0.0).set_train()(ONES) is ONES
    assert nn.Dropout(1.0).set_train()(ONES) is ONES


@pytest.mark.parametrize("call", [ops.dropout, lambda x: ops.Dropout(0.5)(x)[0], nn.Dropout().set_train()])
def test_the_gradient_is_dropped_where_the_value_is(call: Callable[[Any], Any]) -> None:
    y, gradient = ms.value_and_grad(call)(ONES)
    np.testing.assert_array_equal(gradient.asnumpy(), y.asnumpy())


def test_the_first_argument_of_the_cell_is_what_is_kept_and_p_goes_before_it() -> None:
    assert abs(dropped(nn.Dropout(0.9).set_train()(ONES)) - 0.1) < 0.02
    assert abs(dropped(nn.Dropout(keep_prob=0.9, p=0.3).set_train()(ONES)) - 0.3) < 0.02
    assert repr(nn.Dropout(0.9)) == "Dropout(keep_prob=0.9)"
    assert repr(nn.Dropout(p=0.3)) == "Dropout(p=0.3)"
    assert repr(nn.Dropout2d(0.3)) == "Dropout2d(p=0.3)"


@pytest.mark.parametrize(
    ("function", "cell", "shape"),
    [
        (ops.dropout1d, nn.Dropout1d, (40, 50, 3)),
        (ops.dropout1d, nn.Dropout1d, (2000, 3)),
        (ops.dropout2d, nn.Dropout2d, (40, 50, 3, 2)),
        (ops.dropout3d, nn.Dropout3d, (40, 50, 2, 1, 2)),
    ],
)
def test_channels_are_dropped_as_a_whole(function: Any, cell: Any, shape: tuple[int, ...]) -> None:
    x = Tensor(np.ones(shape, np.float32))
    for y in (function(x, 0.2), cell(0.2).set_train()(x)):
        channels = y.asnumpy().reshape(2000, -1)
        assert np.all(channels == channels[:, :1])
        assert abs(np.mean(channels[:, 0] == 0) - 0.2) < 0.05
        np.testing.assert_allclose(np.unique(channels), [0.0, 1.25], rtol=1e-6)
    assert function(x, 0.5, False) is x
    assert np.all(function(x, 1.0).asnumpy() == 0)


@pytest.mark.parametrize(("make", "shape"), [(ops.Dropout2D, (4, 5, 3, 2)), (ops.Dropout3D, (4, 5, 2, 1, 2))])
def test_channel_objects_return_a_bool_mask(make: Any, shape: tuple[int, ...]) -> None:
    y, mask = make(keep_prob=0.5)(Tensor(np.ones(shape, np.float32)))
    assert mask.dtype == ms.bool_
    np.testing.assert_array_equal(y.asnumpy(), mask.asnumpy() * 2.0)


def test_the_object_returns_a_mask_of_numbers() -> None:
    y, mask = ops.Dropout(keep_prob=0.8)(ONES)
    assert isinstance(mask, Tensor)
    np.testing.assert_allclose(y.asnumpy(), mask.asnumpy() * 1.25)


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16, ms.float64])
def test_the_dtype_is_kept(dtype: np.dtype[Any]) -> None:
    assert ops.dropout(ONES.astype(dtype)).dtype == dtype
    assert nn.Dropout().set_train().to_float(ms.float16)(ONES).dtype == ms.float16


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: nn.Dropout(p=1.0), ValueError, ["'Dropout'", "'p'", "[0, 1)", "1.0"]),
        (lambda: nn.Dropout(p=-0.1), ValueError, ["'p'", "[0, 1)", "-0.1"]),
        (lambda: nn.Dropout(0.0), ValueError, ["'keep_prob'", "(0, 1]", "0.0"]),
        (lambda: nn.Dropout(keep_prob=1.5), ValueError, ["'keep_prob'", "(0, 1]", "1.5"]),
        (lambda: nn.Dropout(p="half"), TypeError, ["'p'", "str"]),
        (lambda: nn.Dropout2d(1.5), ValueError, ["'Dropout2d'", "'p'", "[0, 1]", "1.5"]),
        (lambda: ops.dropout(ONES, 1.0), ValueError, ["'dropout'", "'p'", "[0, 1)"]),
        (lambda: ops.dropout(ONES, training=1), TypeError, ["'training'", "bool", "int"]),
        (lambda: ops.dropout(Tensor([1, 2])), TypeError, ["'dropout'", "floating-point", "Int64"]),
        (lambda: ops.dropout2d(ONES), ValueError, ["'dropout2d'", "4 dimensions", "(20000,)"]),
        (lambda: ops.dropout1d(ONES), ValueError, ["'dropout1d'", "2 or 3 dimensions"]),
        (lambda: ops.Dropout(0.0)(ONES), ValueError, ["'keep_prob'", "(0, 1]"]),
    ],
)
def test_errors_name_what_is_wrong(call: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert [word for word in words if word not in str(raised.value)] == []
