"""Long short-term memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from . import shaping
from .common import in_float32, require_same_dtype
from .float64_forms import Writer
from .lstm_gradient import lstm_gradient
from .recurrent import (
    SECOND_ORDER,
    activate,
    batch_last,
    check_operands,
    few_rows_times,
    input_gates,
    operand_gradients,
    previous_outputs,
    run_steps,
    weight_gradient,
)
from .recurrent_onnx import Steps, WeightNames, standard_operator
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
        weight_hr: the projection, (outputs, hidden).
        lengths: integers (batch,), the number of steps of each sequence, all by default; beyond it, the outputs of a
            sequence are 0 and its state doesn't change.
        reverse: run from the last step to the first.

    Returns:
        The outputs of all steps (time, batch, outputs), the last output and the last cell state.
    """


lstm.traits = Traits(costly=True, recurrent=True)


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
    require_same_dtype(x, c0, *([] if weight_hr is None else [weight_hr]))
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
def _(*operands: Any, reverse: bool) -> tuple[Array, Array, Array]:
    ys, h, c, *_ = _run(*operands, reverse=reverse, with_gates=False)
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
    lengths: Any,
    *,
    reverse: bool,
) -> tuple[Any, ...]:
    operands = (x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, lengths)
    _, _, _, *residuals = lstm_with_gates(*operands, reverse=reverse)
    g_gates, g_h0, g_c0, *g_projected = lstm_gradient(weight_hh, *residuals, weight_hr, lengths, *g, reverse=reverse)
    previous = previous_outputs(y[0], h0, lengths, reverse)
    gx, *g_parameters = operand_gradients(g_gates, g_gates, x, previous, weight_ih, bias_ih, bias_hh)
    g_weight_hr = None
    if g_projected:
        o, tanh_c = residuals[3], residuals[5]
        h = shaping.transpose(o * tanh_c, permutation=(0, 2, 1))
        g_weight_hr = weight_gradient(g_projected[0], h)
    return gx, g_h0, g_c0, *g_parameters, g_weight_hr, None


@lstm.onnx
def _(graph: OnnxGraph, x: str, h0: str, c0: str, *weights: str, reverse: bool) -> tuple[str, ...]:
    *others, weight_hr, lengths = weights
    if weight_hr or graph.type(x).dtype == FLOAT64:  # ONNX's LSTM has no projection, ONNX Runtime's no float64 kernel
        return _write_scan(graph, x, h0, c0, *weights, reverse=reverse, with_gates=False)
    return standard_operator(graph, "LSTM", "iofg", "ifgo", x, (h0, c0), WeightNames(*others), lengths, reverse)


@operator
def lstm_with_gates(
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
) -> tuple[Tensor, ...]:
    """`lstm` that also returns what its gradient needs.

    Args:
        x: see `lstm`.
        h0: see `lstm`.
        c0: see `lstm`.
        weight_ih: see `lstm`.
        weight_hh: see `lstm`.
        bias_ih: see `lstm`.
        bias_hh: see `lstm`.
        weight_hr: see `lstm`.
        lengths: see `lstm`.
        reverse: see `lstm`.

    Returns:
        The results of `lstm`, then six tensors (time, hidden, batch): for all steps, the gates i, f, g and o, the cell
        state c before the step, and tanh(c') after it.
    """


lstm_with_gates.traits = Traits(costly=True, recurrent=True)


lstm_with_gates.extends(lstm)


@lstm_with_gates.infer
def _(*operands: Type, reverse: bool) -> tuple[Type, ...]:
    ys, h, c = lstm.infer_types(list(operands), {"reverse": reverse})
    row = ys.with_shape((ys.shape[0], c.shape[1], c.shape[0]))
    return ys, h, c, *(row,) * 6


@lstm_with_gates.kernel
def _(*operands: Any, reverse: bool) -> tuple[Array, ...]:
    return _run(*operands, reverse=reverse, with_gates=True)


lstm_with_gates.no_vjp(SECOND_ORDER)


@lstm_with_gates.onnx
def _(graph: OnnxGraph, *operands: str, reverse: bool) -> tuple[str, ...]:
    return _write_scan(graph, *operands, reverse=reverse, with_gates=True)


def _run(
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
    with_gates: bool,
) -> tuple[Array, ...]:
    """Compute `lstm` or `lstm_with_gates`."""
    gates = input_gates(x, weight_ih, bias_ih, bias_hh)
    residuals = np.empty((2, len(x), *c0.shape), x.dtype) if with_gates else None

    def step(t: int, h: Array, c: Array) -> tuple[Array, Array]:
        gates[t] += few_rows_times(h, weight_hh.T)
        i, f, g, o = activate(gates[t], "ssts")
        new_c = f * c + i * g
        tanh_c = np.tanh(new_c)
        if residuals is not None:
            residuals[0, t], residuals[1, t] = c, tanh_c
        y = o * tanh_c
        return y if weight_hr is None else y @ weight_hr.T, new_c

    ys, h, c = run_steps(step, x, (h0, c0), lengths, reverse=reverse)
    all_residuals = () if residuals is None else (*np.split(gates, 4, axis=-1), *residuals)
    return ys, h, c, *map(batch_last, all_residuals)


def _write_scan(
    graph: OnnxGraph,
    x: str,
    h0: str,
    c0: str,
    weight_ih: str,
    weight_hh: str,
    bias_ih: str,
    bias_hh: str,
    weight_hr: str,
    lengths: str,
    *,
    reverse: bool,
    with_gates: bool,
) -> tuple[str, ...]:
    """Emit `lstm` or `lstm_with_gates` as a Scan."""
    (time, batch, _), hidden = graph.type(x).shape, graph.type(c0).shape[1]
    scan = Steps(graph, graph.type(x), time, batch, lengths)
    bias = scan.bias(bias_ih, bias_hh)

    def step(w: Writer, from_input: str, h: str, c: str) -> tuple[tuple[str, str], tuple[str, ...]]:
        from_input = w("Add", from_input, bias) if bias else from_input
        gates = w("Add", w("MatMul", weight_hh, h), from_input)
        i, f, g, o = w.graph.op("Split", gates, outputs=4, axis=0, num_outputs=4)
        i, f, g, o = w("Sigmoid", i), w("Sigmoid", f), w("Tanh", g), w("Sigmoid", o)
        new_c = w("Add", w("Mul", f, c), w("Mul", i, g))
        tanh_c = w("Tanh", new_c)
        y = w("Mul", o, tanh_c)
        y = w("MatMul", weight_hr, y) if weight_hr else y
        return (y, new_c), (i, f, g, o, c, tanh_c) if with_gates else ()

    residuals = [hidden] * 6 if with_gates else []
    return scan.forward(step, x, weight_ih, [h0, c0], residuals, reverse=reverse, name="lstm")
