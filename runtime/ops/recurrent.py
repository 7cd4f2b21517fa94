"""Recurrent layers: one layer in one direction, looping over time inside the op.

Inputs are (time, batch, features). The projections of the inputs of all steps are one matrix product; only what depends
on the previous state is computed step by step. Gradients (`recurrent_gradients`) are split likewise: an op walks back
through time and gives the cotangents of all steps' gates, from which those of weights and inputs are matrix products.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64, is_floating
from . import recurrent_gradients, reduction, shaping
from .common import in_float32, same_dtype
from .recurrent_gradients import activate, input_gates, steps
from .recurrent_onnx import affine, standard_operator, transposed, unrolled
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
    *,
    reverse: bool,
) -> tuple[Type, Type, Type]:
    _check(4, x, h0, weight_ih, weight_hh, bias_ih, bias_hh)
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
    *,
    reverse: bool,
) -> tuple[Array, Array, Array]:
    gates = input_gates(x, weight_ih, bias_ih, bias_hh)
    ys = np.empty((*x.shape[:2], h0.shape[1]), x.dtype)
    h, c = h0, c0
    for t in steps(x, reverse):
        gates[t] += h @ weight_hh.T
        i, f, g, o = activate(gates[t], "ssts")
        c = f * c + i * g
        h = o * np.tanh(c)
        if weight_hr is not None:
            h = h @ weight_hr.T
        ys[t] = h
    return ys, h, c


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
    *,
    reverse: bool,
) -> tuple[Tensor | None, ...]:
    previous = _previous(y[0], h0, reverse)
    g_gates, g_h0, g_c0, *g_weight_hr = recurrent_gradients.lstm_gradient(
        x, previous, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, *g, reverse=reverse
    )
    gx, g_ih = _through_projection(g_gates, x, weight_ih)
    g_bias = reduction.reduce_sum(g_gates, axes=(0, 1))
    return (
        gx,
        g_h0,
        g_c0,
        g_ih,
        _weight_gradient(g_gates, previous),
        None if bias_ih is None else g_bias,
        None if bias_hh is None else g_bias,
        g_weight_hr[0] if g_weight_hr else None,
    )


@lstm.onnx
def _(
    graph: OnnxGraph,
    x: str,
    h0: str,
    c0: str,
    weight_ih: str,
    weight_hh: str,
    bias_ih: str,
    bias_hh: str,
    weight_hr: str,
    *,
    reverse: bool,
) -> tuple[str, ...]:
    if not weight_hr and graph.type(x).dtype != FLOAT64:
        return standard_operator(
            graph, "LSTM", "iofg", "ifgo", x, (h0, c0), weight_ih, weight_hh, bias_ih, bias_hh, reverse
        )

    recurrent, projection = transposed(graph, weight_hh), transposed(graph, weight_hr) if weight_hr else ""

    def step(projected: str, h: str, c: str) -> tuple[str, str]:
        gates = graph.op("Add", projected, affine(graph, h, recurrent, bias_hh))
        i, f, g, o = graph.op("Split", gates, outputs=4, axis=-1, num_outputs=4)
        i, f, o = (graph.op("Sigmoid", gate) for gate in (i, f, o))
        kept, added = graph.op("Mul", f, c), graph.op("Mul", i, graph.op("Tanh", g))
        c = graph.op("Add", kept, added)
        h = graph.op("Mul", o, graph.op("Tanh", c))
        return (affine(graph, h, projection) if projection else h), c

    return unrolled(graph, step, x, (h0, c0), weight_ih, bias_ih, reverse)


@operator
def gru(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
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
        reverse: walk from the last step to the first.

    Returns:
        The outputs of all steps (time, batch, hidden) and the last one.
    """


@gru.infer
def _(
    x: Type, h0: Type, weight_ih: Type, weight_hh: Type, bias_ih: Type | None, bias_hh: Type | None, *, reverse: bool
) -> tuple[Type, Type]:
    _check(3, x, h0, weight_ih, weight_hh, bias_ih, bias_hh)
    return x.with_shape((*x.shape[:2], h0.shape[1])), h0


@gru.kernel
def _(
    x: Array,
    h0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, Array]:
    hidden = h0.shape[1]
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
        h = (1 - z) * n + z * h
        ys[t] = h
    return ys, h


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
    *,
    reverse: bool,
) -> tuple[Tensor | None, ...]:
    previous = _previous(y[0], h0, reverse)
    g_from_input, g_from_state, g_h0 = recurrent_gradients.gru_gradient(
        x, previous, weight_ih, weight_hh, bias_ih, bias_hh, *g, reverse=reverse
    )
    gx, g_ih = _through_projection(g_from_input, x, weight_ih)
    return (
        gx,
        g_h0,
        g_ih,
        _weight_gradient(g_from_state, previous),
        None if bias_ih is None else reduction.reduce_sum(g_from_input, axes=(0, 1)),
        None if bias_hh is None else reduction.reduce_sum(g_from_state, axes=(0, 1)),
    )


@gru.onnx
def _(
    graph: OnnxGraph, x: str, h0: str, weight_ih: str, weight_hh: str, bias_ih: str, bias_hh: str, *, reverse: bool
) -> tuple[str, ...]:
    if graph.type(x).dtype != FLOAT64:
        return standard_operator(
            graph, "GRU", "zrn", "rzn", x, (h0,), weight_ih, weight_hh, bias_ih, bias_hh, reverse, linear_before_reset=1
        )

    recurrent = transposed(graph, weight_hh)

    def step(projected: str, h: str) -> tuple[str]:
        from_state = affine(graph, h, recurrent, bias_hh)
        (input_r, input_z, input_n), (state_r, state_z, state_n) = (
            graph.op("Split", gates, outputs=3, axis=-1, num_outputs=3) for gates in (projected, from_state)
        )
        r = graph.op("Sigmoid", graph.op("Add", input_r, state_r))
        z = graph.op("Sigmoid", graph.op("Add", input_z, state_z))
        n = graph.op("Tanh", graph.op("Add", input_n, graph.op("Mul", r, state_n)))
        return (graph.op("Add", n, graph.op("Mul", z, graph.op("Sub", h, n))),)

    return unrolled(graph, step, x, (h0,), weight_ih, bias_ih, reverse)


@operator
def rnn(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
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
        reverse: walk from the last step to the first.
        nonlinearity: f: "tanh" or "relu".

    Returns:
        The outputs of all steps (time, batch, hidden) and the last one.
    """


@rnn.infer
def _(
    x: Type,
    h0: Type,
    weight_ih: Type,
    weight_hh: Type,
    bias_ih: Type | None,
    bias_hh: Type | None,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Type, Type]:
    require(nonlinearity in ("tanh", "relu"), f'needed the nonlinearity "tanh" or "relu", given {nonlinearity!r}')
    _check(1, x, h0, weight_ih, weight_hh, bias_ih, bias_hh)
    return x.with_shape((*x.shape[:2], h0.shape[1])), h0


@rnn.kernel
def _(
    x: Array,
    h0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Array, Array]:
    ys = input_gates(x, weight_ih, bias_ih, bias_hh)
    h = h0
    for t in steps(x, reverse):
        ys[t] += h @ weight_hh.T
        h = np.tanh(ys[t], out=ys[t]) if nonlinearity == "tanh" else np.maximum(ys[t], 0, out=ys[t])
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
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[Tensor | None, ...]:
    g_gates, g_h0 = recurrent_gradients.rnn_gradient(y[0], weight_hh, *g, reverse=reverse, nonlinearity=nonlinearity)
    gx, g_ih = _through_projection(g_gates, x, weight_ih)
    g_hh = _weight_gradient(g_gates, _previous(y[0], h0, reverse))
    g_bias = reduction.reduce_sum(g_gates, axes=(0, 1))
    return gx, g_h0, g_ih, g_hh, None if bias_ih is None else g_bias, None if bias_hh is None else g_bias


@rnn.onnx
def _(
    graph: OnnxGraph,
    x: str,
    h0: str,
    weight_ih: str,
    weight_hh: str,
    bias_ih: str,
    bias_hh: str,
    *,
    reverse: bool,
    nonlinearity: str,
) -> tuple[str, ...]:
    function = nonlinearity.capitalize()
    if graph.type(x).dtype != FLOAT64:
        return standard_operator(
            graph, "RNN", "h", "h", x, (h0,), weight_ih, weight_hh, bias_ih, bias_hh, reverse, activations=[function]
        )

    recurrent = transposed(graph, weight_hh)

    def step(projected: str, h: str) -> tuple[str]:
        return (graph.op(function, graph.op("Add", projected, affine(graph, h, recurrent, bias_hh))),)

    return unrolled(graph, step, x, (h0,), weight_ih, bias_ih, reverse)


def _check(
    gates: int, x: Type, h0: Type, weight_ih: Type, weight_hh: Type, bias_ih: Type | None, bias_hh: Type | None
) -> None:
    biases = [bias for bias in (bias_ih, bias_hh) if bias is not None]
    same_dtype(x, h0, weight_ih, weight_hh, *biases)
    require(is_floating(x.dtype) and x.rank == 3, f"needed floating-point (time, batch, features), given {x}")
    require(weight_ih.rank == 2 and weight_ih.shape[1] == x.shape[2], f"{weight_ih} doesn't fit the features of {x}")
    rows = weight_ih.shape[0]
    require(rows % gates == 0, f"needed weight_ih with {gates} gates of one size, given {weight_ih}")
    require(h0.rank == 2 and h0.shape[0] == x.shape[1], f"needed a state (batch, hidden), given {h0} with {x}")
    require(weight_hh.shape == (rows, h0.shape[1]), f"needed weight_hh {(rows, h0.shape[1])}, given {weight_hh}")
    require(gates == 4 or rows == gates * h0.shape[1], f"{weight_ih} doesn't fit the state {h0}")
    for bias in biases:
        require(bias.shape == (rows,), f"needed biases {(rows,)}, given {bias}")


def _previous(ys: Any, h0: Any, reverse: bool) -> Any:
    """The state before each step, (time, batch, outputs)."""
    first = shaping.reshape(h0, shape=(1, *h0.shape))
    time = ys.shape[0]
    start, stop = (1, time) if reverse else (0, time - 1)
    others = shaping.slice(ys, starts=(start,), stops=(stop,), steps=(1,), axes=(0,))
    return shaping.concat(others, first, axis=0) if reverse else shaping.concat(first, others, axis=0)


def _rows(x: Any) -> Any:
    """(time, batch, n) as (time * batch, n)."""
    return shaping.reshape(x, shape=(x.shape[0] * x.shape[1], x.shape[2]))


def _weight_gradient(g_gates: Any, source: Any) -> Any:
    return shaping.transpose(_rows(g_gates), permutation=(1, 0)) @ _rows(source)


def _through_projection(g_gates: Any, x: Any, weight_ih: Any) -> tuple[Any, Any]:
    """Cotangents of `x` and `weight_ih`."""
    gx = shaping.reshape(_rows(g_gates) @ weight_ih, shape=x.shape)
    return gx, _weight_gradient(g_gates, x)
