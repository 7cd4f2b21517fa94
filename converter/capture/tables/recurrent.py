"""ATen recurrent layers and cells, in terms of one layer in one direction."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import shaping, slicing
from ....runtime.ops.gru import gru as gru_layer
from ....runtime.ops.lstm import lstm as lstm_layer
from ....runtime.ops.rnn import rnn as rnn_layer
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .random import dropout as apply_dropout
from .table import Context, aten


@aten("aten.lstm.input")
def lstm(
    context: Context, input: SymbolicTensor, hx: list[SymbolicTensor], params: list[SymbolicTensor], has_biases: bool,
    num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
    train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)
    """
    # with a projection, the hidden state is narrower than the cell state
    projected = hx[0].shape[2] != hx[1].shape[2]
    drop = dropout if train else 0.0
    return _stack(
        context, lstm_layer, input, hx, params, has_biases, num_layers, drop, bidirectional, batch_first, projected
    )


@aten("aten.gru.input")
def gru(
    context: Context, input: SymbolicTensor, hx: SymbolicTensor, params: list[SymbolicTensor], has_biases: bool,
    num_layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train,
    bool bidirectional, bool batch_first) -> (Tensor, Tensor)
    """
    drop = dropout if train else 0.0
    return _stack(context, gru_layer, input, [hx], params, has_biases, num_layers, drop, bidirectional, batch_first)


def _register_rnn(nonlinearity: str) -> None:
    def layer(*operands: Any, reverse: bool) -> Any:
        return rnn_layer(*operands, reverse=reverse, nonlinearity=nonlinearity)

    def rnn(
        context: Context, input: SymbolicTensor, hx: SymbolicTensor, params: list[SymbolicTensor], has_biases: bool,
        num_layers: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[SymbolicTensor, ...]:  # fmt: skip
        """rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout,
        bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
        """
        drop = dropout if train else 0.0
        return _stack(context, layer, input, [hx], params, has_biases, num_layers, drop, bidirectional, batch_first)

    def cell(
        context: Context,
        input: SymbolicTensor,
        hx: SymbolicTensor,
        w_ih: SymbolicTensor,
        w_hh: SymbolicTensor,
        b_ih: Any = None,
        b_hh: Any = None,
    ) -> SymbolicTensor:
        """rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) ->
        Tensor
        """
        state: SymbolicTensor = layer(_one_step(input), hx, w_ih, w_hh, b_ih, b_hh, reverse=False)[1]
        return state

    aten(f"aten.rnn_{nonlinearity}.input")(rnn)
    aten(f"aten.rnn_{nonlinearity}_cell.default")(cell)


_register_rnn("tanh")
_register_rnn("relu")


@aten("aten.lstm_cell.default")
def lstm_cell(
    context: Context,
    input: SymbolicTensor,
    hx: list[SymbolicTensor],
    w_ih: SymbolicTensor,
    w_hh: SymbolicTensor,
    b_ih: Any = None,
    b_hh: Any = None,
) -> tuple[SymbolicTensor, SymbolicTensor]:
    """lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor,
    Tensor)
    """
    _, h, c = lstm_layer(_one_step(input), *hx, w_ih, w_hh, b_ih, b_hh, reverse=False)
    return h, c


@aten("aten.gru_cell.default")
def gru_cell(
    context: Context,
    input: SymbolicTensor,
    hx: SymbolicTensor,
    w_ih: SymbolicTensor,
    w_hh: SymbolicTensor,
    b_ih: Any = None,
    b_hh: Any = None,
) -> SymbolicTensor:
    """gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor"""
    state: SymbolicTensor = gru_layer(_one_step(input), hx, w_ih, w_hh, b_ih, b_hh, reverse=False)[1]
    return state


@aten("cellbridge.recurrent.default")
def with_lengths(
    context: Context, x: SymbolicTensor, lengths: SymbolicTensor, hx: list[SymbolicTensor],
    params: list[SymbolicTensor], kind: str, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """cellbridge::recurrent, layers on a packed sequence: see `packed_sequences`."""
    if dropout and train and num_layers > 1:
        raise Unsupported("dropout between layers on a packed sequence: its elements are drawn for the packed rows")
    projected = kind == "lstm" and hx[0].shape[2] != hx[1].shape[2]

    def layer(x: Any, *operands: Any, reverse: bool) -> Any:
        states, weights = operands[: len(hx)], operands[len(hx) :]
        weights += (None,) * ((5 if kind == "lstm" else 4) - len(weights))
        if kind == "lstm":
            return lstm_layer(x, *states, *weights, lengths, reverse=reverse)
        if kind == "gru":
            return gru_layer(x, *states, *weights, lengths, reverse=reverse)
        return rnn_layer(x, *states, *weights, lengths, reverse=reverse, nonlinearity=kind.removeprefix("rnn_"))

    return _stack(
        context,
        layer,
        x,
        hx,
        params,
        has_biases,
        num_layers,
        0.0,
        bidirectional,
        batch_first=False,
        projected=projected,
    )


def _stack(
    context: Context, layer: Any, x: SymbolicTensor, states: list[SymbolicTensor], params: list[SymbolicTensor],
    has_biases: bool,
    num_layers: int, dropout: float, bidirectional: bool, batch_first: bool, projected: bool = False,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """Stacked layers, each in one or two directions, with dropout between them, on (time, batch, features).

    `states` hold (layers * directions, batch, features) each; `params` follow one another per layer and direction.
    Returns the outputs of the last layer and the last states, shaped as `states`.
    """
    directions = 2 if bidirectional else 1
    each = 2 + 2 * has_biases + projected
    final: list[list[SymbolicTensor]] = [[] for _ in states]
    if batch_first:
        x = shaping.transpose(x, permutation=(1, 0, 2))
    for number in range(num_layers):
        outputs = []
        for direction in range(directions):
            i = number * directions + direction
            weights = _weights(params[i * each : (i + 1) * each], has_biases, projected)
            y, *last = layer(x, *(_row(state, i) for state in states), *weights, reverse=direction == 1)
            outputs.append(y)
            for collected, state in zip(final, last, strict=True):
                collected.append(shaping.reshape(state, shape=(1, *state.shape)))
        x = slicing.concat(*outputs, axis=2) if bidirectional else outputs[0]
        if number < num_layers - 1:
            x = apply_dropout(context, x, dropout)
    if batch_first:
        x = shaping.transpose(x, permutation=(1, 0, 2))
    return x, *(rows[0] if len(rows) == 1 else slicing.concat(*rows, axis=0) for rows in final)


def _weights(params: list[SymbolicTensor], has_biases: bool, projected: bool) -> list[Any]:
    """Weights and biases in the order of the op: input, hidden, their biases, projection; None for absent ones."""
    weights: list[Any] = [*params[: 4 if has_biases else 2]]
    if projected:
        weights += [None] * (4 - len(weights)) + [params[-1]]
    return weights


def _row(states: SymbolicTensor, i: int) -> SymbolicTensor:
    """(rows, batch, features) at row i: (batch, features)."""
    row = slicing.slice(states, starts=(i,), stops=(i + 1,), steps=(1,), axes=(0,)) if states.shape[0] != 1 else states
    result: SymbolicTensor = shaping.reshape(row, shape=states.shape[1:])
    return result


def _one_step(x: SymbolicTensor) -> SymbolicTensor:
    """(batch, features) as (1, batch, features)."""
    result: SymbolicTensor = shaping.reshape(x, shape=(1, *x.shape))
    return result
