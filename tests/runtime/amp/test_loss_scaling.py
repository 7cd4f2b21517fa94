"""Loss scales: what scalers and managers do to numbers, and how their scale follows the overflows."""

from __future__ import annotations

import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cellbridge.runtime as ms
from cellbridge.runtime import Tensor, amp, nn, value_and_grad
from cellbridge.runtime.train.loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager


def test_a_static_scale() -> None:
    scaler = amp.StaticLossScaler(1024)
    assert scaler.scale(Tensor([1.0])).tolist() == [1024.0]
    assert [x.tolist() for x in scaler.unscale((Tensor([1024.0]), Tensor([512.0])))] == [[1.0], [0.5]]
    assert isinstance(scaler.unscale([Tensor([1.0])]), list)
    pair = namedtuple("pair", "a b")(Tensor([1024.0]), Tensor([512.0]))
    assert scaler.unscale(pair).b.tolist() == [0.5]
    half = scaler.unscale(Tensor([2.0], ms.float16))
    assert (half.dtype, half.tolist()) == (np.float16, [2 / 1024])
    assert scaler.adjust(Tensor(False)) is False
    assert (float(scaler.scale_value), scaler.scale_value.dtype) == (1024.0, np.float32)


@given(
    scale=st.floats(1, 2.0**20),
    factor=st.integers(1, 5),
    window=st.integers(1, 4),
    finite=st.lists(st.booleans(), max_size=30),
)
def test_a_dynamic_scale_follows_the_rule(scale: float, factor: int, window: int, finite: list[bool]) -> None:
    scaler = amp.DynamicLossScaler(scale, factor, window)
    expected, counter = np.float32(scale), 0
    for ok in finite:
        assert scaler.adjust(Tensor(ok)) is True
        if not ok:
            expected, counter = max(np.float32(1), np.float32(expected / factor)), 0
        else:
            expected = expected * np.float32(factor) if counter == window - 1 else expected
            counter = (counter + 1) % window
        np.testing.assert_allclose(scaler.scale_value.asnumpy(), expected, rtol=1e-5)
        assert int(scaler.counter) == counter
        assert (scaler.scale_value.dtype, scaler.counter.dtype) == (np.float32, np.int32)


def test_a_scale_stays_finite_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaler = amp.DynamicLossScaler(2.0**127, 2, 1)
        manager = DynamicLossScaleManager(2.0**127, 2, 1)
        for _ in range(3):
            scaler.adjust(True)
            manager.update_loss_scale(False)
    assert (float(scaler.scale_value), int(scaler.counter), manager.get_loss_scale()) == (2.0**127, 0, 2.0**127)


def test_finiteness_may_be_given_in_several_forms() -> None:
    for ok in (True, np.bool_(True), Tensor(True), Tensor([True])):
        scaler = amp.DynamicLossScaler(8, 2, 1)
        scaler.adjust(ok)
        assert float(scaler.scale_value) == 16.0


def test_all_finite() -> None:
    finite, infinite = Tensor([1.0, 2.0]), Tensor([1.0, np.inf], ms.float16)
    for inputs, expected in [
        ((finite,), True),
        ([finite, infinite], False),
        ((finite, (finite, [infinite])), False),
        ((Tensor([np.nan]),), False),
        ((Tensor([1]), Tensor([True])), True),
        ((), True),
    ]:
        result = amp.all_finite(inputs)
        assert (result.shape, result.dtype, bool(result)) == ((), np.bool_, expected)


def test_scaled_gradients_of_half_precision_do_not_vanish() -> None:
    net = nn.Dense(1, 1, weight_init="ones", has_bias=False).to_float(ms.float16)
    scaler = amp.StaticLossScaler(2.0**14)
    x = Tensor([[2.0**-13]])

    def forward(scale: bool) -> Any:
        loss = net(x).sum() * Tensor(2.0**-13, ms.float16)
        return scaler.scale(loss) if scale else loss

    _, (vanished,) = value_and_grad(lambda: forward(False), None, net.trainable_params())()
    _, (scaled,) = value_and_grad(lambda: forward(True), None, net.trainable_params())()
    assert vanished.tolist() == [[0.0]]
    assert scaler.unscale((scaled,))[0].tolist() == [[2.0**-26]]


@pytest.mark.parametrize("dtype", [ms.float16, ms.bfloat16])
@pytest.mark.parametrize("scale", [1000.0, 2.0**25, 3e7])
def test_half_precision_is_unscaled_by_a_scale_that_it_does_not_hold(dtype: Any, scale: float) -> None:
    gradient = np.array([0.5, 1000.0, -3e4], dtype)
    unscaled = amp.StaticLossScaler(scale).unscale(Tensor(gradient))
    assert unscaled.dtype == dtype
    expected = (gradient.astype(np.float32) * np.float32(1 / scale)).astype(dtype)
    np.testing.assert_array_equal(unscaled.asnumpy(), expected)


def test_managers() -> None:
    fixed = FixedLossScaleManager(8, drop_overflow_update=False)
    fixed.update_loss_scale(True)
    assert (fixed.get_loss_scale(), fixed.get_drop_overflow_update(), fixed.get_update_cell()) == (8, False, None)
    assert isinstance(FixedLossScaleManager().get_update_cell(), nn.FixedLossScaleUpdateCell)
    dynamic = DynamicLossScaleManager(1024, 2, 3)
    scales = []
    for overflow in (False, False, False, True, False, False, False, True):
        dynamic.update_loss_scale(overflow)
        scales.append(dynamic.get_loss_scale())
    assert scales == [1024, 1024, 2048, 1024, 1024, 1024, 2048, 1024]
    update = dynamic.get_update_cell()
    assert isinstance(update, nn.DynamicLossScaleUpdateCell)
    assert (update.get_loss_scale(), update.scale_factor, update.scale_window) == (1024, 2, 3)
    assert dynamic.get_drop_overflow_update() is True


def test_a_network_that_always_overflows_is_reported() -> None:
    manager = DynamicLossScaleManager(4, 2, 1)
    for _ in range(1000):
        manager.update_loss_scale(True)
    with pytest.raises(RuntimeError, match="1001 steps in a row, down to loss scale 1"):
        manager.update_loss_scale(True)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: amp.StaticLossScaler(0.5), ValueError, ["scale_value", ">= 1", "0.5"]),
        (lambda: amp.StaticLossScaler(-1), ValueError, ["scale_value", "-1"]),
        (lambda: amp.StaticLossScaler("2"), TypeError, ["scale_value", "int or float", "'2'"]),
        (lambda: amp.StaticLossScaler(True), TypeError, ["scale_value", "bool"]),
        (lambda: amp.StaticLossScaler(Tensor(2.0)), TypeError, ["scale_value", "Tensor"]),
        (lambda: amp.StaticLossScaler(2).scale(3.0), TypeError, ["Tensor", "float"]),
        (lambda: amp.StaticLossScaler(2).unscale((3.0,)), TypeError, ["Tensor", "float"]),
        (lambda: amp.DynamicLossScaler(0, 2, 1), ValueError, ["scale_value", "0"]),
        (lambda: amp.DynamicLossScaler(8, 2.0, 1), TypeError, ["scale_factor", "int", "2.0"]),
        (lambda: amp.DynamicLossScaler(8, 0, 1), ValueError, ["scale_factor", "> 0", "0"]),
        (lambda: amp.DynamicLossScaler(8, 2, 1.0), TypeError, ["scale_window", "int", "1.0"]),
        (lambda: amp.DynamicLossScaler(8, 2, -1), ValueError, ["scale_window", "> 0", "-1"]),
        (lambda: amp.DynamicLossScaler(8, 2, 1).adjust(1), TypeError, ["grads_finite", "bool", "1"]),
        (lambda: amp.all_finite(Tensor([1.0])), TypeError, ["inputs", "tuple or list"]),
        (lambda: amp.all_finite((1.0,)), TypeError, ["inputs", "Tensors", "float"]),
        (lambda: FixedLossScaleManager(0.5), ValueError, ["loss_scale", ">= 1", "0.5"]),
        (lambda: FixedLossScaleManager(8, 1), TypeError, ["drop_overflow_update", "bool", "1"]),
        (lambda: DynamicLossScaleManager(0.5), ValueError, ["init_loss_scale", ">= 1", "0.5"]),
        (lambda: DynamicLossScaleManager(8, 0), ValueError, ["scale_factor", "> 0"]),
        (lambda: DynamicLossScaleManager(8, 2, 1.5), TypeError, ["scale_window", "int", "1.5"]),
    ],
)
def test_refusals(make: Callable[[], Any], error: type[Exception], words: list[str]) -> None:
    with pytest.raises(error) as raised:
        make()
    assert [word for word in words if word not in str(raised.value)] == []
