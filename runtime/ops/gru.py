"""Gated recurrent units, and their backward recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from .common import in_float32
from .recurrent import (
    NO_OPERATOR,
    SECOND_ORDER,
    activate,
    advanced,
    check_operands,
    input_gates,
    kept,
    operand_gradients,
    passing,
    previous_outputs,
    steps,
    within,
)
from .recurrent_onnx import Weights, standard_operator, unrolled
from .registry import Array, OnnxGraph, Tensor, Type, operator


@operator
def gru(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    """Gated recurrent unit (Cho et al. 2014), reset after the product. ATen gru, ONNX GRU-14 with linear_before_reset.

        a = weight_ih x + bias_ih and b = weight_hh h + bias_hh, each in order r, z, n
        r = sigmoid(a_r + b_r), z = sigmoid(a_z + b_z), n = tanh(a_n + r * b_n),  h' = (1 - z) * n + z * h

    Args:
        x: (time, batch, features), floating-point.
        h0: (batch, hidden).
        weight_ih: (3 * hidden, features).
        weight_hh: (3 * hidden, hidden).
        bias_ih: (3 * hidden,).
        bias_hh: (3 * hidden,).
        lengths: integers (batch,), the steps of each sequence, all by default; beyond its length, the outputs of a
            sequence are 0 and its state stays.
        reverse: walk from the last step to the first.

    Returns:
        The outputs of all steps (time, batch, hidden) and the last one.
    """


@gru.infer
def _(x: Type, h0: Type, weight_ih: Type, weight_hh: Type, *others: Type | None, reverse: bool) -> tuple[Type, Type]:
    check_operands(3, x, h0, weight_ih, weight_hh, *others)
    return x.with_shape((*x.shape[:2], h0.shape[1])), h0


@gru.kernel
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
) -> tuple[Array, Array]:
    hidden, valid = h0.shape[1], within(lengths, len(x))
    gates = input_gates(x, weight_ih, bias_ih, None)
    ys = np.empty((*x.shape[:2], hidden), x.dtype)
    h = h0
    for t in steps(x, reverse):
        from_state = h @ weight_hh.T
        if bias_hh is not None:
            from_state += bias_hh
        gates[t, :, : 2 * hidden] += from_state[:, : 2 * hidden]
        r, z = activate(gates[t, :, : 2 * hidden], "ss")
        n = np.tanh(gates[t, :, 2 * hidden :] + r * from_state[:, 2 * hidden :])
        ys[t] = (1 - z) * n + z * h
        h = advanced(valid, t, ys[t], h)
    return kept(valid, ys), h


@gru.vjp
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
) -> tuple[Tensor | None, ...]:
    previous = previous_outputs(y[0], h0, lengths, reverse)
    g_from_input, g_from_state, g_h0 = gru_gradient(
        x, previous, weight_ih, weight_hh, bias_ih, bias_hh, lengths, *g, reverse=reverse
    )
    gx, *g_parameters = operand_gradients(g_from_input, g_from_state, x, previous, weight_ih, bias_ih, bias_hh)
    return gx, g_h0, *g_parameters, None


@gru.onnx
def _(graph: OnnxGraph, x: str, h0: str, *weights: str, reverse: bool) -> tuple[str, ...]:
    *others, lengths = weights
    operands = Weights(*others)
    if graph.type(x).dtype != FLOAT64:
        return standard_operator(
            graph, "GRU", "zrn", "rzn", x, (h0,), operands, lengths, reverse, linear_before_reset=1
        )

    def step(from_input: str, from_state: str, h: str) -> tuple[str]:
        (input_r, input_z, input_n), (state_r, state_z, state_n) = (
            graph.op("Split", gates, outputs=3, axis=-1, num_outputs=3) for gates in (from_input, from_state)
        )
        r = graph.op("Sigmoid", graph.op("Add", input_r, state_r))
        z = graph.op("Sigmoid", graph.op("Add", input_z, state_z))
        n = graph.op("Tanh", graph.op("Add", input_n, graph.op("Mul", r, state_n)))
        return (graph.op("Add", n, graph.op("Mul", z, graph.op("Sub", h, n))),)

    return unrolled(graph, step, x, (h0,), operands, lengths, reverse)


@operator
def gru_gradient(
    x: Tensor,
    previous: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
    lengths: Tensor | None = None,
    g_ys: Tensor | None = None,
    g_hn: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Backward recurrence of `gru`.

    Args:
        x: as given to `gru`, like all that isn't described here.
        previous: the output before each step, (time, batch, hidden).
        weight_ih: see `gru`.
        weight_hh: see `gru`.
        bias_ih: see `gru`.
        bias_hh: see `gru`.
        lengths: see `gru`.
        g_ys: cotangent of the outputs of all steps.
        g_hn: cotangent of the last output.
        reverse: see `gru`.

    Returns:
        Cotangents of what the gates get from the input and from the state (time, batch, 3 * hidden), and of h0.
    """


@gru_gradient.infer
def _(x: Type, previous: Type, weight_ih: Type, *_: Type | None, reverse: bool) -> tuple[Type, Type, Type]:
    gates = x.with_shape((*x.shape[:2], weight_ih.shape[0]))
    return gates, gates, previous.with_shape(previous.shape[1:])


@gru_gradient.kernel
def _(
    x: Array,
    previous: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    lengths: Array | None,
    g_ys: Array | None,
    g_hn: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    time, batch, hidden = previous.shape
    valid = within(lengths, time)
    from_input = input_gates(x, weight_ih, bias_ih, None)
    from_state = input_gates(previous, weight_hh, bias_hh, None)
    r, z = activate(from_input[..., : 2 * hidden] + from_state[..., : 2 * hidden], "ss")
    state_n = from_state[..., 2 * hidden :]
    n = np.tanh(from_input[..., 2 * hidden :] + r * state_n)
    h_to_n = (1 - z) * (1 - n * n)
    # Derivatives of h by what r, z, n get from the state; times the cotangent of h, theirs.
    g_from_state = np.stack([h_to_n * state_n * r * (1 - r), (previous - n) * z * (1 - z), h_to_n * r], axis=2)
    g_ys = kept(valid, g_ys)
    g_h = np.zeros_like(previous[0]) if g_hn is None else g_hn
    for t in reversed(steps(x, reverse)):
        if g_ys is not None:
            g_h = g_h + g_ys[t]
        g_h, passes = passing(valid, t, g_h)
        g_from_state[t] *= g_h[:, None]
        h_to_n[t] *= g_h
        g_h = g_h * z[t] + g_from_state[t].reshape(batch, -1) @ weight_hh + passes
    g_from_input = g_from_state.copy()
    g_from_input[:, :, 2] = h_to_n
    return g_from_input.reshape(time, batch, -1), g_from_state.reshape(time, batch, -1), g_h


gru_gradient.no_vjp(SECOND_ORDER)
gru_gradient.no_onnx(NO_OPERATOR)
