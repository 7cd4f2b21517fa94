"""`Rule`: the formula and numbers by which an optimizer updates a parameter in one step, and its replay in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ....sides.records import Array

SGD, ADAM, ADAGRAD, RMSPROP = "SGD", "Adam", "Adagrad", "RMSprop"
ADAMAX, NADAM, RADAM, ADADELTA = "Adamax", "NAdam", "RAdam", "Adadelta"
CORRECTED, UNCORRECTED, IN_ROOT, IN_MAXIMUM = "corrected root", "uncorrected root", "square", "maximum"
"""What eps is added to: `sqrt(v / (1 - beta2**t))`, `sqrt(v)`, or the mean of squares inside the root.

Adamax adds it to its maximum (`CORRECTED`), or to the gradients of which that is taken (`IN_MAXIMUM`).
"""


@dataclass(frozen=True)
class Rule:
    """An optimizer's settings for a parameter in one step; those that its formula doesn't use have no effect.

    Attributes:
        kind: a key of `FORMULAS`.
        lr: learning rate.
        weight_decay: multiple of the parameter that is added to the gradient, or, if `decoupled`, taken off it.
        decoupled: whether the decay bypasses the formula, as in AdamW (arXiv:1711.05101).
        momentum: factor of the update before.
        dampening: share of the gradient that is kept out of the momentum.
        nesterov: whether the momentum looks ahead.
        beta1: decay rate of the mean of gradients.
        beta2: decay rate of the mean of squares, or of Adamax's maximum; RMSprop's alpha, Adadelta's rho.
        eps: number added to the divisor.
        eps_place: what it is added to.
        bias_correction: whether Adam divides its means by `1 - beta**t`.
        amsgrad: whether the largest mean of squares so far is used (arXiv:1904.09237).
        centered: whether RMSprop subtracts the square of the mean.
        momentum_decay: how fast NAdam's beta1 rises to its value.
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
    momentum_decay: float = 4e-3
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
    m, v = _means(rule, g, state)
    if rule.amsgrad:
        v = np.maximum(state.get("largest", g), v)
        state.tensors["largest"] = v
    first, second = 1.0, 1.0
    if rule.bias_correction:
        first, second = 1 - rule.beta1**state.step, 1 - rule.beta2**state.step
    return -rule.lr * (m / first) / _divisor(rule, v, second)


def _means(rule: Rule, g: Array, state: State) -> tuple[Array, Array]:
    """Return the running means of the gradient and of its square, and keep them."""
    m = rule.beta1 * state.get("mean", g) + (1 - rule.beta1) * g
    v = rule.beta2 * state.get("square", g) + (1 - rule.beta2) * g * g
    state.tensors |= {"mean": m, "square": v}
    return m, v


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


def _adamax(rule: Rule, g: Array, state: State) -> Array:
    """Adamax (arXiv:1412.6980, section 7.1, `torch.optim.Adamax`), and the form that `nn.AdaMax` has."""
    m = rule.beta1 * state.get("mean", g) + (1 - rule.beta1) * g
    in_maximum = rule.eps if rule.eps_place == IN_MAXIMUM else 0.0
    v = np.maximum(rule.beta2 * state.get("maximum", g), np.abs(g) + in_maximum)
    state.tensors |= {"mean": m, "maximum": v}
    divisor = v + (rule.eps - in_maximum)
    return -rule.lr / (1 - rule.beta1**state.step) * m / np.where(divisor == 0, 1.0, divisor)


def _nadam(rule: Rule, g: Array, state: State) -> Array:
    """NAdam (Dozat 2016, `torch.optim.NAdam`, which keeps the product of its betas in float32)."""
    now, following = (
        rule.beta1 * (1 - 0.5 * 0.96 ** (step * rule.momentum_decay)) for step in (state.step, state.step + 1)
    )
    product = float(np.float32(state.get("product", np.ones(()), 1.0)) * np.float32(now))
    m, v = _means(rule, g, state)
    state.tensors["product"] = np.asarray(product)
    divisor = _divisor(rule, v, 1 - rule.beta2**state.step)
    of_gradient, of_mean = (1 - now) / (1 - product), following / (1 - product * following)
    change: Array = -rule.lr * (of_gradient * g + of_mean * m) / divisor
    return change


def _radam(rule: Rule, g: Array, state: State) -> Array:
    """RAdam (arXiv:1908.03265, `torch.optim.RAdam`): the first steps, of little variance, aren't divided."""
    m, v = _means(rule, g, state)
    corrected, correction = m / (1 - rule.beta1**state.step), 1 - rule.beta2**state.step
    longest = 2 / (1 - rule.beta2) - 1
    length = longest - 2 * state.step * rule.beta2**state.step / correction
    if length <= 5:
        return -rule.lr * corrected
    share = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    change: Array = -rule.lr * corrected * np.sqrt(share) / _divisor(rule, v, correction)
    return change


def _adadelta(rule: Rule, g: Array, state: State) -> Array:
    """Adadelta (arXiv:1212.5701, `torch.optim.Adadelta`)."""
    v = rule.beta2 * state.get("square", g) + (1 - rule.beta2) * g * g
    updates = state.get("updates", g)
    divisor = v + rule.eps
    update = np.sqrt((updates + rule.eps) / np.where(divisor == 0, 1.0, divisor)) * g
    state.tensors |= {"square": v, "updates": rule.beta2 * updates + (1 - rule.beta2) * update * update}
    return -rule.lr * update


FORMULAS: dict[str, Callable[[Rule, Array, State], Array]] = {
    SGD: _sgd,
    ADAM: _adam,
    ADAGRAD: _adagrad,
    RMSPROP: _rmsprop,
    ADAMAX: _adamax,
    NADAM: _nadam,
    RADAM: _radam,
    ADADELTA: _adadelta,
}
