"""ATen recurrent layers and cells, in terms of one layer in one direction."""

from __future__ import annotations

from typing import Any

from ....runtime.ops import shaping
from ....runtime.ops.recurrent_stack import Weights, run_layers, run_step
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .random import dropout as apply_dropout
from .table import Context, aten


@aten("aten.lstm.input")
def lstm(
    context: Context, input: SymbolicTensor, hx: list[SymbolicTensor], params: list[SymbolicTensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool
    train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)
    """
    drop = dropout if train else 0.0
    return _layers(context, "lstm", input, hx, params, has_biases, bidirectional, batch_first, drop)


@aten("aten.lstm_cell.default")
def lstm_cell(
    context: Context, input: SymbolicTensor, hx: list[SymbolicTensor], w_ih: SymbolicTensor, w_hh: SymbolicTensor,
    b_ih: Any = None, b_hh: Any = None,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor,
    Tensor)
    """
    return run_step("lstm", input, hx, Weights(w_ih, w_hh, b_ih, b_hh))


def _register(kind: str) -> None:
    """Register a layer with one state, and its cell."""

    def layer(
        context: Context, input: SymbolicTensor, hx: SymbolicTensor, params: list[SymbolicTensor], has_biases: bool,
        num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[SymbolicTensor, ...]:  # fmt: skip
        drop = dropout if train else 0.0
        return _layers(context, kind, input, [hx], params, has_biases, bidirectional, batch_first, drop)

    def cell(
        context: Context, input: SymbolicTensor, hx: SymbolicTensor, w_ih: SymbolicTensor, w_hh: SymbolicTensor,
        b_ih: Any = None, b_hh: Any = None,
    ) -> Any:  # fmt: skip
        return run_step(kind, input, [hx], Weights(w_ih, w_hh, b_ih, b_hh))[0]

    layer.__doc__ = f"""{kind}.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers,
    float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)
    """
    cell.__doc__ = f"""{kind}_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None,
    Tensor? b_hh=None) -> Tensor
    """
    aten(f"aten.{kind}.input")(layer)
    aten(f"aten.{kind}_cell.default")(cell)


for _kind in ("gru", "rnn_tanh", "rnn_relu"):
    _register(_kind)


@aten("cellbridge.recurrent.default")
def with_lengths(
    context: Context, x: SymbolicTensor, lengths: SymbolicTensor, hx: list[SymbolicTensor],
    params: list[SymbolicTensor], kind: str, has_biases: bool, num_layers: int, dropout: float, train: bool,
    bidirectional: bool,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """cellbridge::recurrent, layers on a packed sequence: see `packed_sequences`."""
    if dropout and train and num_layers > 1:
        raise Unsupported("dropout between layers on a packed sequence: its elements are drawn for the packed rows")
    return _layers(context, kind, x, hx, params, has_biases, bidirectional, lengths=lengths)


def _layers(
    context: Context, kind: str, x: SymbolicTensor, states: list[SymbolicTensor], params: list[SymbolicTensor],
    has_biases: bool, bidirectional: bool, batch_first: bool = False, dropout: float = 0.0, lengths: Any = None,
) -> tuple[SymbolicTensor, ...]:  # fmt: skip
    """Stacked layers, each in one or two directions, with dropout between them.

    `params` follow one another per layer and direction: weights, biases if there are any, and the projection of an
    LSTM whose hidden state is narrower than its cell state.
    """
    projected = len(states) == 2 and states[0].shape[2] != states[1].shape[2]
    each, directions = 2 + 2 * has_biases + projected, 1 + bidirectional
    weights = [
        Weights(
            params[i],
            params[i + 1],
            params[i + 2] if has_biases else None,
            params[i + 3] if has_biases else None,
            params[i + each - 1] if projected else None,
        )
        for i in range(0, len(params), each)
    ]
    layers = [weights[i : i + directions] for i in range(0, len(weights), directions)]
    if batch_first:
        x = shaping.transpose(x, permutation=(1, 0, 2))
    y, *last = run_layers(
        kind, x, states, layers, lengths=lengths, between=lambda y: apply_dropout(context, y, dropout)
    )
    return shaping.transpose(y, permutation=(1, 0, 2)) if batch_first else y, *last
