"""Gated recurrent units."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from .common import in_float32
from .float64_forms import Writer
from .gru_gradient import gru_gradient
from .recurrent import activate, few_rows_times
from .recurrent_layer import Layer, Operands, Step
from .recurrent_onnx import Steps, WeightNames, standard_operator
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
    """Gated recurrent unit (Cho et al. 2014), resetting after the product. ATen gru, GRU-14 with linear_before_reset=1.

        a = weight_ih x + bias_ih and b = weight_hh h + bias_hh, each in order r, z, n
        r = sigmoid(a_r + b_r), z = sigmoid(a_z + b_z), n = tanh(a_n + r * b_n),  h' = (1 - z) * n + z * h

    Args:
        x: (time, batch, features), floating-point.
        h0: (batch, hidden).
        weight_ih: (3 * hidden, features).
        weight_hh: (3 * hidden, hidden).
        bias_ih: (3 * hidden,).
        bias_hh: (3 * hidden,).
        lengths: integers (batch,), the number of steps of each sequence, all by default; beyond it, the outputs of a
            sequence are 0 and its state doesn't change.
        reverse: run from the last step to the first.

    Returns:
        The outputs of all steps (time, batch, hidden) and the last one.
    """


gru.traits = Traits(costly=True, recurrent=True)


def _step(operands: Operands) -> Step:
    from_state, bias = operands.weight_hh.T, operands.bias_hh

    def step(gates: Array, h: Array) -> tuple[tuple[Array], tuple[Array, Array]]:
        hidden, b = h.shape[1], few_rows_times(h, from_state)
        if bias is not None:
            b += bias
        r_and_z, n, b_n = gates[:, : 2 * hidden], gates[:, 2 * hidden :], b[:, 2 * hidden :]
        r_and_z += b[:, : 2 * hidden]
        r, z = activate(r_and_z, "ss")
        np.tanh(n + r * b_n, out=n)
        return ((1 - z) * n + z * h,), (b_n, h)

    return step


def _onnx_step(scan: Steps, operands: Operands) -> Step:
    hidden = scan.graph.type(operands.states[0]).shape[1]
    bias, parts = scan.bias(operands.bias_hh), scan.graph.constant(np.array([2 * hidden, hidden]))

    def step(w: Writer, from_input: str, h: str) -> tuple[tuple[str], tuple[str, ...]]:
        from_state = w("MatMul", operands.weight_hh, h)
        from_state = w("Add", from_state, bias) if bias else from_state
        (input_rz, input_n), (state_rz, state_n) = (
            w.graph.op("Split", gates, parts, outputs=2, axis=0) for gates in (from_input, from_state)
        )
        r, z = w.graph.op("Split", w("Sigmoid", w("Add", input_rz, state_rz)), outputs=2, axis=0, num_outputs=2)
        n = w("Tanh", w("Add", input_n, w("Mul", r, state_n)))
        return (w("Add", n, w("Mul", z, w("Sub", h, n))),), (r, z, n, state_n, h)

    return step


GRU = Layer("gru", 3, _step, _onnx_step, extras=2, apart=True)


@gru.infer
def _(*operands: Type | None, reverse: bool) -> tuple[Type, ...]:
    return GRU.infer(*operands)


gru.kernel(GRU.run)


@gru.vjp
@in_float32
def _(g: tuple[Any, ...], y: tuple[Any, ...], *inputs: Any, reverse: bool) -> tuple[Any, ...]:
    operands = GRU.operands(inputs)
    _, _, *residuals = gru_with_gates(*inputs, reverse=reverse)
    g_from_input, g_from_state, g_h0 = gru_gradient(
        operands.weight_hh, *residuals, operands.lengths, *g, reverse=reverse
    )
    return *GRU.gradients(operands, y[0], (g_from_input, g_from_state), [g_h0], reverse=reverse), None


@gru.onnx
def _(graph: OnnxGraph, x: str, h0: str, *weights: str, reverse: bool) -> tuple[str, ...]:
    if graph.type(x).dtype == FLOAT64:  # ONNX Runtime's GRU has no float64 kernel
        return GRU.write(graph, x, h0, *weights, reverse=reverse)
    *others, lengths = weights
    return standard_operator(
        graph, "GRU", "zrn", "rzn", x, (h0,), WeightNames(*others), lengths, reverse, linear_before_reset=1
    )


gru_with_gates = GRU.with_gates(
    gru, "the gates r, z and n, the term b_n of the formula, and the state h before the step"
)
