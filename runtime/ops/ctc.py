"""Connectionist temporal classification (Graves et al. 2006).

A path assigns a class or the blank to each step; merging repetitions and then removing blanks gives its target. The
states of a path are the classes of the target with a blank before, between and after them. `alphas` are the log
probabilities of being in a state after a step (section 4.1), `betas` those of the remaining steps. Loops run over
time only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..ir.types import INT64, at_least_float32, is_floating
from ..traits import Traits
from . import elementwise, shaping
from .ctc_onnx import States
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, *, blank: int
) -> Tensor:
    """The negative log probability of all paths to the target. ATen ctc_loss, without reduction.

    Args:
        log_probs: logarithms of the probabilities of classes, (time, batch, classes), floating-point.
        targets: classes, integers (batch, length); elements beyond the length of a target don't count.
        input_lengths: integers (batch,), at most `time`.
        target_lengths: integers (batch,), at most `length`.
        blank: the class that means "no class".

    Returns:
        (batch,), of the dtype of `log_probs`; infinite, with the gradient 0, if no path leads to the target.
    """


ctc_loss.traits = Traits(costly=True)


@ctc_loss.infer
def _(log_probs: Type, targets: Type, input_lengths: Type, target_lengths: Type, *, blank: int) -> Type:
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    return log_probs.with_shape((log_probs.shape[1],))


@ctc_loss.kernel
def _(log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, *, blank: int) -> Array:
    alphas = _alphas(_states(log_probs, targets, target_lengths, blank))
    return -_totals(alphas, input_lengths, target_lengths)


@ctc_loss.vjp
def _(
    g: Tensor, y: Tensor, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor,
    *, blank: int,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    operands = (log_probs, targets, input_lengths, target_lengths)
    _, alphas = ctc_loss_with_alphas(*operands, blank=blank)
    slopes = ctc_loss_gradient(*operands, alphas, blank=blank)
    weights = elementwise.cast(shaping.reshape(g, shape=(1, *g.shape, 1)), dtype=slopes.dtype)
    return elementwise.cast(slopes * weights, dtype=log_probs.dtype), None, None, None


@ctc_loss.onnx
def _(graph: OnnxGraph, log_probs: str, targets: str, input_lengths: str, target_lengths: str, *, blank: int) -> Any:
    loss, _ = _loss_and_alphas(graph, log_probs, targets, input_lengths, target_lengths, blank=blank)
    return loss


@operator
def ctc_loss_with_alphas(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, *, blank: int
) -> tuple[Tensor, Tensor]:
    """`ctc_loss` that also returns what its gradient needs. ATen _ctc_loss.

    Args:
        log_probs: see `ctc_loss`.
        targets: see `ctc_loss`.
        input_lengths: see `ctc_loss`.
        target_lengths: see `ctc_loss`.
        blank: see `ctc_loss`.

    Returns:
        The result of `ctc_loss`; and the log probabilities of being in each state after each step, (time, batch,
        2 * length + 1), minus infinity for a state that can't be reached, in float32 for half precision.
    """


ctc_loss_with_alphas.traits = Traits(costly=True)


ctc_loss_with_alphas.extends(ctc_loss)


@ctc_loss_with_alphas.infer
def _(log_probs: Type, targets: Type, input_lengths: Type, target_lengths: Type, *, blank: int) -> tuple[Type, Type]:
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    return log_probs.with_shape((log_probs.shape[1],)), _alphas_type(log_probs, targets)


@ctc_loss_with_alphas.kernel
def _(
    log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, *, blank: int
) -> tuple[Array, Array]:
    alphas = _alphas(_states(log_probs, targets, target_lengths, blank))
    return -_totals(alphas, input_lengths, target_lengths), alphas


ctc_loss_with_alphas.no_vjp("the alphas are for inspection only; the loss itself, `ctc_loss`, has a gradient")


@ctc_loss_with_alphas.onnx
def _loss_and_alphas(
    graph: OnnxGraph, log_probs: str, targets: str, input_lengths: str, target_lengths: str, *, blank: int
) -> tuple[str, str]:
    states = States(graph, log_probs, targets, target_lengths, blank)
    alphas = states.alphas()
    totals = graph.op("Squeeze", states.totals(alphas, input_lengths), graph.constant([1], INT64))
    return graph.cast(graph.op("Neg", totals), graph.type(log_probs).dtype), alphas


@operator
def ctc_loss_gradient(
    log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, alphas: Tensor, *, blank: int
) -> Tensor:
    """Derivatives of `ctc_loss` by the operand of the `log_softmax` that computes `log_probs`. ATen ctc_loss_backward.

    The network's probability of a class at a step, minus the probability of the class at the step given the target
    (Graves et al. 2006, equation 16); after a `log_softmax` they have the same effect as the derivatives with respect
    to `log_probs`. They are 0 for steps beyond the end of a sequence, and for a target that no path leads to.

    Args:
        log_probs: see `ctc_loss`.
        targets: see `ctc_loss`.
        input_lengths: see `ctc_loss`.
        target_lengths: see `ctc_loss`.
        alphas: those of `ctc_loss_with_alphas`.
        blank: see `ctc_loss`.

    Returns:
        (time, batch, classes), in float32 for half precision.
    """


ctc_loss_gradient.traits = Traits(costly=True)


@ctc_loss_gradient.infer
def _(log_probs: Type, targets: Type, input_lengths: Type, target_lengths: Type, alphas: Type, *, blank: int) -> Type:
    _check(log_probs, targets, input_lengths, target_lengths, blank)
    needed = _alphas_type(log_probs, targets)
    require(is_floating(alphas.dtype) and alphas.shape == needed.shape, f"needed alphas {needed}, given {alphas}")
    return log_probs.with_dtype(needed.dtype)


@ctc_loss_gradient.kernel
def _(
    log_probs: Array, targets: Array, input_lengths: Array, target_lengths: Array, alphas: Array, *, blank: int
) -> Array:
    states = _states(log_probs, targets, target_lengths, blank)
    totals = _totals(alphas, input_lengths, target_lengths)
    possible = ~np.isneginf(totals)
    # the probability of being in a state at a step, given the target; betas exclude the step itself
    occupancy = np.exp(alphas + _betas(states, input_lengths, target_lengths) - np.where(possible, totals, 0)[:, None])
    occupancy = np.where(possible[:, None], occupancy, 0)
    within = np.arange(len(log_probs))[:, None] < input_lengths
    slopes = np.where((within & possible)[:, :, None], np.exp(log_probs), 0)
    batch = np.arange(len(totals))
    for k in range(occupancy.shape[2]):  # states with the same index never share an element
        slopes[:, batch, states.classes[:, k]] -= occupancy[:, :, k]
    return slopes


ctc_loss_gradient.no_vjp("second derivatives of connectionist temporal classification are not implemented")


@ctc_loss_gradient.onnx
def _(
    graph: OnnxGraph, log_probs: str, targets: str, input_lengths: str, target_lengths: str, alphas: str, *, blank: int
) -> str:
    states = States(graph, log_probs, targets, target_lengths, blank)
    w, alphas = states.w, graph.cast(alphas, states.type.dtype)
    totals = states.totals(alphas, input_lengths)
    impossible = w("Equal", totals, -np.inf)
    share = w("Sub", w("Add", alphas, states.betas(input_lengths)), w("Where", impossible, 0.0, totals))
    occupancy = w("Where", impossible, 0.0, w("Neg", w("Exp", share)))
    is_counted = w("And", states.within(input_lengths), w("Not", impossible))
    probabilities = w("Where", is_counted, w("Exp", graph.cast(log_probs, w.dtype)), 0.0)
    return str(graph.op("ScatterElements", probabilities, states.places, occupancy, axis=2, reduction="add"))


def _check(log_probs: Type, targets: Type, input_lengths: Type, target_lengths: Type, blank: Any) -> None:
    require(is_floating(log_probs.dtype) and log_probs.rank == 3, f"needed (time, batch, classes), given {log_probs}")
    batch, classes = log_probs.shape[1:]
    require(targets.rank == 2 and targets.shape[0] == batch, f"needed targets ({batch}, length), given {targets}")
    for lengths in (input_lengths, target_lengths):
        require(lengths.shape == (batch,), f"needed a length for each of {batch} sequences, given {lengths}")
    for integers in (targets, input_lengths, target_lengths):
        require(integers.dtype.kind in "iu", f"needed integers, given {integers}")
    require(
        not isinstance(classes, int) or 0 <= blank < classes, f"needed a blank from 0 to {classes} - 1, given {blank}"
    )


def _alphas_type(log_probs: Type, targets: Type) -> Type:
    (time, batch, _), length = log_probs.shape, targets.shape[1]
    return Type(at_least_float32(log_probs.dtype), (time, batch, 2 * length + 1))


class _States(NamedTuple):
    """The states of each target, and their log-probabilities.

    Attributes:
        classes: of the states, (batch, states).
        emissions: log-probabilities of these classes, (time, batch, states).
        skippable: whether the state before each may be skipped, (batch, states).
    """

    classes: Array
    emissions: Array
    skippable: Array


def _states(log_probs: Array, targets: Array, target_lengths: Array, blank: int) -> _States:
    count, length = targets.shape
    classes = np.full((count, 2 * length + 1), blank, np.int64)
    classes[:, 1::2] = np.where(np.arange(length) < target_lengths[:, None], targets, blank)
    skippable = np.zeros(classes.shape, bool)
    skippable[:, 2:] = (classes[:, 2:] != blank) & (classes[:, 2:] != classes[:, :-2])
    emissions = np.take_along_axis(log_probs, np.broadcast_to(classes, (len(log_probs), *classes.shape)), axis=2)
    return _States(classes, emissions, skippable)


def _alphas(states: _States) -> Array:
    """Return the alphas, (time, batch, states)."""
    alphas = np.full_like(states.emissions, -np.inf)
    alphas[:1, :, :2] = states.emissions[:1, :, :2]
    for t in range(1, len(alphas)):
        before, now = alphas[t - 1], alphas[t]
        now[:] = before
        now[:, 1:] = np.logaddexp(now[:, 1:], before[:, :-1])
        skipping = np.where(states.skippable[:, 2:], before[:, :-2], -np.inf)
        now[:, 2:] = np.logaddexp(now[:, 2:], skipping)
        now += states.emissions[t]
    return alphas


def _betas(states: _States, input_lengths: Array, target_lengths: Array) -> Array:
    """Return the betas, (time, batch, states), without the step's own emission; -infinity beyond a sequence's end."""
    betas = np.full_like(states.emissions, -np.inf)
    batch = np.arange(len(input_lengths))
    final = np.full_like(betas[0], -np.inf)
    final[batch, 2 * target_lengths] = 0
    final[batch, np.maximum(2 * target_lengths - 1, 0)] = 0
    for t in reversed(range(len(betas))):
        if t + 1 < len(betas):
            after = betas[t + 1] + states.emissions[t + 1]
            now = betas[t]
            now[:] = after
            now[:, :-1] = np.logaddexp(now[:, :-1], after[:, 1:])
            skipping = np.where(states.skippable[:, 2:], after[:, 2:], -np.inf)
            now[:, :-2] = np.logaddexp(now[:, :-2], skipping)
        ends = input_lengths == t + 1
        betas[t, ends] = final[ends]
    return betas


def _totals(alphas: Array, input_lengths: Array, target_lengths: Array) -> Array:
    """Return the log probabilities of the targets, (batch,)."""
    batch = np.arange(len(input_lengths))
    if not len(alphas):
        return np.where(target_lengths == 0, 0, -np.inf).astype(alphas.dtype)
    last = alphas[np.maximum(input_lengths - 1, 0), batch]
    ends = last[batch, 2 * target_lengths]
    before = np.where(target_lengths > 0, last[batch, np.maximum(2 * target_lengths - 1, 0)], -np.inf)
    totals: Array = np.logaddexp(ends, before)
    return np.where(input_lengths > 0, totals, np.where(target_lengths == 0, 0, -np.inf)).astype(alphas.dtype)
