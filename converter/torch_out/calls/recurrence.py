"""Recurrent networks of one layer and direction, for the graphs of `to_torch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Step = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]


def lstm(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None,
    bias_hh: Tensor | None,
    weight_hr: Tensor | None,
    lengths: Tensor | None,
    *,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """The outputs of all steps (time, batch, outputs), the last output, the last cell state. See the op `lstm`."""
    weights = [*_weights(weight_ih, weight_hh, bias_ih, bias_hh), *([] if weight_hr is None else [weight_hr])]

    def walk(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        biased = bias_ih is not None or bias_hh is not None
        result: tuple[Tensor, ...] = torch._VF.lstm(
            x, tuple(s[None] for s in state), weights, biased, 1, 0.0, False, False, False
        )
        return result

    return _run_steps(walk, x, (h0, c0), lengths, reverse)


def gru(x: Tensor, h0: Tensor, *weights_and_lengths: Tensor | None, reverse: bool) -> tuple[Tensor, ...]:
    """The outputs of all steps (time, batch, hidden) and the last one. See the op `gru`."""
    return _run_layer(torch._VF.gru, x, h0, weights_and_lengths, reverse)


def rnn_tanh(x: Tensor, h0: Tensor, *weights_and_lengths: Tensor | None, reverse: bool) -> tuple[Tensor, ...]:
    """The outputs of all steps (time, batch, hidden) and the last one. See the op `rnn`."""
    return _run_layer(torch._VF.rnn_tanh, x, h0, weights_and_lengths, reverse)


def rnn_relu(x: Tensor, h0: Tensor, *weights_and_lengths: Tensor | None, reverse: bool) -> tuple[Tensor, ...]:
    """The outputs of all steps (time, batch, hidden) and the last one. See the op `rnn`."""
    return _run_layer(torch._VF.rnn_relu, x, h0, weights_and_lengths, reverse)


def _run_layer(
    function: Any, x: Tensor, h0: Tensor, weights_and_lengths: Sequence[Tensor | None], reverse: bool
) -> tuple[Tensor, ...]:
    weight_ih, weight_hh, bias_ih, bias_hh, lengths = weights_and_lengths
    assert weight_ih is not None, "only biases may be absent"
    assert weight_hh is not None, "only biases may be absent"
    weights = _weights(weight_ih, weight_hh, bias_ih, bias_hh)

    def walk(x: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        result: tuple[Tensor, ...] = function(
            x, state[0][None], weights, len(weights) == 4, 1, 0.0, False, False, False
        )
        return result

    return _run_steps(walk, x, (h0,), lengths, reverse)


def _weights(weight_ih: Tensor, weight_hh: Tensor, bias_ih: Tensor | None, bias_hh: Tensor | None) -> list[Tensor]:
    """The weights in torch's form: with both biases or none."""
    if bias_ih is None and bias_hh is None:
        return [weight_ih, weight_hh]
    bias = bias_ih if bias_ih is not None else bias_hh
    assert bias is not None
    none = torch.zeros_like(bias)
    return [weight_ih, weight_hh, none if bias_ih is None else bias_ih, none if bias_hh is None else bias_hh]


def _run_steps(
    walk: Step, x: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, ...]:
    """Run all steps at once; with lengths, step by step, so that a sequence that has ended keeps its state."""
    if lengths is None:
        ys, *last = walk(x.flip(0) if reverse else x, state)
        return (ys.flip(0) if reverse else ys, *(s[0] for s in last))
    outputs: list[Tensor] = []
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        y, *after = walk(x[t : t + 1], state)
        running = (t < lengths)[:, None]
        state = tuple(torch.where(running, new[0], old) for new, old in zip(after, state, strict=True))
        outputs.append(torch.where(running, y[0], 0))
    ys = torch.stack(outputs[::-1] if reverse else outputs) if outputs else x.new_zeros(0, *state[0].shape)
    return (ys, *state)


def linear_recurrence(factors: Tensor, terms: Tensor, axis: int) -> Tensor:
    """y[t] = factors[t] * y[t - 1] + terms[t], from y[-1] = 0."""
    y: list[Tensor] = []
    for factor, term in zip(factors.unbind(axis), terms.unbind(axis), strict=True):
        y.append(factor * y[-1] + term if y else term)
    return torch.stack(y, axis) if y else terms
