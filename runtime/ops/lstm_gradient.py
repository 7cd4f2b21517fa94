"""The backward recurrence of long short-term memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..traits import Traits
from .float64_forms import Writer
from .recurrent import SECOND_ORDER, batch_last, few_rows_times, run_steps_backward
from .recurrent_onnx import Steps, transpose
from .registry import Array, OnnxGraph, Tensor, Type, operator


@operator
def lstm_gradient(
    weight_hh: Tensor,
    i: Tensor,
    f: Tensor,
    g: Tensor,
    o: Tensor,
    c: Tensor,
    tanh_c: Tensor,
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
        weight_hh: see `lstm`.
        i: the gate i of all steps, (time, hidden, batch), from `lstm_with_gates`.
        f: the gate f, likewise.
        g: the gate g, likewise.
        o: the gate o, likewise.
        c: the cell state before each step, likewise.
        tanh_c: tanh of the cell state after each step, likewise.
        weight_hr: see `lstm`.
        lengths: see `lstm`.
        g_ys: cotangent of the outputs of all steps, (time, batch, outputs); zeros by default.
        g_hn: cotangent of the last output, (batch, outputs); zeros by default.
        g_cn: cotangent of the last cell state, (batch, hidden); zeros by default.
        reverse: see `lstm`.

    Returns:
        Cotangents of the gates before their nonlinearities, (time, batch, 4 * hidden), of h0 and of c0; if there is a
        projection, also that of its results, (time, batch, outputs).
    """


lstm_gradient.traits = Traits(costly=True, recurrent=True)


@lstm_gradient.infer
def _(weight_hh: Type, i: Type, *others: Type | None, reverse: bool) -> tuple[Type, ...]:
    (time, hidden, batch), outputs, weight_hr = i.shape, weight_hh.shape[1], others[5]
    projected = [] if weight_hr is None else [i.with_shape((time, batch, outputs))]
    return i.with_shape((time, batch, 4 * hidden)), *(i.with_shape((batch, n)) for n in (outputs, hidden)), *projected


@lstm_gradient.kernel
def _(weight_hh: Array, *inputs: Any, reverse: bool) -> tuple[Array, ...]:
    *residuals, weight_hr, lengths, g_ys, g_hn, g_cn = inputs
    i, f, g, o, c, tanh_c = map(batch_last, residuals)
    (time, batch, hidden), outputs = i.shape, weight_hh.shape[1]
    h_to_c = o * (1 - tanh_c * tanh_c)
    # The derivatives of c by i, f and g, and of h by o. Times the cotangent of c or h, they are those of the gates.
    g_gates = np.stack([g * i * (1 - i), c * f * (1 - f), i * (1 - g * g), tanh_c * o * (1 - o)], axis=2)
    g_projected = np.empty((time, batch, outputs), i.dtype)

    def step(t: int, g_h: Array, g_c: Array) -> tuple[Array, Array]:
        if weight_hr is not None:
            g_projected[t] = g_h
            g_h = g_h @ weight_hr
        g_c = g_c + g_h * h_to_c[t]
        g_gates[t, :, :3] *= g_c[:, None]
        g_gates[t, :, 3] *= g_h
        return few_rows_times(g_gates[t].reshape(batch, len(weight_hh)), weight_hh), g_c * f[t]

    g_states = run_steps_backward(step, i, g_ys, [(g_hn, outputs), (g_cn, hidden)], lengths, reverse=reverse)
    flat = g_gates.reshape(time, batch, len(weight_hh))
    return flat, *g_states, *([] if weight_hr is None else [g_projected])


lstm_gradient.no_vjp(SECOND_ORDER)


@lstm_gradient.onnx
def _(graph: OnnxGraph, weight_hh: str, *operands: str, reverse: bool) -> tuple[str, ...]:
    *residuals, weight_hr, lengths, g_ys, g_hn, g_cn = operands
    (time, hidden, batch), outputs = graph.type(residuals[0]).shape, graph.type(weight_hh).shape[1]
    scan = Steps(graph, graph.type(weight_hh), time, batch, lengths)
    from_gates = scan.transposed(weight_hh)
    projection = transpose(graph, weight_hr) if weight_hr else ""

    def step(w: Writer, g_h: str, g_c: str, *slices: str) -> tuple[tuple[str, str], tuple[str, ...]]:
        i, f, g, o, c, tanh_c = slices
        g_output = w("MatMul", projection, g_h) if projection else g_h
        by_o = w("Mul", g_output, o)
        g_c = w("Add", g_c, w("Mul", by_o, w("Sub", 1.0, w("Mul", tanh_c, tanh_c))))
        by_i, by_f = w("Mul", g_c, i), w("Mul", g_c, f)
        gates = w.graph.op(
            "Concat",
            w("Mul", w("Mul", by_i, g), w("Sub", 1.0, i)),
            w("Mul", w("Mul", by_f, c), w("Sub", 1.0, f)),
            w("Mul", by_i, w("Sub", 1.0, w("Mul", g, g))),
            w("Mul", w("Mul", by_o, tanh_c), w("Sub", 1.0, o)),
            axis=0,
        )
        return (from_gates(w, gates), by_f), (gates, g_h) if projection else (gates,)

    gates, *projected, g_h0, g_c0 = scan.backward(
        step,
        g_ys,
        [(g_hn, outputs), (g_cn, hidden)],
        [(tensor, hidden) for tensor in residuals],
        [4 * hidden, *([outputs] if projection else [])],
        reverse=reverse,
        name="lstm_gradient",
    )
    return gates, g_h0, g_c0, *projected
