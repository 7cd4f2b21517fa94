"""Long short-term memory, and its backward recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from .common import in_float32, same_dtype
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
from .recurrent_onnx import Weights, affine, standard_operator, transposed, unrolled
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def lstm(
    x: Tensor,
    h0: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
    weight_hr: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory (Hochreiter and Schmidhuber 1997; Gers et al. 2000). ATen lstm, ONNX LSTM-14.

        i, f, o = sigmoid(a), g = tanh(a), where a = weight_ih x + bias_ih + weight_hh h + bias_hh, in order i, f, g, o
        c' = f * c + i * g,  h' = weight_hr (o * tanh(c')), without weight_hr if there is no projection

    Args:
        x: (time, batch, features), floating-point.
        h0: (batch, outputs); without a projection, outputs = hidden.
        c0: (batch, hidden).
        weight_ih: (4 * hidden, features).
        weight_hh: (4 * hidden, outputs).
        bias_ih: (4 * hidden,).
        bias_hh: (4 * hidden,).
        weight_hr: projection, (outputs, hidden).
        lengths: integers (batch,), the steps of each sequence, all by default; beyond its length, the outputs of a
            sequence are 0 and its state stays.
        reverse: walk from the last step to the first.

    Returns:
        The outputs of all steps (time, batch, outputs), the last output and the last cell state.
    """


@lstm.infer
def _(
    x: Type,
    h0: Type,
    c0: Type,
    weight_ih: Type,
    weight_hh: Type,
    bias_ih: Type | None,
    bias_hh: Type | None,
    weight_hr: Type | None,
    lengths: Type | None,
    *,
    reverse: bool,
) -> tuple[Type, Type, Type]:
    check_operands(4, x, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths)
    same_dtype(x, c0, *([] if weight_hr is None else [weight_hr]))
    hidden = weight_ih.shape[0] // 4
    require(c0.shape == (x.shape[1], hidden), f"needed a cell state {(x.shape[1], hidden)}, given {c0}")
    if weight_hr is None:
        require(h0.shape[1] == hidden, f"needed a state of {hidden} features, given {h0}")
    else:
        require(
            weight_hr.shape == (h0.shape[1], hidden), f"needed weight_hr {(h0.shape[1], hidden)}, given {weight_hr}"
        )
    return x.with_shape((*x.shape[:2], h0.shape[1])), h0, c0


@lstm.kernel
def _(
    x: Array,
    h0: Array,
    c0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    weight_hr: Array | None,
    lengths: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    valid = within(lengths, len(x))
    gates = input_gates(x, weight_ih, bias_ih, bias_hh)
    ys = np.empty((*x.shape[:2], h0.shape[1]), x.dtype)
    h, c = h0, c0
    for t in steps(x, reverse):
        gates[t] += h @ weight_hh.T
        i, f, g, o = activate(gates[t], "ssts")
        c = advanced(valid, t, f * c + i * g, c)
        y = o * np.tanh(c)
        ys[t] = y if weight_hr is None else y @ weight_hr.T
        h = advanced(valid, t, ys[t], h)
    return kept(valid, ys), h, c


@lstm.vjp
@in_float32
def _(
    g: tuple[Any, Any, Any],
    y: tuple[Any, Any, Any],
    x: Any,
    h0: Any,
    c0: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    weight_hr: Any,
    lengths: Any,
    *,
    reverse: bool,
) -> tuple[Tensor | None, ...]:
    previous = previous_outputs(y[0], h0, lengths, reverse)
    g_gates, g_h0, g_c0, *g_weight_hr = lstm_gradient(
        x, previous, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, lengths, *g, reverse=reverse
    )
    gx, *g_parameters = operand_gradients(g_gates, g_gates, x, previous, weight_ih, bias_ih, bias_hh)
    return gx, g_h0, g_c0, *g_parameters, g_weight_hr[0] if g_weight_hr else None, None


@lstm.onnx
def _(graph: OnnxGraph, x: str, h0: str, c0: str, *weights: str, reverse: bool) -> tuple[str, ...]:
    *others, weight_hr, lengths = weights
    operands = Weights(*others)
    if not weight_hr and graph.type(x).dtype != FLOAT64:
        return standard_operator(graph, "LSTM", "iofg", "ifgo", x, (h0, c0), operands, lengths, reverse)

    projection = transposed(graph, weight_hr) if weight_hr else ""

    def step(from_input: str, from_state: str, h: str, c: str) -> tuple[str, str]:
        gates = graph.op("Add", from_input, from_state)
        i, f, g, o = graph.op("Split", gates, outputs=4, axis=-1, num_outputs=4)
        i, f, o = (graph.op("Sigmoid", gate) for gate in (i, f, o))
        kept, added = graph.op("Mul", f, c), graph.op("Mul", i, graph.op("Tanh", g))
        c = graph.op("Add", kept, added)
        h = graph.op("Mul", o, graph.op("Tanh", c))
        return (affine(graph, h, projection) if projection else h), c

    return unrolled(graph, step, x, (h0, c0), operands, lengths, reverse)


@operator
def lstm_gradient(
    x: Tensor,
    previous: Tensor,
    c0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
    weight_hr: Tensor | None = None,
    lengths: Tensor | None = None,
    g_ys: Tensor | None = None,
    g_hn: Tensor | None = None,
    g_cn: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """Backward recurrence of `lstm`.

    Args:
        x: as given to `lstm`, like all that isn't described here.
        previous: the output before each step, (time, batch, outputs).
        c0: see `lstm`.
        weight_ih: see `lstm`.
        weight_hh: see `lstm`.
        bias_ih: see `lstm`.
        bias_hh: see `lstm`.
        weight_hr: see `lstm`.
        lengths: see `lstm`.
        g_ys: cotangent of the outputs of all steps.
        g_hn: cotangent of the last output.
        g_cn: cotangent of the last cell state.
        reverse: see `lstm`.

    Returns:
        Cotangents of the gates (time, batch, 4 * hidden), of h0, of c0 and, if it is given, of weight_hr.
    """


@lstm_gradient.infer
def _(
    x: Type,
    previous: Type,
    c0: Type,
    weight_ih: Type,
    weight_hh: Type,
    bias_ih: Type | None,
    bias_hh: Type | None,
    weight_hr: Type | None,
    *_: Type | None,
    reverse: bool,
) -> tuple[Type, ...]:
    gates = x.with_shape((*x.shape[:2], weight_ih.shape[0]))
    return gates, previous.with_shape(previous.shape[1:]), c0, *([] if weight_hr is None else [weight_hr])


@lstm_gradient.kernel
def _(
    x: Array,
    previous: Array,
    c0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    weight_hr: Array | None,
    lengths: Array | None,
    g_ys: Array | None,
    g_hn: Array | None,
    g_cn: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, ...]:
    valid = within(lengths, len(x))
    i, f, g, o = activate(input_gates(x, weight_ih, bias_ih, bias_hh) + previous @ weight_hh.T, "ssts")
    before, after = np.empty(i.shape, x.dtype), np.empty(i.shape, x.dtype)  # cell states
    c = c0
    for t in steps(x, reverse):
        before[t] = c
        after[t] = f[t] * c + i[t] * g[t]
        c = advanced(valid, t, after[t], c)
    squashed = np.tanh(after)
    h_to_c = o * (1 - squashed * squashed)
    # Derivatives of c by the gates i, f, g and of h by o; times the cotangents of c and h, those of the gates.
    g_gates = np.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)], axis=2)
    h = o * squashed if weight_hr is not None else None
    g_ys = kept(valid, g_ys)
    g_h = np.zeros_like(previous[0]) if g_hn is None else g_hn
    g_c = np.zeros_like(c0) if g_cn is None else g_cn
    g_weight_hr = None if weight_hr is None else np.zeros_like(weight_hr)
    for t in reversed(steps(x, reverse)):
        if g_ys is not None:
            g_h = g_h + g_ys[t]
        (g_h, h_passes), (g_c, c_passes) = passing(valid, t, g_h), passing(valid, t, g_c)
        if weight_hr is not None and h is not None and g_weight_hr is not None:
            g_weight_hr += g_h.T @ h[t]
            g_h = g_h @ weight_hr
        g_c = g_c + g_h * h_to_c[t]
        g_gates[t, :, :3] *= g_c[:, None]
        g_gates[t, :, 3] *= g_h
        g_c = g_c * f[t] + c_passes
        g_h = g_gates[t].reshape(len(c0), -1) @ weight_hh + h_passes
    flat = g_gates.reshape(*x.shape[:2], -1)
    return (flat, g_h, g_c) if g_weight_hr is None else (flat, g_h, g_c, g_weight_hr)


lstm_gradient.no_vjp(SECOND_ORDER)
lstm_gradient.no_onnx(NO_OPERATOR)
