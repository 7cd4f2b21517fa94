"""What the recurrent layers share; each op is one layer in one direction, looping over time inside the op.

Inputs are (time, batch, features). The projections of the inputs of all steps are one matrix product; only what depends
on the previous state is computed step by step. Gradients are split likewise: the backward recurrence, an op of its own
beside its layer, walks from the last step to the first and gives the cotangents of the gates (before their
nonlinearities) of all steps, and those of the initial states; those of weights and inputs are then matrix products.
What it needs of each step (the gates, the states) is handed out by the layer with gates, which extends the layer:
a program that has both computes this one alone.

What a layer hands its gradient is (time, hidden, batch): in ONNX, where steps keep the batch last, nothing then moves.

Sequences may be shorter than the batch: beyond its length, the outputs of a sequence are 0 and its state stays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.types import is_floating
from ..tracing import SymbolicTensor
from . import comparison, creation, elementwise, reduction, shaping, slicing
from .common import same_dtype
from .registry import Array, Type, require

SECOND_ORDER = "second derivatives of recurrent layers are not implemented; a layer written out step by step has them"


def check_operands(
    gates: int,
    x: Type,
    h0: Type,
    weight_ih: Type,
    weight_hh: Type,
    bias_ih: Type | None,
    bias_hh: Type | None,
    lengths: Type | None,
) -> None:
    """Raise `ShapeError` unless the operands fit one another in a layer of that many gates."""
    present = [bias for bias in (bias_ih, bias_hh) if bias is not None]
    same_dtype(x, h0, weight_ih, weight_hh, *present)
    require(is_floating(x.dtype) and x.rank == 3, f"needed floating-point (time, batch, features), given {x}")
    require(weight_ih.rank == 2 and weight_ih.shape[1] == x.shape[2], f"{weight_ih} doesn't fit the features of {x}")
    rows = weight_ih.shape[0]
    require(rows % gates == 0, f"needed weight_ih with {gates} gates of one size, given {weight_ih}")
    require(h0.rank == 2 and h0.shape[0] == x.shape[1], f"needed a state (batch, hidden), given {h0} with {x}")
    require(weight_hh.shape == (rows, h0.shape[1]), f"needed weight_hh {(rows, h0.shape[1])}, given {weight_hh}")
    require(gates == 4 or rows == gates * h0.shape[1], f"{weight_ih} doesn't fit the state {h0}")
    for bias in present:
        require(bias.shape == (rows,), f"needed biases {(rows,)}, given {bias}")
    if lengths is not None:
        require(lengths.dtype.kind == "i", f"needed integer lengths, given {lengths}")
        require(lengths.shape == (x.shape[1],), f"needed a length for each of {x.shape[1]} sequences, given {lengths}")


def columnwise(x: Any) -> Any:
    """An array (..., batch, n) as (..., n, batch), and the other way round; None stays."""
    return None if x is None else np.swapaxes(x, -1, -2)


def masks(lengths: Array | None, time: int) -> list[Array | None]:
    """For each step which sequences it is within, (batch, 1); None if it is within all."""
    if lengths is None:
        return [None] * time
    within = (np.arange(time)[:, None] < lengths)[:, :, None]
    complete = np.asarray(within.all(axis=(1, 2)))
    return [None if complete[t] else within[t] for t in range(time)]


def walk(
    step: Callable[..., tuple[Array, ...]],
    x: Array,
    states: tuple[Array, ...],
    lengths: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, ...]:
    """Walk over time: the outputs of all steps, (time, batch, outputs), and the last states.

    Args:
        step: `step(t, *states)` computes step `t`: the new states, the first of which is its output.
        x: (time, batch, features): its first two sizes and its dtype count.
        states: before the first step, (batch, n) each.
        lengths: the steps of each sequence; beyond them outputs are 0, and states stay.
        reverse: walk from the last step to the first.
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


def walk_back(
    step: Callable[..., tuple[Array, ...]],
    time: int,
    g_ys: Array | None,
    g_states: tuple[Array, ...],
    lengths: Array | None,
    *,
    reverse: bool,
) -> tuple[Array, ...]:
    """Walk back over the steps of `walk`: the cotangents of the states before the first of them.

    Args:
        step: `step(t, *g_states)` takes the cotangents of the states after step `t`, that of its output included, and
            gives those of the states before it.
        time: number of steps.
        g_ys: cotangent of the outputs of all steps, (time, batch, outputs).
        g_states: cotangents of the last states, (batch, n) each.
        lengths: as given to `walk`.
        reverse: as given to `walk`.
    """
    mask_of = masks(lengths, time)
    for t in range(time) if reverse else range(time - 1, -1, -1):
        mask = mask_of[t]
        through = g_states if mask is None else tuple(np.where(mask, g, 0) for g in g_states)
        of_step = through
        if g_ys is not None:
            of_step = (through[0] + (g_ys[t] if mask is None else np.where(mask, g_ys[t], 0)), *through[1:])
        before = step(t, *of_step)
        if mask is not None:  # what doesn't go through the step passes it by
            before = tuple(b + (g - h) for b, g, h in zip(before, g_states, through, strict=True))
        g_states = before
    return g_states


def input_gates(x: Array, weight: Array, *biases: Array | None) -> Array:
    """`weight x + biases` of all steps as one matrix product: a new array (time, batch, gates)."""
    gates = x.reshape(-1, x.shape[2]) @ weight.T
    for bias in biases:
        if bias is not None:
            gates += bias
    return gates.reshape(*x.shape[:2], gates.shape[1])


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


def previous_outputs(ys: Any, h0: Any, lengths: Any, reverse: bool) -> Any:
    """The state before each step, (time, batch, outputs); beyond the end of a sequence anything finite."""
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
    following = lengths.builder.create(creation.arange, **attributes) if traced else creation.arange(**attributes)
    follows = comparison.less(shaping.reshape(following, shape=(time, 1)), lengths)
    return elementwise.where(shaping.reshape(follows, shape=(*follows.shape, 1)), shifted, first)


def operand_gradients(
    g_from_input: Any, g_from_state: Any, x: Any, previous: Any, weight_ih: Any, bias_ih: Any, bias_hh: Any
) -> tuple[Any, ...]:
    """Cotangents of x, weight_ih, weight_hh, bias_ih and bias_hh (None for an absent bias).

    Given are those of what the gates of all steps get from the input and from the state, (time, batch, gates).
    """
    return (
        lambda: shaping.reshape(_rows(g_from_input) @ weight_ih, shape=x.shape),
        lambda: weight_gradient(g_from_input, x),
        lambda: weight_gradient(g_from_state, previous),
        None if bias_ih is None else lambda: reduction.reduce_sum(_rows(g_from_input), axes=(0,)),
        None if bias_hh is None else lambda: reduction.reduce_sum(_rows(g_from_state), axes=(0,)),
    )


def weight_gradient(g: Any, source: Any) -> Any:
    """The cotangent (m, n) of a weight of all steps, of g (time, batch, m) and what it multiplies (time, batch, n)."""
    return shaping.transpose(_rows(g), permutation=(1, 0)) @ _rows(source)


def _rows(x: Any) -> Any:
    """(time, batch, n) as (time * batch, n)."""
    return shaping.reshape(x, shape=(x.shape[0] * x.shape[1], x.shape[2]))
