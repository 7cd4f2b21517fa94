"""Long short-term memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from . import shaping
from .common import in_float32
from .float64_forms import Writer
from .lstm_gradient import lstm_gradient
from .recurrent import activate, few_rows_times, weight_gradient
from .recurrent_layer import Layer, Operands, Step
from .recurrent_onnx import Steps, WeightNames, standard_operator
from .registry import Array, OnnxGraph, Tensor, Type, operator


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


def _step(operands: Operands) -> Step:
    from_state, projection = operands.weight_hh.T, operands.weight_hr

    def step(gates: Array, h: Array, c: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        gates += few_rows_times(h, from_state)
        i, f, g, o = activate(gates, "ssts")
        new_c = f * c + i * g
        tanh_c = np.tanh(new_c)
        y = o * tanh_c
        return (y if projection is None else y @ projection.T, new_c), (c, tanh_c)

    return step


def _onnx_step(_: Steps, operands: Operands) -> Step:
    def step(w: Writer, from_input: str, h: str, c: str) -> tuple[tuple[str, str], tuple[str, ...]]:
        gates = w("Add", w("MatMul", operands.weight_hh, h), from_input)
        i, f, g, o = w.graph.op("Split", gates, outputs=4, axis=0, num_outputs=4)
        i, f, g, o = w("Sigmoid", i), w("Sigmoid", f), w("Tanh", g), w("Sigmoid", o)
        new_c = w("Add", w("Mul", f, c), w("Mul", i, g))
        tanh_c = w("Tanh", new_c)
        y = w("Mul", o, tanh_c)
        y = w("MatMul", operands.weight_hr, y) if operands.weight_hr else y
        return (y, new_c), (i, f, g, o, c, tanh_c)

    return step


LSTM = Layer("lstm", 4, _step, _onnx_step, extras=2, cell_state=True)


@lstm.infer
def _(*operands: Type | None, reverse: bool) -> tuple[Type, ...]:
    return LSTM.infer(*operands)


lstm.kernel(LSTM.run)


@lstm.vjp
@in_float32
def _(g: tuple[Any, ...], y: tuple[Any, ...], *inputs: Any, reverse: bool) -> tuple[Any, ...]:
    operands = LSTM.operands(inputs)
    weight_hh, weight_hr, lengths = operands.weight_hh, operands.weight_hr, operands.lengths
    _, _, _, *residuals = lstm_with_gates(*inputs, reverse=reverse)
    g_gates, g_h0, g_c0, *g_projected = lstm_gradient(weight_hh, *residuals, weight_hr, lengths, *g, reverse=reverse)
    g_weight_hr = None
    if g_projected:
        o, tanh_c = residuals[3], residuals[5]
        h = shaping.transpose(o * tanh_c, permutation=(0, 2, 1))
        g_weight_hr = weight_gradient(g_projected[0], h)
    return *LSTM.gradients(operands, y[0], (g_gates, g_gates), [g_h0, g_c0], reverse=reverse), g_weight_hr, None


@lstm.onnx
def _(graph: OnnxGraph, x: str, h0: str, c0: str, *weights: str, reverse: bool) -> tuple[str, ...]:
    *others, weight_hr, lengths = weights
    if weight_hr or graph.type(x).dtype == FLOAT64:  # ONNX's LSTM has no projection, ONNX Runtime's no float64 kernel
        return LSTM.write(graph, x, h0, c0, *weights, reverse=reverse)
    return standard_operator(graph, "LSTM", "iofg", "ifgo", x, (h0, c0), WeightNames(*others), lengths, reverse)


lstm_with_gates = LSTM.with_gates(
    lstm, "the gates i, f, g and o, the cell state c before the step, and tanh(c') after it"
)
