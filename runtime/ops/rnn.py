"""Elman networks, and their backward recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from .common import in_float32
from .float64_forms import Writer
from .recurrent import (
    SECOND_ORDER,
    check_operands,
    few_rows_times,
    input_gates,
    operand_gradients,
    previous_outputs,
    run_steps,
    run_steps_backward,
)
from .recurrent_onnx import Steps, WeightNames, batch_last, standard_operator, transpose
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def rnn(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Tensor, Tensor]:
    """Elman network: `h' = f(weight_ih x + bias_ih + weight_hh h + bias_hh)`. ATen rnn_tanh and rnn_relu, ONNX RNN-14.

    Args:
        x: (time, batch, features), floating-point.
        h0: (batch, hidden).
        weight_ih: (hidden, features).
        weight_hh: (hidden, hidden).
        bias_ih: (hidden,).
        bias_hh: (hidden,).
        lengths: integers (batch,), the number of steps of each sequence, all by default; beyond it, the outputs of a
            sequence are 0 and its state doesn't change.
        reverse: run from the last step to the first.
        nonlinearity: the function f, "tanh" or "relu".

    Returns:
        The outputs of all steps (time, batch, hidden) and the last one.
    """


rnn.traits = Traits(costly=True, recurrent=True)


@rnn.infer
def _(
    x: Type, h0: Type, weight_ih: Type, weight_hh: Type, *others: Type | None, reverse: bool, nonlinearity: str
) -> tuple[Type, Type]:
    require(nonlinearity in ("tanh", "relu"), f'needed the nonlinearity "tanh" or "relu", given {nonlinearity!r}')
    check_operands(1, x, h0, weight_ih, weight_hh, *others)
    return x.with_shape((*x.shape[:2], h0.shape[1])), h0


@rnn.kernel
def _(
    x: Array,
    h0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    lengths: Array | None,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Array, Array]:
    gates = input_gates(x, weight_ih, bias_ih, bias_hh)

    def step(t: int, h: Array) -> tuple[Array]:
        gates[t] += few_rows_times(h, weight_hh.T)
        return (np.tanh(gates[t]) if nonlinearity == "tanh" else np.maximum(gates[t], 0),)

    ys, h = run_steps(step, x, (h0,), lengths, reverse=reverse)
    return ys, h


@rnn.vjp
@in_float32
def _(
    g: tuple[Any, Any],
    y: tuple[Any, Any],
    x: Any,
    h0: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    lengths: Any,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Tensor | None, ...]:
    g_gates, g_h0 = rnn_gradient(y[0], weight_hh, lengths, *g, reverse=reverse, nonlinearity=nonlinearity)
    previous = previous_outputs(y[0], h0, lengths, reverse)
    gx, *g_parameters = operand_gradients(g_gates, g_gates, x, previous, weight_ih, bias_ih, bias_hh)
    return gx, g_h0, *g_parameters, None


@rnn.onnx
def _(graph: OnnxGraph, x: str, h0: str, *weights: str, reverse: bool, nonlinearity: str) -> tuple[str, ...]:
    if graph.type(x).dtype == FLOAT64:  # ONNX Runtime's RNN has no float64 kernel
        return _write_scan(graph, x, h0, *weights, reverse=reverse, nonlinearity=nonlinearity)
    *others, lengths = weights
    function = [nonlinearity.capitalize()]
    return standard_operator(
        graph, "RNN", "h", "h", x, (h0,), WeightNames(*others), lengths, reverse, activations=function
    )


def _write_scan(
    graph: OnnxGraph,
    x: str,
    h0: str,
    weight_ih: str,
    weight_hh: str,
    bias_ih: str,
    bias_hh: str,
    lengths: str,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[str, ...]:
    time, batch, _ = graph.type(x).shape
    scan = Steps(graph, graph.type(x), time, batch, lengths)
    bias = scan.bias(bias_ih, bias_hh)

    def step(w: Writer, from_input: str, h: str) -> tuple[tuple[str], tuple[()]]:
        from_input = w("Add", from_input, bias) if bias else from_input
        return (w(nonlinearity.capitalize(), w("Add", w("MatMul", weight_hh, h), from_input)),), ()

    return scan.forward(step, x, weight_ih, [h0], reverse=reverse, name="rnn")


@operator
def rnn_gradient(
    ys: Tensor,
    weight_hh: Tensor,
    lengths: Tensor | None = None,
    g_ys: Tensor | None = None,
    g_hn: Tensor | None = None,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Tensor, Tensor]:
    """Backward recurrence of `rnn`.

    Args:
        ys: the outputs of all steps, (time, batch, hidden).
        weight_hh: see `rnn`.
        lengths: see `rnn`.
        g_ys: cotangent of the outputs of all steps, (time, batch, hidden); zeros by default.
        g_hn: cotangent of the last output, (batch, hidden); zeros by default.
        reverse: see `rnn`.
        nonlinearity: see `rnn`.

    Returns:
        Cotangents of the argument of the nonlinearity, (time, batch, hidden), and of h0.
    """


rnn_gradient.traits = Traits(costly=True, recurrent=True)


@rnn_gradient.infer
def _(ys: Type, weight_hh: Type, *_: Type | None, reverse: bool, nonlinearity: str) -> tuple[Type, Type]:
    return ys, ys.with_shape(ys.shape[1:])


@rnn_gradient.kernel
def _(
    ys: Array,
    weight_hh: Array,
    lengths: Array | None,
    g_ys: Array | None,
    g_hn: Array | None,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Array, Array]:
    g_gates = 1 - ys * ys if nonlinearity == "tanh" else (ys > 0).astype(ys.dtype)

    def step(t: int, g_h: Array) -> tuple[Array]:
        g_gates[t] *= g_h
        return (few_rows_times(g_gates[t], weight_hh),)

    last = np.zeros(ys.shape[1:], ys.dtype) if g_hn is None else g_hn
    (g_h0,) = run_steps_backward(step, len(ys), g_ys, (last,), lengths, reverse=reverse)
    return g_gates, g_h0


rnn_gradient.no_vjp(SECOND_ORDER)


@rnn_gradient.onnx
def _(
    graph: OnnxGraph, ys: str, weight_hh: str, lengths: str, g_ys: str, g_hn: str, *, reverse: bool, nonlinearity: str
) -> tuple[str, ...]:
    time, batch, hidden = graph.type(ys).shape
    scan = Steps(graph, graph.type(ys), time, batch, lengths)
    recurrent = transpose(graph, weight_hh)

    def step(w: Writer, g_h: str, y: str) -> tuple[tuple[str], tuple[str]]:
        if nonlinearity == "tanh":
            gates = w("Mul", g_h, w("Sub", 1.0, w("Mul", y, y)))
        else:
            gates = w("Where", w("Greater", y, 0.0), g_h, 0.0)
        return (w("MatMul", recurrent, gates),), (gates,)

    residuals = [(batch_last(graph, ys), hidden)]
    return scan.backward(step, g_ys, [(g_hn, hidden)], residuals, [hidden], reverse=reverse, name="rnn_gradient")
