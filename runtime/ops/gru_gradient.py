"""The backward recurrence of gated recurrent units."""

from __future__ import annotations

import numpy as np

from .float64_forms import Writer
from .recurrent import SECOND_ORDER, columnwise, kept, passing, steps, within
from .recurrent_onnx import Steps, batch_last, transposed
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
    valid = within(lengths, time)
    h_to_n = (1 - z) * (1 - n * n)
    # Derivatives of h by what r, z, n get from the state; times the cotangent of h, theirs.
    g_from_state = np.stack([h_to_n * state_n * r * (1 - r), (before - n) * z * (1 - z), h_to_n * r], axis=2)
    g_ys = kept(valid, g_ys)
    g_h = np.zeros((batch, hidden), r.dtype) if g_hn is None else g_hn
    for t in reversed(steps(r, reverse)):
        g_h, passes = passing(valid, t, g_h)
        if g_ys is not None:
            g_h = g_h + g_ys[t]
        g_from_state[t] *= g_h[:, None]
        h_to_n[t] *= g_h
        g_h = g_h * z[t] + g_from_state[t].reshape(batch, len(weight_hh)) @ weight_hh + passes
    g_from_input = g_from_state.copy()
    g_from_input[:, :, 2] = h_to_n
    shape = time, batch, len(weight_hh)
    return g_from_input.reshape(shape), g_from_state.reshape(shape), g_h


gru_gradient.no_vjp(SECOND_ORDER)


@gru_gradient.onnx
def _(graph: OnnxGraph, weight_hh: str, *operands: str, reverse: bool) -> tuple[str, ...]:
    *of_steps, lengths, g_ys, g_hn = operands
    time, hidden, batch = graph.type(of_steps[0]).shape
    walk = Steps(graph, graph.type(weight_hh), time, batch, lengths)
    recurrent, below = walk.apart(weight_hh)

    def step(w: Writer, valid: str, g_h: str, *slices: str) -> tuple[tuple[str], tuple[str, str]]:
        r, z, n, state_n, before, *output_cotangents = slices
        of_step = w("Add", g_h, output_cotangents[0]) if output_cotangents else g_h
        of_step = w("Where", valid, of_step, 0.0) if valid else of_step
        by_z, not_z = w("Mul", of_step, z), w("Sub", 1.0, z)
        g_n = w("Mul", w("Mul", of_step, not_z), w("Sub", 1.0, w("Mul", n, n)))
        g_state_n = w("Mul", g_n, r)
        g_r = w("Mul", w("Mul", g_state_n, state_n), w("Sub", 1.0, r))
        g_z = w("Mul", w("Mul", by_z, w("Sub", before, n)), not_z)
        rows = tuple(w.graph.op("Concat", g_r, g_z, g, axis=0) for g in (g_n, g_state_n))
        column = w.graph.op("Concat", rows[1], below, axis=0) if below else rows[1]
        new = w("Add", by_z, w("MatMul", recurrent, column))
        return (w("Where", valid, new, g_h) if valid else new,), rows

    slices = [(tensor, hidden) for tensor in of_steps]
    if g_ys:
        slices.append((batch_last(graph, g_ys), hidden))
    g_h, g_from_input, g_from_state = walk.walk(
        step,
        [(transposed(graph, g_hn) if g_hn else walk.zeros(hidden), hidden)],
        slices,
        [3 * hidden] * 2,
        reverse=not reverse,
        name="gru_gradient",
    )
    return batch_last(graph, g_from_input), batch_last(graph, g_from_state), transposed(graph, g_h)
