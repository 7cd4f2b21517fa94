"""The backward recurrence of gated recurrent units."""

from __future__ import annotations

import numpy as np

from .float64_forms import Writer
from .recurrent import SECOND_ORDER, columnwise, walk_back
from .recurrent_onnx import Steps
from .registry import Array, OnnxGraph, Tensor, Type, operator


@operator
def gru_gradient(
    weight_hh: Tensor,
    r: Tensor,
    z: Tensor,
    n: Tensor,
    state_n: Tensor,
    before: Tensor,
    lengths: Tensor | None = None,
    g_ys: Tensor | None = None,
    g_hn: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Backward recurrence of `gru`.

    Args:
        weight_hh: as given to `gru`.
        r: of all steps, (time, hidden, batch), as `gru_with_gates` gives it.
        z: likewise.
        n: likewise.
        state_n: what n gets from the state, likewise.
        before: the state before each step, likewise.
        lengths: as given to `gru`.
        g_ys: cotangent of the outputs of all steps.
        g_hn: cotangent of the last output.
        reverse: as given to `gru`.

    Returns:
        Cotangents of what the gates get from the input and from the state (time, batch, 3 * hidden), and of h0.
    """


@gru_gradient.infer
def _(weight_hh: Type, r: Type, *_: Type | None, reverse: bool) -> tuple[Type, Type, Type]:
    time, hidden, batch = r.shape
    gates = r.with_shape((time, batch, 3 * hidden))
    return gates, gates, r.with_shape((batch, hidden))


@gru_gradient.kernel
def _(
    weight_hh: Array,
    r: Array,
    z: Array,
    n: Array,
    state_n: Array,
    before: Array,
    lengths: Array | None,
    g_ys: Array | None,
    g_hn: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    r, z, n, state_n, before = map(columnwise, (r, z, n, state_n, before))
    time, batch, hidden = r.shape
    h_to_n = (1 - z) * (1 - n * n)
    # Derivatives of h by what r, z, n get from the state; times the cotangent of h, theirs.
    g_from_state = np.stack([h_to_n * state_n * r * (1 - r), (before - n) * z * (1 - z), h_to_n * r], axis=2)

    def step(t: int, g_h: Array) -> tuple[Array]:
        g_from_state[t] *= g_h[:, None]
        h_to_n[t] *= g_h
        return (g_h * z[t] + g_from_state[t].reshape(batch, len(weight_hh)) @ weight_hh,)

    last = np.zeros((batch, hidden), r.dtype) if g_hn is None else g_hn
    (g_h0,) = walk_back(step, time, g_ys, (last,), lengths, reverse=reverse)
    g_from_input = g_from_state.copy()
    g_from_input[:, :, 2] = h_to_n
    shape = time, batch, len(weight_hh)
    return g_from_input.reshape(shape), g_from_state.reshape(shape), g_h0


gru_gradient.no_vjp(SECOND_ORDER)


@gru_gradient.onnx
def _(graph: OnnxGraph, weight_hh: str, *operands: str, reverse: bool) -> tuple[str, ...]:
    *of_steps, lengths, g_ys, g_hn = operands
    time, hidden, batch = graph.type(of_steps[0]).shape
    scan = Steps(graph, graph.type(weight_hh), time, batch, lengths)
    recurrent, below = scan.apart(weight_hh)

    def step(w: Writer, g_h: str, *slices: str) -> tuple[tuple[str], tuple[str, ...]]:
        r, z, n, state_n, before = slices
        by_z, not_z = w("Mul", g_h, z), w("Sub", 1.0, z)
        g_n = w("Mul", w("Mul", g_h, not_z), w("Sub", 1.0, w("Mul", n, n)))
        g_state_n = w("Mul", g_n, r)
        g_r = w("Mul", w("Mul", g_state_n, state_n), w("Sub", 1.0, r))
        g_z = w("Mul", w("Mul", by_z, w("Sub", before, n)), not_z)
        rows = tuple(w.graph.op("Concat", g_r, g_z, g, axis=0) for g in (g_n, g_state_n))
        column = w.graph.op("Concat", rows[1], below, axis=0) if below else rows[1]
        return (w("Add", by_z, w("MatMul", recurrent, column)),), rows

    slices = [(tensor, hidden) for tensor in of_steps]
    return scan.backward(step, g_ys, [(g_hn, hidden)], slices, [3 * hidden] * 2, reverse=reverse, name="gru_gradient")
