"""Recurrent networks."""

from __future__ import annotations

from typing import Any

from ..calls import recurrence
from .table import Context, no_torch_form, torch_form


@torch_form("lstm")
def _(context: Context, x: Any, h0: Any, c0: Any, *others: Any, reverse: bool) -> Any:
    *weights, lengths = others
    result = context.call(recurrence.lstm, x, h0, c0, *weights, lengths, reverse=reverse)
    return result[0], result[1], result[2]


@torch_form("gru")
def _(context: Context, x: Any, h0: Any, *others: Any, reverse: bool) -> Any:
    *weights, lengths = others
    result = context.call(recurrence.gru, x, h0, *weights, lengths, reverse=reverse)
    return result[0], result[1]


@torch_form("rnn")
def _(context: Context, x: Any, h0: Any, *others: Any, reverse: bool, nonlinearity: str) -> Any:
    *weights, lengths = others
    function = recurrence.rnn_tanh if nonlinearity == "tanh" else recurrence.rnn_relu
    result = context.call(function, x, h0, *weights, lengths, reverse=reverse)
    return result[0], result[1]


for _op in ("lstm_gradient", "gru_gradient", "rnn_gradient"):
    no_torch_form(_op, "torch returns the gradients of the operands, not the cotangents of the gates")
for _op in ("lstm_with_gates", "gru_with_gates"):
    no_torch_form(_op, "torch's recurrent layers don't return the gates of their steps")
