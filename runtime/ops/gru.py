"""Gated recurrent units."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import FLOAT64
from ..traits import Traits
from .common import in_float32
from .float64_forms import Writer
from .gru_gradient import gru_gradient
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
)
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


@gru.infer
def _(x: Type, h0: Type, weight_ih: Type, weight_hh: Type, *others: Type | None, reverse: bool) -> tuple[Type, Type]:
    check_operands(3, x, h0, weight_ih, weight_hh, *others)
    return x.with_shape((*x.shape[:2], h0.shape[1])), h0


@gru.kernel
def _(*operands: Any, reverse: bool) -> tuple[Array, Array]:
    ys, h, *_ = _run(*operands, reverse=reverse, with_gates=False)
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
    lengths: Any,
    *,
    reverse: bool,
) -> tuple[Any, ...]:
    operands = (x, h0, weight_ih, weight_hh, bias_ih, bias_hh, lengths)
    _, _, *residuals = gru_with_gates(*operands, reverse=reverse)
    g_from_input, g_from_state, g_h0 = gru_gradient(weight_hh, *residuals, lengths, *g, reverse=reverse)
    previous = previous_outputs(y[0], h0, lengths, reverse)
    gx, *g_parameters = operand_gradients(g_from_input, g_from_state, x, previous, weight_ih, bias_ih, bias_hh)
    return gx, g_h0, *g_parameters, None


@gru.onnx
def _(graph: OnnxGraph, x: str, h0: str, *weights: str, reverse: bool) -> tuple[str, ...]:
    if graph.type(x).dtype == FLOAT64:  # ONNX Runtime's GRU has no float64 kernel
        return _write_scan(graph, x, h0, *weights, reverse=reverse, with_gates=False)
    *others, lengths = weights
    return standard_operator(
        graph, "GRU", "zrn", "rzn", x, (h0,), WeightNames(*others), lengths, reverse, linear_before_reset=1
    )


@operator
def gru_with_gates(
    x: Tensor,
    h0: Tensor,
    weight_ih: Tensor,
    weight_hh: Tensor,
    bias_ih: Tensor | None = None,
    bias_hh: Tensor | None = None,
    lengths: Tensor | None = None,
    *,
    reverse: bool,
) -> tuple[Tensor, ...]:
    """`gru` that also returns what its gradient needs.

    Args:
        x: see `gru`.
        h0: see `gru`.
        weight_ih: see `gru`.
        weight_hh: see `gru`.
        bias_ih: see `gru`.
        bias_hh: see `gru`.
        lengths: see `gru`.
        reverse: see `gru`.

    Returns:
        The results of `gru`, then five tensors (time, hidden, batch): for all steps, the gates r, z and n, the term b_n
        of the formula, and the state h before the step.
    """


gru_with_gates.traits = Traits(costly=True, recurrent=True)


gru_with_gates.extends(gru)


@gru_with_gates.infer
def _(*operands: Type, reverse: bool) -> tuple[Type, ...]:
    ys, h = gru.infer_types(list(operands), {"reverse": reverse})
    return ys, h, *(ys.with_shape((ys.shape[0], ys.shape[2], ys.shape[1])),) * 5


@gru_with_gates.kernel
def _(*operands: Any, reverse: bool) -> tuple[Array, ...]:
    return _run(*operands, reverse=reverse, with_gates=True)


gru_with_gates.no_vjp(SECOND_ORDER)


@gru_with_gates.onnx
def _(graph: OnnxGraph, *operands: str, reverse: bool) -> tuple[str, ...]:
    return _write_scan(graph, *operands, reverse=reverse, with_gates=True)


def _run(
    x: Array,
    h0: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None,
    bias_hh: Array | None,
    lengths: Array | None,
    *,
    reverse: bool,
    with_gates: bool,
) -> tuple[Array, ...]:
    """Compute `gru` or `gru_with_gates`."""
    hidden, gates = h0.shape[1], input_gates(x, weight_ih, bias_ih, None)
    residuals = np.empty((2, *x.shape[:2], hidden), x.dtype) if with_gates else None

    def step(t: int, h: Array) -> tuple[Array]:
        from_state = few_rows_times(h, weight_hh.T)
        if bias_hh is not None:
            from_state += bias_hh
        if residuals is not None:
            residuals[0, t], residuals[1, t] = from_state[:, 2 * hidden :], h
        gates[t, :, : 2 * hidden] += from_state[:, : 2 * hidden]
        r, z = activate(gates[t, :, : 2 * hidden], "ss")
        n = gates[t, :, 2 * hidden :]
        np.tanh(n + r * from_state[:, 2 * hidden :], out=n)
        return ((1 - z) * n + z * h,)

    ys, h = run_steps(step, x, (h0,), lengths, reverse=reverse)
    all_residuals = () if residuals is None else (*np.split(gates, 3, axis=-1), *residuals)
    return ys, h, *map(batch_last, all_residuals)


def _write_scan(
    graph: OnnxGraph,
    x: str,
    h0: str,
    weight_ih: str,
    weight_hh: str,
    bias_ih: str,
    bias_hh: str,
    lengths: str,
    *,
    reverse: bool,
    with_gates: bool,
) -> tuple[str, ...]:
    """Emit `gru` or `gru_with_gates` as a Scan."""
    (time, batch, _), hidden = graph.type(x).shape, graph.type(h0).shape[1]
    scan = Steps(graph, graph.type(x), time, batch, lengths)
    input_bias, state_bias = scan.bias(bias_ih), scan.bias(bias_hh)
    parts = graph.constant(np.array([2 * hidden, hidden]))

    def step(w: Writer, from_input: str, h: str) -> tuple[tuple[str], tuple[str, ...]]:
        from_input = w("Add", from_input, input_bias) if input_bias else from_input
        from_state = w("MatMul", weight_hh, h)
        from_state = w("Add", from_state, state_bias) if state_bias else from_state
        (input_rz, input_n), (state_rz, state_n) = (
            w.graph.op("Split", gates, parts, outputs=2, axis=0) for gates in (from_input, from_state)
        )
        r, z = w.graph.op("Split", w("Sigmoid", w("Add", input_rz, state_rz)), outputs=2, axis=0, num_outputs=2)
        n = w("Tanh", w("Add", input_n, w("Mul", r, state_n)))
        y = w("Add", n, w("Mul", z, w("Sub", h, n)))
        return (y,), (r, z, n, state_n, h) if with_gates else ()

    residuals = [hidden] * 5 if with_gates else []
    return scan.forward(step, x, weight_ih, [h0], residuals, reverse=reverse, name="gru")
