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
    few_rows_times,
    run_steps_backward,
)
from .recurrent_layer import Layer, Operands, Step
from .recurrent_onnx import Steps, WeightNames, batch_last, standard_operator
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


def _step(operands: Operands, nonlinearity: str) -> Step:
    from_state = operands.weight_hh.T

    def step(gates: Array, h: Array) -> tuple[tuple[Array], tuple[()]]:
        gates += few_rows_times(h, from_state)
        return (np.tanh(gates) if nonlinearity == "tanh" else np.maximum(gates, 0),), ()

    return step


def _onnx_step(_: Steps, operands: Operands, nonlinearity: str) -> Step:
    def step(w: Writer, from_input: str, h: str) -> tuple[tuple[str], tuple[()]]:
        return (w(nonlinearity.capitalize(), w("Add", w("MatMul", operands.weight_hh, h), from_input)),), ()

    return step


RNN = Layer("rnn", 1, _step, _onnx_step)


@rnn.infer
def _(*operands: Type | None, reverse: bool, nonlinearity: str) -> tuple[Type, ...]:
    require(nonlinearity in ("tanh", "relu"), f'needed the nonlinearity "tanh" or "relu", given {nonlinearity!r}')
    return RNN.infer(*operands)


rnn.kernel(RNN.run)


@rnn.vjp
@in_float32
def _(g: tuple[Any, ...], y: tuple[Any, ...], *inputs: Any, **attributes: Any) -> tuple[Any, ...]:
    operands = RNN.operands(inputs)
    g_gates, g_h0 = rnn_gradient(y[0], operands.weight_hh, operands.lengths, *g, **attributes)
    return *RNN.gradients(operands, y[0], (g_gates, g_gates), [g_h0], reverse=attributes["reverse"]), None


@rnn.onnx
def _(graph: OnnxGraph, x: str, h0: str, *weights: str, reverse: bool, nonlinearity: str) -> tuple[str, ...]:
    if graph.type(x).dtype == FLOAT64:  # ONNX Runtime's RNN has no float64 kernel
        return RNN.write(graph, x, h0, *weights, reverse=reverse, nonlinearity=nonlinearity)
    *others, lengths = weights
    function = [nonlinearity.capitalize()]
    return standard_operator(
        graph, "RNN", "h", "h", x, (h0,), WeightNames(*others), lengths, reverse, activations=function
    )


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
    ys: Array, weight_hh: Array, lengths: Array | None, *g: Array | None, reverse: bool, nonlinearity: str
) -> tuple[Array, Array]:
    g_ys, g_hn = g
    g_gates = 1 - ys * ys if nonlinearity == "tanh" else (ys > 0).astype(ys.dtype)

    def step(t: int, g_h: Array) -> tuple[Array]:
        g_gates[t] *= g_h
        return (few_rows_times(g_gates[t], weight_hh),)

    (g_h0,) = run_steps_backward(step, ys, g_ys, [(g_hn, ys.shape[2])], lengths, reverse=reverse)
    return g_gates, g_h0


rnn_gradient.no_vjp(SECOND_ORDER)


@rnn_gradient.onnx
def _(
    graph: OnnxGraph, ys: str, weight_hh: str, lengths: str, g_ys: str, g_hn: str, *, reverse: bool, nonlinearity: str
) -> tuple[str, ...]:
    time, batch, hidden = graph.type(ys).shape
    scan = Steps(graph, graph.type(ys), time, batch, lengths)
    from_gates = scan.transposed(weight_hh)

    def step(w: Writer, g_h: str, y: str) -> tuple[tuple[str], tuple[str]]:
        if nonlinearity == "tanh":
            gates = w("Mul", g_h, w("Sub", 1.0, w("Mul", y, y)))
        else:
            gates = w("Where", w("Greater", y, 0.0), g_h, 0.0)
        return (from_gates(w, gates),), (gates,)

    residuals = [(batch_last(graph, ys), hidden)]
    return scan.backward(step, g_ys, [(g_hn, hidden)], residuals, [hidden], reverse=reverse, name="rnn_gradient")
