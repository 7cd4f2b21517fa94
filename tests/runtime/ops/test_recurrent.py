"""Recurrent layers: any size against torch, rounding in float32 against torch's own, and what doesn't fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cellbridge.runtime import ops
from cellbridge.runtime.errors import ShapeError
from cellbridge.runtime.ops.gru import gru
from cellbridge.runtime.ops.lstm import lstm
from cellbridge.runtime.ops.rnn import rnn
from tests.runtime.ops.cases_recurrent import LAYERS, attributes_of, layer_inputs, torch_layer

Array = np.ndarray[Any, Any]


def gradients(op: str, gs: tuple[Any, ...], inputs: tuple[Any, ...], **attributes: Any) -> tuple[Any, ...]:
    operands = (*inputs, *(None,) * (len(ops.get(op).input_names) - len(inputs)))
    return ops.get(op).apply_vjp(gs, ops.get(op)(*inputs, **attributes), operands, attributes)[: len(inputs)]


def differentiable(x: Any) -> bool:
    return x is not None and x.dtype.kind == "f"


def from_torch(op: str, reverse: bool, gs: tuple[Any, ...], inputs: tuple[Any, ...]) -> tuple[list[Array], list[Any]]:
    tensors = [None if x is None else torch.tensor(x, requires_grad=differentiable(x)) for x in inputs]
    ys = torch_layer(op, reverse)(*tensors)
    leaves = [t for t in tensors if t is not None and t.requires_grad]
    pairs = [(y, torch.tensor(g)) for y, g in zip(ys, gs, strict=True) if g is not None]
    torch_gradients = iter(torch.autograd.grad([y for y, _ in pairs], leaves, [g for _, g in pairs], allow_unused=True))
    return [y.detach().numpy() for y in ys], [
        next(torch_gradients) if t is not None and t.requires_grad else None for t in tensors
    ]


@settings(deadline=None)  # what is tested is not how fast
@given(
    op=st.sampled_from(LAYERS),
    time=st.integers(1, 5),
    batch=st.integers(1, 3),
    features=st.integers(1, 3),
    hidden=st.integers(1, 4),
    reverse=st.booleans(),
    biases=st.sampled_from(["", "ih", "hh", "ih hh"]),
    seed=st.integers(0, 99),
    arrived=st.lists(st.booleans(), min_size=3, max_size=3).filter(any),
    data=st.data(),
)
def test_any_size_and_any_cotangents(
    op: str,
    time: int,
    batch: int,
    features: int,
    hidden: int,
    reverse: bool,
    biases: str,
    seed: int,
    arrived: list[bool],
    data: st.DataObject,
) -> None:
    projection = data.draw(st.integers(0, hidden - 1)) if op == "lstm" else 0
    ends = data.draw(st.one_of(st.just(()), st.tuples(*[st.integers(1, time)] * batch)))
    inputs = layer_inputs(
        op, time, batch, features, hidden, biases=biases, projection=projection, lengths=ends, seed=seed
    )
    ys = ops.get(op)(*inputs, **attributes_of(op, reverse))
    rng = np.random.default_rng(0)
    gs = tuple(rng.standard_normal(y.shape) if a else None for y, a in zip(ys, arrived[-len(ys) :], strict=True))
    if all(g is None for g in gs):
        gs = (rng.standard_normal(ys[0].shape), *gs[1:])
    expected, expected_gradients = from_torch(op, reverse, gs, inputs)
    for y, truth in zip(ys, expected, strict=True):
        np.testing.assert_allclose(y, truth, rtol=1e-10, atol=1e-12)
    for gradient, truth, x in zip(
        gradients(op, gs, inputs, **attributes_of(op, reverse)), expected_gradients, inputs, strict=True
    ):
        assert (gradient is not None) == differentiable(x)
        if gradient is not None:
            np.testing.assert_allclose(gradient, 0 if truth is None else truth, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("op", LAYERS)
def test_rounds_like_torch_in_float32(op: str) -> None:
    wide = layer_inputs(op, 24, 4, 32, 48)
    wide = tuple(None if x is None else x.astype(np.float32).astype(np.float64) for x in wide)
    narrow = tuple(None if x is None else x.astype(np.float32) for x in wide)
    ys = ops.get(op)(*narrow, **attributes_of(op, False))
    rng = np.random.default_rng(1)
    gs = tuple(rng.standard_normal(y.shape).astype(np.float32) for y in ys)
    exact_ys, exact = from_torch(op, False, tuple(g.astype(np.float64) for g in gs), wide)
    torch_ys, torch_gradients = from_torch(op, False, gs, narrow)
    actual_gradients = gradients(op, gs, narrow, **attributes_of(op, False))
    for actual, torch_array, truth in zip(
        (*ys, *actual_gradients), (*torch_ys, *torch_gradients), (*exact_ys, *exact), strict=True
    ):
        if actual is not None:
            by_torch = np.sqrt(np.mean((np.asarray(torch_array) - np.asarray(truth)) ** 2))
            assert np.sqrt(np.mean((actual - np.asarray(truth)) ** 2)) <= 3 * by_torch


def test_saturated_gates_do_not_overflow() -> None:
    x, *others = (a if a is None else a.astype(np.float32) for a in layer_inputs("lstm", 3, 2, 3, 2))
    assert x is not None
    with np.errstate(over="ignore"):
        outputs = lstm(x * np.float32(1e4), *others, reverse=False)
    assert all(np.isfinite(y).all() for y in outputs)


def test_operands_that_do_not_fit_are_explained() -> None:
    x, h0, weight_ih, weight_hh, *biases = layer_inputs("gru", 3, 2, 4, 5)
    with pytest.raises(ShapeError, match="doesn't fit the features"):
        gru(np.zeros((3, 2, 7)), h0, weight_ih, weight_hh, *biases, reverse=False)
    with pytest.raises(ShapeError, match=r"needed weight_hh \(15, 5\)"):
        gru(x, h0, weight_ih, weight_ih, *biases, reverse=False)
    with pytest.raises(ShapeError, match="nonlinearity"):
        rnn(*layer_inputs("rnn", 3, 2, 4, 5), reverse=False, nonlinearity="sigmoid")


@pytest.mark.parametrize("op", LAYERS)
def test_a_sequence_of_no_steps_keeps_its_state(op: str) -> None:
    inputs = layer_inputs(op, 3, 2, 2, 4, lengths=(0, 2))
    for reverse in (False, True):
        ys, *last = ops.get(op)(*inputs, **attributes_of(op, reverse))
        np.testing.assert_array_equal(ys[:, 0], 0)
        for state, first in zip(last, inputs[1:], strict=False):
            assert first is not None
            np.testing.assert_array_equal(state[0], first[0])


@pytest.mark.parametrize(
    ("lengths", "message"), [(np.array([1, 2, 3]), "a length for each of 2"), (np.ones(2), "needed integer lengths")]
)
def test_lengths_that_do_not_fit_are_refused(lengths: Array, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        gru(*layer_inputs("gru", 3, 2, 2, 4), lengths, reverse=False)
