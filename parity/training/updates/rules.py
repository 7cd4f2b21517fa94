"""`Rule`: the formula and numbers by which an optimizer updates a parameter in one step, and its replay in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...sides.records import Array

SGD, ADAM, ADAGRAD, RMSPROP = "SGD", "Adam", "Adagrad", "RMSprop"
CORRECTED, UNCORRECTED, IN_ROOT = "corrected root", "uncorrected root", "square"
"""What Adam adds eps to: `sqrt(v / (1 - beta2**t))`, `sqrt(v)`, or the mean of squares inside the root."""


@dataclass(frozen=True)
class Rule:
    """An optimizer's settings for a parameter in one step; those that its formula doesn't use have no effect.

    Attributes:
        kind: `SGD`, `ADAM`, `ADAGRAD` or `RMSPROP`.
        lr: learning rate.
        weight_decay: multiple of the parameter that is added to the gradient, or, if `decoupled`, taken off it.
        decoupled: whether the decay bypasses the formula, as in AdamW (arXiv:1711.05101).
        momentum: factor of the update before.
        dampening: share of the gradient that is kept out of the momentum.
        nesterov: whether the momentum looks ahead.
        beta1: decay rate of the mean of gradients.
        beta2: decay rate of the mean of squares; RMSprop's alpha.
        eps: number added to the divisor.
        eps_place: what it is added to.
        bias_correction: whether Adam divides its means by `1 - beta**t`.
        amsgrad: whether the largest mean of squares so far is used (arXiv:1904.09237).
        centered: whether RMSprop subtracts the square of the mean.
        lr_decay: how fast Adagrad's learning rate falls.
        start: Adagrad's sum of squares and RMSprop's mean of squares before the first step.
        maximize: whether the loss is maximized.
    """

    kind: str
    lr: float
    weight_decay: float = 0.0
    decoupled: bool = False
    momentum: float = 0.0
    dampening: float = 0.0
    nesterov: bool = False
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    eps_place: str = CORRECTED
    bias_correction: bool = True
    amsgrad: bool = False
    centered: bool = False
    lr_decay: float = 0.0
    start: float = 0.0
    maximize: bool = False


class State:
    """What an optimizer keeps of a parameter from step to step."""

    def __init__(self) -> None:
        self.step = 0
        self.tensors: dict[str, Array] = {}

    def get(self, name: str, like: Array, start: float = 0.0) -> Array:
        """Return a tensor, at first full of `start`."""
        return self.tensors.get(name, np.full(like.shape, start))


def replay(rules: Sequence[Rule], gradients: Sequence[Array], parameters: Sequence[Array]) -> list[Array]:
    """Return the change of a parameter in each step, each from where the candidate was.

    Args:
        rules: one for each step.
        gradients: what the optimizer got in each step, in float64.
        parameters: the parameter before each step, in float64.
    """
    state = State()
    changes = []
    for rule, gradient, parameter in zip(rules, gradients, parameters, strict=True):
        state.step += 1
        g = -gradient if rule.maximize else gradient
        if not rule.decoupled:
            g = g + rule.weight_decay * parameter
        change = FORMULAS[rule.kind](rule, g, state)
        changes.append(change - rule.lr * rule.weight_decay * parameter if rule.decoupled else change)
    return changes


def _sgd(rule: Rule, g: Array, state: State) -> Array:
    """Stochastic gradient descent (`torch.optim.SGD`): the first gradient isn't dampened."""
    if not rule.momentum:
        return -rule.lr * g
    before = state.tensors.get("momentum")
    v = g if before is None else rule.momentum * before + (1 - rule.dampening) * g
    state.tensors["momentum"] = v
    return -rule.lr * (g + rule.momentum * v if rule.nesterov else v)


def _adam(rule: Rule, g: Array, state: State) -> Array:
    """Adam (arXiv:1412.6980, `torch.optim.Adam`), and the forms that `nn.Adam` and `nn.AdamWeightDecay` have."""
    m = rule.beta1 * state.get("mean", g) + (1 - rule.beta1) * g
    v = rule.beta2 * state.get("square", g) + (1 - rule.beta2) * g * g
    state.tensors |= {"mean": m, "square": v}
    if rule.amsgrad:
        v = np.maximum(state.get("largest", g), v)
        state.tensors["largest"] = v
    first, second = 1.0, 1.0
    if rule.bias_correction:
        first, second = 1 - rule.beta1**state.step, 1 - rule.beta2**state.step
    return -rule.lr * (m / first) / _divisor(rule, v, second)


def _divisor(rule: Rule, v: Array, correction: float) -> Array:
    if rule.eps_place == IN_ROOT:
        divisor = np.sqrt(v / correction + rule.eps)
    elif rule.eps_place == UNCORRECTED:
        divisor = (np.sqrt(v) + rule.eps) / np.sqrt(correction)
    else:
        divisor = np.sqrt(v / correction) + rule.eps
    return np.where(divisor == 0, 1.0, divisor)  # where the gradient was always 0, so is the numerator


def _adagrad(rule: Rule, g: Array, state: State) -> Array:
    """Adagrad (Duchi et al. 2011, `torch.optim.Adagrad`)."""
    total = state.get("sum", g, rule.start) + g * g
    state.tensors["sum"] = total
    return -rule.lr / (1 + (state.step - 1) * rule.lr_decay) * g / _divisor(rule, total, 1.0)


def _rmsprop(rule: Rule, g: Array, state: State) -> Array:
    """RMSprop (Hinton's lecture 6e, `torch.optim.RMSprop`)."""
    v = rule.beta2 * state.get("square", g, rule.start) + (1 - rule.beta2) * g * g
    state.tensors["square"] = v
    if rule.centered:
        mean = rule.beta2 * state.get("mean", g) + (1 - rule.beta2) * g
        state.tensors["mean"] = mean
        v = np.maximum(v - mean * mean, 0.0)
    step = rule.momentum * state.get("momentum", g) + g / _divisor(rule, v, 1.0)
    state.tensors["momentum"] = step
    return -rule.lr * step


FORMULAS: dict[str, Callable[[Rule, Array, State], Array]] = {
    SGD: _sgd,
    ADAM: _adam,
    ADAGRAD: _adagrad,
    RMSPROP: _rmsprop,
}
