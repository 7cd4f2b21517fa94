"""The backward recurrences of `recurrent`, each an op of its own, and what they share with the forward kernels.

Each walks from the last step to the first and gives the cotangents of the gates (before their nonlinearities) of all
steps, and those of the initial states. Gates are recomputed at once for all steps, since all states are known.
"""

from __future__ import annotations

import numpy as np

from .registry import Array, Tensor, Type, operator

SECOND_ORDER = "second derivatives of recurrent layers are not implemented; a layer written out step by step has them"
NO_OPERATOR = "ONNX has no operator for the backward pass of a recurrent layer; the interpreter computes this gradient"


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
    g_ys: Array | None,
    g_hn: Array | None,
    g_cn: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, ...]:
    i, f, g, o = activate(input_gates(x, weight_ih, bias_ih, bias_hh) + previous @ weight_hh.T, "ssts")
    before, after = np.empty(i.shape, x.dtype), np.empty(i.shape, x.dtype)  # cell states
    c = c0
    for t in steps(x, reverse):
        before[t] = c
        c = after[t] = f[t] * c + i[t] * g[t]
    squashed = np.tanh(after)
    h_to_c = o * (1 - squashed * squashed)
    # Derivatives of c by the gates i, f, g and of h by o; times the cotangents of c and h, those of the gates.
    g_gates = np.stack([g * i * (1 - i), before * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)], axis=2)
    h = o * squashed if weight_hr is not None else None
    g_h = np.zeros_like(previous[0]) if g_hn is None else g_hn
    g_c = np.zeros_like(c0) if g_cn is None else g_cn
    g_weight_hr = None if weight_hr is None else np.zeros_like(weight_hr)
    for t in reversed(steps(x, reverse)):
        if g_ys is not None:
            g_h = g_h + g_ys[t]
        if weight_hr is not None and h is not None and g_weight_hr is not None:
            g_weight_hr += g_h.T @ h[t]
            g_h = g_h @ weight_hr
        g_c = g_c + g_h * h_to_c[t]
        g_gates[t, :, :3] *= g_c[:, None]
        g_gates[t, :, 3] *= g_h
        g_c = g_c * f[t]
        g_h = g_gates[t].reshape(len(c0), -1) @ weight_hh
    flat = g_gates.reshape(*x.shape[:2], -1)
    return (flat, g_h, g_c) if g_weight_hr is None else (flat, g_h, g_c, g_weight_hr)


lstm_gradient.no_vjp(SECOND_ORDER)
lstm_gradient.no_onnx(NO_OPERATOR)


@operator
def gru_gradient(
    x: Tensor,
    previous: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
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
    g_ys: Array | None,
    g_hn: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    time, batch, hidden = previous.shape
    from_input = input_gates(x, weight_ih, bias_ih, None)
    from_state = input_gates(previous, weight_hh, bias_hh, None)
    r, z = activate(from_input[..., : 2 * hidden] + from_state[..., : 2 * hidden], "ss")
    state_n = from_state[..., 2 * hidden :]
    n = np.tanh(from_input[..., 2 * hidden :] + r * state_n)
    h_to_n = (1 - z) * (1 - n * n)
    # Derivatives of h by what r, z, n get from the state; times the cotangent of h, theirs.
    g_from_state = np.stack([h_to_n * state_n * r * (1 - r), (previous - n) * z * (1 - z), h_to_n * r], axis=2)
    g_h = np.zeros_like(previous[0]) if g_hn is None else g_hn
    for t in reversed(steps(x, reverse)):
        if g_ys is not None:
            g_h = g_h + g_ys[t]
        g_from_state[t] *= g_h[:, None]
        h_to_n[t] *= g_h
        g_h = g_h * z[t] + g_from_state[t].reshape(batch, -1) @ weight_hh
    g_from_input = g_from_state.copy()
    g_from_input[:, :, 2] = h_to_n
    return g_from_input.reshape(time, batch, -1), g_from_state.reshape(time, batch, -1), g_h


gru_gradient.no_vjp(SECOND_ORDER)
gru_gradient.no_onnx(NO_OPERATOR)


@operator
def rnn_gradient(
    ys: Tensor,
    weight_hh: Tensor,
    g_ys: Tensor | None = None,
    g_hn: Tensor | None = None,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Tensor, Tensor]:
    """Backward recurrence of `rnn`.

    Args:
        ys: the outputs of all steps.
        weight_hh: as given to `rnn`.
        g_ys: cotangent of the outputs of all steps.
        g_hn: cotangent of the last output.
        reverse: see `rnn`.
        nonlinearity: see `rnn`.

    Returns:
        Cotangents of what the nonlinearity was applied to (time, batch, hidden), and of h0.
    """


@rnn_gradient.infer
def _(ys: Type, weight_hh: Type, *_: Type | None, reverse: bool, nonlinearity: str) -> tuple[Type, Type]:
    return ys, ys.with_shape(ys.shape[1:])


@rnn_gradient.kernel
def _(
    ys: Array, weight_hh: Array, g_ys: Array | None, g_hn: Array | None, *, reverse: bool, nonlinearity: str
) -> tuple[Array, Array]:
    g_gates = 1 - ys * ys if nonlinearity == "tanh" else (ys > 0).astype(ys.dtype)
    g_h = np.zeros_like(ys[0]) if g_hn is None else g_hn
    for t in reversed(steps(ys, reverse)):
        if g_ys is not None:
            g_h = g_h + g_ys[t]
        g_gates[t] *= g_h
        g_h = g_gates[t] @ weight_hh
    return g_gates, g_h


rnn_gradient.no_vjp(SECOND_ORDER)
rnn_gradient.no_onnx(NO_OPERATOR)


def steps(x: Array, reverse: bool) -> range:
    """Indices of the steps in the order in which a layer walks over them."""
    return range(len(x) - 1, -1, -1) if reverse else range(len(x))


def input_gates(x: Array, weight: Array, *biases: Array | None) -> Array:
    """`weight x + biases` of all steps as one matrix product: a new array (time, batch, gates)."""
    gates = x.reshape(-1, x.shape[2]) @ weight.T
    for bias in biases:
        if bias is not None:
            gates += bias
    return gates.reshape(*x.shape[:2], -1)


def activate(gates: Array, functions: str) -> list[Array]:
    """Apply sigmoid ("s") or tanh ("t"), in place, to each of the gates that share the last axis; views of them."""
    parts = np.split(gates, len(functions), axis=-1)
    for part, function in zip(parts, functions, strict=True):
        if function == "t":
            np.tanh(part, out=part)
        else:
            np.negative(part, out=part)
            np.exp(part, out=part)
            part += 1
            np.reciprocal(part, out=part)
    return parts
