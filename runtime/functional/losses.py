"""Losses that compare numbers or probabilities element by element. See also `cross_entropy` and `margin_losses`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import checks
from ..ops import activation, comparison, elementwise, shaping
from ..ops import loss as loss_ops
from ..ops.declarations import zero
from ..ops.reduction import reduce_mean, reduce_sum
from .operands import as_floating, promote_pair
from .public_op import Primitive, public_op

REDUCTIONS = ("mean", "sum", "none")
"""The reductions of a loss: the mean of its elements, their sum, or no reduction."""


def reduce_loss(loss: Any, how: str, *, of: str) -> Any:
    """Apply a reduction to the losses of the elements; `ValueError` if it is unknown."""
    checks.one_of(how, "reduction", REDUCTIONS, of=of)
    if how == "none":
        return loss
    return reduce_mean(loss) if how == "mean" else reduce_sum(loss)


def comparable_pair(a: Any, b: Any, names: tuple[str, str], *, of: str) -> tuple[Any, Any]:
    """Return two floating-point operands in a common dtype; raise `ValueError` unless their shapes are equal."""
    a, b = real_pair(a, b, names, of=of)
    if tuple(a.shape) != tuple(b.shape):
        first, second = names
        raise ValueError(
            f"For '{of}', '{first}' and '{second}' must have one shape, but got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    return a, b


def real_pair(a: Any, b: Any, names: tuple[str, str], *, of: str) -> tuple[Any, Any]:
    """Convert two operands to a common floating-point dtype."""
    return promote_pair(as_floating(a, names[0], of=of), as_floating(b, names[1], of=of), of=of)


def _one(like: Any) -> Any:
    return np.ones((), like.dtype)


# ---- numbers ----


@public_op()
def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Squared error: (input - target)**2, reduced; the operands broadcast."""
    a, b = real_pair(input, target, ("input", "target"), of="mse_loss")
    difference = a - b
    return reduce_loss(difference * difference, reduction, of="mse_loss")


@public_op()
def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Any:
    """Absolute error: |input - target|, reduced; the operands broadcast."""
    a, b = real_pair(input, target, ("input", "target"), of="l1_loss")
    return reduce_loss(elementwise.abs(a - b), reduction, of="l1_loss")


@public_op(primitive=Primitive("SmoothL1Loss", init_args=("beta", "reduction")))
def smooth_l1_loss(input: Any, target: Any, beta: float = 1.0, reduction: str = "none") -> Any:
    """d**2 / (2 * beta) where d = |input - target| is below `beta`, d - beta / 2 elsewhere (Girshick 2015), reduced.

    Raises:
        ValueError: the operands have different shapes, `beta` is negative or `reduction` unknown.
    """
    a, b = comparable_pair(input, target, ("input", "target"), of="smooth_l1_loss")
    checks.in_range(beta, "beta", "[0, inf)", of="smooth_l1_loss")
    difference = a - b
    distance = elementwise.abs(difference)
    if beta == 0:
        return reduce_loss(distance, reduction, of="smooth_l1_loss")
    near, far = difference * difference * (0.5 / beta), distance - 0.5 * beta
    loss = elementwise.where(comparison.less(distance, float(beta)), near, far)
    return reduce_loss(loss, reduction, of="smooth_l1_loss")


@public_op()
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Any:
    """d**2 / 2 where d = |input - target| is at most `delta`, delta * (d - delta / 2) elsewhere (Huber 1964), reduced.

    The operands broadcast. `ValueError` if `delta` isn't above 0 or `reduction` is unknown.
    """
    a, b = real_pair(input, target, ("input", "target"), of="huber_loss")
    checks.in_range(delta, "delta", "(0, inf)", of="huber_loss")
    difference = a - b
    distance = elementwise.abs(difference)
    near, far = difference * difference * 0.5, (distance - 0.5 * delta) * delta
    loss = elementwise.where(comparison.less_equal(distance, float(delta)), near, far)
    return reduce_loss(loss, reduction, of="huber_loss")


@public_op(primitive="L2Loss")
def _l2_loss(input_x: Any) -> Any:
    """Half the sum of squares."""
    x = as_floating(input_x, "input_x", of="L2Loss")
    return reduce_sum(x * x) * 0.5


# ---- probabilities ----


@public_op(primitive=Primitive("BinaryCrossEntropy", init_args=("reduction",)))
def binary_cross_entropy(logits: Any, labels: Any, weight: Any = None, reduction: str = "mean") -> Any:
    """-(labels * log(x) + (1 - labels) * log(1 - x)), with logarithms clamped to at least -100, reduced.

    Args:
        logits: probabilities x (in spite of the name), in [0, 1].
        labels: probabilities, shaped as `logits`.
        weight: a factor for each element; broadcasts.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the operands have different shapes, or `reduction` is unknown.
    """
    x, target = comparable_pair(logits, labels, ("logits", "labels"), of="binary_cross_entropy")
    loss = loss_ops.binary_cross_entropy(x, target)
    return reduce_loss(loss if weight is None else loss * weight, reduction, of="binary_cross_entropy")


@public_op(primitive=Primitive("BCEWithLogitsLoss", init_args=("reduction",)))
def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, pos_weight: Any = None, reduction: str = "mean"
) -> Any:
    """`binary_cross_entropy` of sigmoid(input), computed without underflow.

    Args:
        input: any numbers.
        target: probabilities, shaped as `input`.
        weight: a factor for each element; broadcasts.
        pos_weight: a factor for positives (where the target is 1); broadcasts.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the operands have different shapes, or `reduction` is unknown.
    """
    of = "binary_cross_entropy_with_logits"
    x, target = comparable_pair(input, target, ("input", "target"), of=of)
    # -log(sigmoid(x)) for a positive, and x more than that for a negative
    positive = -activation.log_sigmoid(x)
    if pos_weight is not None:
        positive = positive * ((pos_weight - 1.0) * target + 1.0)
    loss = (1.0 - target) * x + positive
    return reduce_loss(loss if weight is None else loss * weight, reduction, of=of)


@public_op(primitive="SigmoidCrossEntropyWithLogits")
def _sigmoid_cross_entropy_with_logits(logits: Any, label: Any) -> Any:
    """`binary_cross_entropy_with_logits`, not reduced."""
    return binary_cross_entropy_with_logits(logits, label, reduction="none")


@public_op(primitive=Primitive("KLDivLoss", init_args=("reduction",)))
def kl_div(logits: Any, labels: Any, reduction: str = "mean") -> Any:
    """Kullback-Leibler divergence: labels * (log(labels) - logits), reduced (Kullback and Leibler 1951).

    It is 0 where a label isn't above 0.

    Args:
        logits: logarithms of probabilities.
        labels: probabilities, shaped as `logits`.
        reduction: "mean" over elements, "batchmean" (the sum over the size of dimension 0), "sum" or "none".

    Raises:
        ValueError: the operands have different shapes, or `reduction` is unknown.
    """
    x, target = comparable_pair(logits, labels, ("logits", "labels"), of="kl_div")
    checks.one_of(reduction, "reduction", (*REDUCTIONS, "batchmean"), of="kl_div")
    positive = comparison.greater(target, zero(target))
    logarithm = elementwise.log(elementwise.where(positive, target, _one(target)))
    loss = elementwise.where(positive, target * (logarithm - x), zero(x))
    if reduction == "batchmean":
        return reduce_loss(loss, "sum", of="kl_div") / x.shape[0]
    return reduce_loss(loss, reduction, of="kl_div")


@public_op()
def gaussian_nll_loss(
    x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Any:
    """Gaussian NLL: (log(v) + (x - target)**2 / v) / 2, v = max(var, eps), reduced (Nix and Weigend 1994).

    Args:
        x: mean of the distribution.
        target: samples; broadcasts with `x`.
        var: variance, shaped as `x`, or with size 1 for the last dimension, or without it.
        full: whether the constant log(2 * pi) / 2 is added.
        eps: the lower bound of the variance, above 0.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: `eps` isn't above 0, or `reduction` is unknown.
    """
    of = "gaussian_nll_loss"
    mean, target = real_pair(x, target, ("x", "target"), of=of)
    mean, variance = real_pair(mean, var, ("x", "var"), of=of)
    checks.in_range(eps, "eps", "(0, inf)", of=of)
    if variance.ndim == mean.ndim - 1 and tuple(variance.shape) == tuple(mean.shape[:-1]):
        variance = shaping.reshape(variance, shape=(*variance.shape, 1))
    variance = elementwise.clamp(variance, minimum=float(eps))
    difference = mean - target
    loss = (elementwise.log(variance) + difference * difference / variance) * 0.5
    return reduce_loss(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction, of=of)


@public_op()
def poisson_nll_loss(
    input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Any:
    """Poisson NLL: exp(x) - target * x, or x - target * log(x + eps) unless `log_input`, reduced.

    Args:
        input: x, the logarithm of the rate, or with `log_input=False` the rate.
        target: counts, shaped as `input`.
        log_input: whether `input` is the logarithm of the rate.
        full: whether Stirling's approximation of log(target!) is added where the target is above 1.
        eps: keeps the logarithm finite.
        reduction: "mean", "sum" or "none".

    Raises:
        ValueError: the operands have different shapes, or `reduction` is unknown.
    """
    of = "poisson_nll_loss"
    x, target = comparable_pair(input, target, ("input", "target"), of=of)
    loss = elementwise.exp(x) - target * x if log_input else x - target * elementwise.log(x + eps)
    if full:
        many = comparison.greater(target, 1.0)
        count = elementwise.where(many, target, _one(target))
        stirling = count * elementwise.log(count) - count + elementwise.log(count * (2 * math.pi)) * 0.5
        loss = loss + elementwise.where(many, stirling, zero(stirling))
    return reduce_loss(loss, reduction, of=of)
