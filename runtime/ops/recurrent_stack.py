"""Recurrent layers, stacked and bidirectional, and their single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import shaping, slicing
from .gru import gru
from .lstm import lstm
from .rnn import rnn


class Weights(NamedTuple):
    """The weights of one layer in one direction.

    Attributes:
        ih: (gates * hidden, features).
        hh: (gates * hidden, outputs).
        bias_ih: (gates * hidden,), or None.
        bias_hh: (gates * hidden,), or None.
        hr: the projection of an "lstm", (outputs, hidden), or None.
    """

    ih: Any
    hh: Any
    bias_ih: Any = None
    bias_hh: Any = None
    hr: Any = None


def run_direction(
    kind: str, x: Any, states: Sequence[Any], weights: Weights, *, lengths: Any = None, reverse: bool = False
) -> tuple[Any, ...]:
    """Run one layer in one direction over all steps.

    Args:
        kind: "lstm", "gru", "rnn_tanh" or "rnn_relu".
        x: (time, batch, features).
        states: the initial states, each (batch, hidden): the hidden state and, for "lstm", the cell state.
        weights: the weights, with the dtype of `x`.
        lengths: the number of steps of each sequence, integers (batch,); all steps if it is None.
        reverse: whether to run from the last step to the first.

    Returns:
        The outputs (time, batch, hidden), and the last states, each (batch, hidden).
    """
    outputs: tuple[Any, ...]
    if kind == "lstm":
        outputs = lstm(x, *states, *weights, lengths, reverse=reverse)
    elif kind == "gru":
        outputs = gru(x, *states, *weights[:4], lengths, reverse=reverse)
    else:
        outputs = rnn(x, *states, *weights[:4], lengths, reverse=reverse, nonlinearity=kind.removeprefix("rnn_"))
    return outputs


def run_layers(
    kind: str,
    x: Any,
    states: Sequence[Any],
    layers: Sequence[Sequence[Weights]],
    *,
    lengths: Any = None,
    between: Callable[[Any], Any] | None = None,
) -> tuple[Any, ...]:
    """Run stacked layers, in one direction or both.

    Args:
        kind: see `run_direction`.
        x: (time, batch, features).
        states: the initial states, each (layers * directions, batch, hidden).
        layers: for each layer, the weights of its one or two directions, whose outputs are concatenated.
        lengths: see `run_direction`.
        between: a function applied to the outputs of each layer but the last, such as dropout.

    Returns:
        The outputs of the last layer, (time, batch, directions * hidden), and the last states of all layers, each
        (layers * directions, batch, hidden).
    """
    last: list[list[Any]] = [[] for _ in states]
    for depth, directions in enumerate(layers):
        if depth and between is not None:
            x = between(x)
        outputs = []
        for reverse, weights in enumerate(directions):
            initial = [_select(state, len(last[0])) for state in states]
            y, *new_states = run_direction(kind, x, initial, weights, lengths=lengths, reverse=bool(reverse))
            outputs.append(y)
            for rows, state in zip(last, new_states, strict=True):
                rows.append(shaping.reshape(state, shape=(1, *state.shape)))
        x = outputs[0] if len(outputs) == 1 else slicing.concat(*outputs, axis=2)
    return x, *(rows[0] if len(rows) == 1 else slicing.concat(*rows, axis=0) for rows in last)


def run_step(kind: str, x: Any, states: Sequence[Any], weights: Weights) -> tuple[Any, ...]:
    """Return the states, each (batch, hidden), after one step with the input (batch, features)."""
    return run_direction(kind, shaping.reshape(x, shape=(1, *x.shape)), states, weights)[1:]


def _select(state: Any, index: int) -> Any:
    """Select one state (batch, hidden) of (layers * directions, batch, hidden)."""
    if state.shape[0] != 1:
        state = slicing.slice(state, starts=(index,), stops=(index + 1,), steps=(1,), axes=(0,))
    return shaping.reshape(state, shape=tuple(state.shape[1:]))
