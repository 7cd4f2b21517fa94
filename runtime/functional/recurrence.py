"""Recurrent layers, stacked and bidirectional, and their single steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..ops import shaping, slicing
from ..ops.gru import gru
from ..ops.lstm import lstm
from ..ops.rnn import rnn


class Weights(NamedTuple):
    """Of one layer in one direction: (gates * hidden, features), (gates * hidden, hidden), and biases or None."""

    ih: Any
    hh: Any
    bias_ih: Any
    bias_hh: Any


def one_direction(
    kind: str, x: Any, states: Sequence[Any], weights: Weights, *, lengths: Any = None, reverse: bool = False
) -> tuple[Any, ...]:
    """One layer over all steps: the outputs (time, batch, hidden), and the last states, each (batch, hidden).

    Args:
        kind: "lstm", "gru", "rnn_tanh" or "rnn_relu".
        x: (time, batch, features).
        states: at the beginning, each (batch, hidden); the hidden state, for "lstm" followed by the cell state.
        weights: of the dtype of `x`.
        lengths: steps of each sequence, integers (batch,); all if it is None.
        reverse: whether it walks from the last step to the first.
    """
    outputs: tuple[Any, ...]
    if kind == "lstm":
        outputs = lstm(x, *states, *weights, None, lengths, reverse=reverse)
    elif kind == "gru":
        outputs = gru(x, *states, *weights, lengths, reverse=reverse)
    else:
        outputs = rnn(x, *states, *weights, lengths, reverse=reverse, nonlinearity=kind.removeprefix("rnn_"))
    return outputs


def stacked(
    kind: str,
    x: Any,
    states: Sequence[Any],
    layers: Sequence[Sequence[Weights]],
    *,
    lengths: Any = None,
    between: Callable[[Any], Any] | None = None,
) -> tuple[Any, ...]:
    """Layers on top of each other: the outputs of the last one, and the last states of all.

    Args:
        kind: as in `one_direction`, as are `x` and `lengths`.
        x: (time, batch, features).
        states: each (layers * directions, batch, hidden).
        layers: for each, the weights of its one or two directions, whose outputs are concatenated.
        lengths: steps of each sequence.
        between: what the outputs of a layer go through on their way to the next one.

    Returns:
        (time, batch, directions * hidden), and the states as they were given.
    """
    last: list[tuple[Any, ...]] = []
    for depth, directions in enumerate(layers):
        if depth and between is not None:
            x = between(x)
        outputs = []
        for reverse, weights in enumerate(directions):
            first = [_at(state, len(last)) for state in states]
            y, *after = one_direction(kind, x, first, weights, lengths=lengths, reverse=bool(reverse))
            outputs.append(y)
            last.append(tuple(after))
        x = outputs[0] if len(outputs) == 1 else slicing.concat(*outputs, axis=2)
    return x, *(_stacked(list(state)) for state in zip(*last, strict=True))


def one_step(kind: str, x: Any, states: Sequence[Any], weights: Weights) -> tuple[Any, ...]:
    """The states, each (batch, hidden), after one step with the input (batch, features)."""
    return one_direction(kind, shaping.reshape(x, shape=(1, *x.shape)), states, weights)[1:]


def _at(state: Any, index: int) -> Any:
    """(layers, batch, hidden) at one layer."""
    if state.shape[0] != 1:
        state = slicing.slice(state, starts=(index,), stops=(index + 1,), steps=(1,), axes=(0,))
    return shaping.reshape(state, shape=tuple(state.shape[1:]))


def _stacked(states: list[Any]) -> Any:
    rows = [shaping.reshape(state, shape=(1, *state.shape)) for state in states]
    return rows[0] if len(rows) == 1 else slicing.concat(*rows, axis=0)
