"""The common part of the recurrent ops. Each op is one layer in one direction, and loops over time.

Inputs are (time, batch, features). The inputs of all steps are projected by one matrix product; only the part that
depends on the previous state is computed step by step. The gradient is split in the same way. A separate op, such as
`lstm_gradient`, runs the backward recurrence: from the last step to the first, it computes the cotangents of the gates
before their nonlinearities, and of the initial states. Matrix products then give the gradients of weights and inputs.

The backward recurrence needs the gates and states of all steps. The op with gates, such as `lstm_with_gates`, returns
them in addition to the results of `lstm`. It extends `lstm`: a program with both ops runs only the one with gates. The
gates are (time, hidden, batch), the layout within the ONNX Scan, so that the exported model doesn't transpose them.

Sequences may differ in length. Beyond the end of a sequence, its outputs are 0 and its state doesn't change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..tracing import SymbolicTensor
from . import comparison, creation, elementwise, reduction, shaping, slicing
from .registry import Array

MAX_VECTORS = 3
"""The most rows that are multiplied one by one."""
SECOND_ORDER = "second derivatives of recurrent layers are not implemented; write the layer as a loop over the steps"


def batch_last(x: Array) -> Array:
    """Transpose (..., batch, n) to (..., n, batch), or back."""
    return np.swapaxes(x, -1, -2)


def masks(lengths: Array | None, time: int) -> list[Array | None]:
    """For each step, a mask (batch, 1) of the sequences that are long enough; None if all are."""
    if lengths is None:
        return [None] * time
    within = (np.arange(time)[:, None] < lengths)[:, :, None]
    complete = np.asarray(within.all(axis=(1, 2)))
    return [None if complete[t] else within[t] for t in range(time)]


def run_steps(
    step: Callable[..., Sequence[Array]],
    x: Array,
    states: Sequence[Array],
    lengths: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, ...]:
    """Run the recurrence over all steps.

    Args:
        step: `step(t, *states)` returns the states after step `t`, the first of which is the output of the step.
        x: the input (time, batch, features); only its first two sizes and its dtype matter.
        states: the initial states, each (batch, n).
        lengths: the number of steps of each sequence, (batch,), all steps if None. Beyond them, outputs are 0 and
            states don't change.
        reverse: run from the last step to the first.

    Returns:
        The outputs of all steps, (time, batch, outputs), and the last states.
    """
    time, batch, _ = x.shape
    mask_of = masks(lengths, time)
    ys = np.empty((time, batch, states[0].shape[1]), x.dtype)
    for t in range(time - 1, -1, -1) if reverse else range(time):
        new = step(t, *states)
        mask = mask_of[t]
        if mask is None:
            ys[t], states = new[0], new
        else:
            ys[t] = np.where(mask, new[0], 0)
            states = tuple(np.where(mask, *pair) for pair in zip(new, states, strict=True))
    return ys, *states


def run_steps_backward(
    step: Callable[..., Sequence[Array]],
    gates: Array,
    g_ys: Array | None,
    last: Sequence[tuple[Array | None, int]],
    lengths: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, ...]:
    """Run the backward recurrence of `run_steps`; return the cotangents of the initial states.

    Args:
        step: `step(t, *g_states)` takes the cotangents of the states after step `t`, including that of its output, and
            returns the cotangents of the states before it.
        gates: a tensor (time, batch, ...) of the layer; only its first two sizes and its dtype matter.
        g_ys: cotangent of the outputs of all steps, (time, batch, outputs); zeros if it is None.
        last: cotangents of the last states, each (batch, n), None for zeros; paired with n.
        lengths: see `run_steps`.
        reverse: see `run_steps`.
    """
    time, batch = gates.shape[:2]
    g_states = tuple(np.zeros((batch, size), gates.dtype) if g is None else g for g, size in last)
    mask_of = masks(lengths, time)
    for t in range(time) if reverse else range(time - 1, -1, -1):
        mask = mask_of[t]
        through = g_states if mask is None else tuple(np.where(mask, g, 0) for g in g_states)
        g_after = through
        if g_ys is not None:
            g_after = (through[0] + (g_ys[t] if mask is None else np.where(mask, g_ys[t], 0)), *through[1:])
        g_before = tuple(step(t, *g_after))
        if mask is not None:  # sequences that have ended skip the step
            g_before = tuple(b + (g - h) for b, g, h in zip(g_before, g_states, through, strict=True))
        g_states = g_before
    return g_states


def input_gates(x: Array, weight: Array, *biases: Array | None) -> Array:
    """`weight x + biases` for all steps, as one matrix product: a new array (time, batch, gates)."""
    gates = x.reshape(-1, x.shape[2]) @ weight.T
    for bias in biases:
        if bias is not None:
            gates += bias
    return gates.reshape(*x.shape[:2], gates.shape[1])


def few_rows_times(rows: Array, matrix: Array) -> Array:
    """`rows @ matrix`, for a matrix (n, m) and few rows (batch, n) in each of many steps.

    A product of matrices first copies the second one into another order, which takes longer than three products with a
    vector: reading the matrix is what these steps cost.
    """
    if not 1 < len(rows) <= MAX_VECTORS:
        return rows @ matrix
    result = np.empty((len(rows), matrix.shape[1]), rows.dtype)
    for row, out in zip(rows, result, strict=True):
        np.matmul(row, matrix, out=out)
    return result


def activate(gates: Array, functions: str) -> list[Array]:
    """Apply sigmoid ("s") or tanh ("t") in place to each gate of the last axis; return views of the gates.

    Args:
        gates: (..., gates * hidden).
        functions: a letter per gate, such as "ssts".
    """
    hidden = gates.shape[-1] // len(functions)
    parts = [gates[..., n * hidden : (n + 1) * hidden] for n in range(len(functions))]
    start = 0
    for function, group in itertools.groupby(functions):  # equal functions of neighbouring gates in one call
        end = start + len(list(group))
        part = gates[..., start * hidden : end * hidden]
        if function == "t":
            np.tanh(part, out=part)
        else:
            np.negative(part, out=part)
            np.exp(part, out=part)
            part += 1
            np.reciprocal(part, out=part)
        start = end
    return parts


def previous_outputs(ys: Any, h0: Any, lengths: Any, reverse: bool) -> Any:
    """The state before each step, (time, batch, outputs); beyond the end of a sequence, an arbitrary finite value."""
    first = shaping.reshape(h0, shape=(1, *h0.shape))
    time = ys.shape[0]
    start, stop = (1, time) if reverse else (0, time - 1)
    others = slicing.slice(ys, starts=(start,), stops=(stop,), steps=(1,), axes=(0,))
    if not reverse:
        return slicing.concat(first, others, axis=0)
    shifted = slicing.concat(others, first, axis=0)
    if lengths is None:
        return shifted
    attributes: dict[str, Any] = {"start": 1, "stop": time + 1, "dtype": lengths.dtype}
    traced = isinstance(lengths, SymbolicTensor)
    next_steps = lengths.builder.create(creation.arange, **attributes) if traced else creation.arange(**attributes)
    has_next = comparison.less(shaping.reshape(next_steps, shape=(time, 1)), lengths)
    return elementwise.where(shaping.reshape(has_next, shape=(*has_next.shape, 1)), shifted, first)


def operand_gradients(
    g_from_input: Any, g_from_state: Any, x: Any, previous: Any, weight_ih: Any, bias_ih: Any, bias_hh: Any
) -> tuple[Any, ...]:
    """Return functions that compute the cotangents of x, weight_ih, weight_hh, bias_ih and bias_hh.

    Args:
        g_from_input: cotangent of `weight_ih x + bias_ih` of all steps, (time, batch, gates).
        g_from_state: cotangent of `weight_hh h + bias_hh` of all steps, (time, batch, gates).
        x: (time, batch, features).
        previous: the state before each step, (time, batch, outputs).
        weight_ih: (gates, features).
        bias_ih: None if it is absent; its cotangent is None then.
        bias_hh: likewise.
    """
    return (
        lambda: shaping.reshape(_rows(g_from_input) @ weight_ih, shape=x.shape),
        lambda: weight_gradient(g_from_input, x),
        lambda: weight_gradient(g_from_state, previous),
        None if bias_ih is None else lambda: reduction.reduce_sum(_rows(g_from_input), axes=(0,)),
        None if bias_hh is None else lambda: reduction.reduce_sum(_rows(g_from_state), axes=(0,)),
    )


def weight_gradient(g: Any, source: Any) -> Any:
    """The cotangent (m, n) of a weight W in `W source`, summed over all steps.

    Args:
        g: cotangent of the product, (time, batch, m).
        source: (time, batch, n).
    """
    return shaping.transpose(_rows(g), permutation=(1, 0)) @ _rows(source)


def _rows(x: Any) -> Any:
    """Reshape (time, batch, n) to (time * batch, n)."""
    return shaping.reshape(x, shape=(x.shape[0] * x.shape[1], x.shape[2]))
