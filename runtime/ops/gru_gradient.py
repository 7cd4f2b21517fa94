"""The backward recurrence of gated recurrent units."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..traits import Traits
from .float64_forms import Writer
from .recurrent import SECOND_ORDER, batch_last, few_rows_times, run_steps_backward
from .recurrent_onnx import Steps
from .registry import Array, OnnxGraph, Tensor, Type, operator


@operator
def gru_gradient(
    weight_hh: Tensor,
    r: Tensor,
    z: Tensor,
    n: Tensor,
    b_n: Tensor,
    h: Tensor,
    lengths: Tensor | None = None,
    g_ys: Tensor | None = None,
    g_hn: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Backward recurrence of `gru`.

    Args:
        weight_hh: see `gru`.
        r: the gate r of all steps, (time, hidden, batch), from `gru_with_gates`.
        z: the gate z, likewise.
        n: the gate n, likewise.
        b_n: the term b_n of the formula of `gru`, likewise.
        h: the state before each step, likewise.
        lengths: see `gru`.
        g_ys: cotangent of the outputs of all steps, (time, batch, hidden); zeros by default.
        g_hn: cotangent of the last output, (batch, hidden); zeros by default.
        reverse: see `gru`.

    Returns:
        Cotangents of the terms a and b of the formula, each (time, batch, 3 * hidden), and of h0.
    """


gru_gradient.traits = Traits(costly=True, recurrent=True)


@gru_gradient.infer
def _(weight_hh: Type, r: Type, *_: Type | None, reverse: bool) -> tuple[Type, Type, Type]:
    time, hidden, batch = r.shape
    gates = r.with_shape((time, batch, 3 * hidden))
    return gates, gates, r.with_shape((batch, hidden))


@gru_gradient.kernel
def _(weight_hh: Array, *inputs: Any, reverse: bool) -> tuple[Array, Array, Array]:
    *residuals, lengths, g_ys, g_hn = inputs
    r, z, n, b_n, h = map(batch_last, residuals)
    time, batch, hidden = r.shape
    h_to_n = (1 - z) * (1 - n * n)
    # The derivatives of h by b_r, b_z and b_n. Times the cotangent of h, they are the cotangents of b.
    g_from_state = np.stack([h_to_n * b_n * r * (1 - r), (h - n) * z * (1 - z), h_to_n * r], axis=2)

    def step(t: int, g_h: Array) -> tuple[Array]:
        g_from_state[t] *= g_h[:, None]
        h_to_n[t] *= g_h
        return (g_h * z[t] + few_rows_times(g_from_state[t].reshape(batch, len(weight_hh)), weight_hh),)

    (g_h0,) = run_steps_backward(step, r, g_ys, [(g_hn, hidden)], lengths, reverse=reverse)
    g_from_input = g_from_state.copy()
    g_from_input[:, :, 2] = h_to_n
    shape = time, batch, len(weight_hh)
    return g_from_input.reshape(shape), g_from_state.reshape(shape), g_h0


gru_gradient.no_vjp(SECOND_ORDER)


@gru_gradient.onnx
def _(graph: OnnxGraph, weight_hh: str, *operands: str, reverse: bool) -> tuple[str, ...]:
    *residuals, lengths, g_ys, g_hn = operands
    time, hidden, batch = graph.type(residuals[0]).shape
    scan = Steps(graph, graph.type(weight_hh), time, batch, lengths)
    from_gates = scan.transposed(weight_hh)

    def step(w: Writer, g_h: str, *slices: str) -> tuple[tuple[str], tuple[str, ...]]:
        r, z, n, b_n, h = slices
        by_z, not_z = w("Mul", g_h, z), w("Sub", 1.0, z)
        g_n = w("Mul", w("Mul", g_h, not_z), w("Sub", 1.0, w("Mul", n, n)))
        g_b_n = w("Mul", g_n, r)
        g_r = w("Mul", w("Mul", g_b_n, b_n), w("Sub", 1.0, r))
        g_z = w("Mul", w("Mul", by_z, w("Sub", h, n)), not_z)
        rows = tuple(w.graph.op("Concat", g_r, g_z, g, axis=0) for g in (g_n, g_b_n))
        return (w("Add", by_z, from_gates(w, rows[1])),), rows

    pairs = [(tensor, hidden) for tensor in residuals]
    return scan.backward(step, g_ys, [(g_hn, hidden)], pairs, [3 * hidden] * 2, reverse=reverse, name="gru_gradient")
