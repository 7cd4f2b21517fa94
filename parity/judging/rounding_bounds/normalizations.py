"""Rules of normalizations, softmax and attention: their formulas, step by step, on values with bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....runtime.ops.attention import attention_weights
from ....runtime.ops.registry import evaluate
from ...sides.records import Array
from .estimates import Application, Estimate, Units, bound_of, together
from .sums import mean_over, product_bound

FUNCTION_UNITS = 4.0
"""Unit roundoffs by which implementations of a function such as exp or sqrt may be off."""


# ---- normalizations ----


def layer_norm(a: Application) -> tuple[Array, ...]:
    """For `layer_norm`, `standardize`, and their kin with statistics."""
    x = a.first
    axes = tuple(range(x.value.ndim - a.attributes["axes_count"], x.value.ndim))
    return _results(a, *_standardized(x, axes, a.attributes["eps"], a.units), a.operands[1:])


def rms_norm(a: Application) -> tuple[Array, ...]:
    """For `rms_norm` with or without statistics."""
    x = a.first
    axes = tuple(range(x.value.ndim - a.attributes["axes_count"], x.value.ndim))
    factor = _inverse_deviation(x, axes, a.attributes["eps"], a.units)
    return _results(a, _product(x, factor, a.units), factor, a.operands[1:])


def group_norm(a: Application) -> tuple[Array, ...]:
    """For `group_norm` with or without statistics."""
    x = a.first
    grouped = (x.value.shape[0], a.attributes["groups"], math.prod(x.value.shape[1:]) // a.attributes["groups"])
    rows = Estimate(x.value.reshape(grouped), bound_of(x).reshape(grouped))
    scaled, factor = _standardized(rows, (2,), a.attributes["eps"], a.units)
    scaled = Estimate(scaled.value.reshape(x.value.shape), bound_of(scaled).reshape(x.value.shape))
    return _results(a, scaled, factor, [_per_channel(operand, x.value.ndim) for operand in a.operands[1:]])


def batch_norm(a: Application) -> tuple[Array, ...]:
    """With given statistics."""
    x = a.first
    mean, variance, weight, bias = (_per_channel(operand, x.value.ndim) for operand in a.operands[1:])
    assert mean is not None
    assert variance is not None
    centered = Estimate(
        x.value - mean.value, together(bound_of(x), bound_of(mean), _folded(x.value, mean.value, a.units))
    )
    scaled = _product(centered, _inverse_root(variance, a.attributes["eps"], a.units), a.units)
    return (bound_of(_affine(scaled, weight, bias, a.units)),)


def batch_norm_train(a: Application) -> tuple[Array | None, ...]:
    """With the statistics of the batch, which are returned."""
    x = a.first
    axes = (0, *range(2, x.value.ndim))
    mean = mean_over(x, axes, a.units)
    centered, variance = _variance(x, axes, a.units)
    centered = Estimate(centered.value, together(bound_of(centered), _folded(x.value, mean.value, a.units)))
    scaled = _product(centered, _inverse_root(variance, a.attributes["eps"], a.units), a.units)
    weight, bias = (_per_channel(operand, x.value.ndim) for operand in a.operands[1:])
    return bound_of(_affine(scaled, weight, bias, a.units)), bound_of(mean).reshape(-1), bound_of(variance).reshape(-1)


def variance(a: Application) -> tuple[Array, ...]:
    """With any correction of the count."""
    x, axes = a.first, a.attributes["axes"]
    axes = tuple(range(x.value.ndim)) if axes is None else tuple(axis % x.value.ndim for axis in axes)
    _, biased = _variance(x, axes, a.units)
    count = math.prod(x.value.shape[axis] for axis in axes)
    scale = count / (count - a.attributes["correction"]) if count > a.attributes["correction"] else math.nan
    return ((bound_of(biased) * scale).reshape(a.outputs[0].shape),)


def _results(
    a: Application, scaled: Estimate, factor: Estimate, parameters: Sequence[Estimate | None]
) -> tuple[Array, ...]:
    """The bounds of a normalization's one, two or three outputs: the last two are the statistics."""
    weight, bias = (*parameters, None, None)[:2]
    bounds = [bound_of(_affine(scaled, weight, bias, a.units)), bound_of(scaled), bound_of(factor)]
    chosen = {1: bounds[:1], 2: bounds[1:], 3: bounds}[len(a.outputs)]
    return tuple(bound.reshape(y.shape) for bound, y in zip(chosen, a.outputs, strict=True))


def _standardized(x: Estimate, axes: tuple[int, ...], eps: float, units: Units) -> tuple[Estimate, Estimate]:
    """`(x - mean) * r`, and `r = 1 / sqrt(variance + eps)`."""
    centered, variance = _variance(x, axes, units)
    factor = _inverse_root(variance, eps, units)
    return _product(centered, factor, units), factor


def _variance(x: Estimate, axes: tuple[int, ...], units: Units) -> tuple[Estimate, Estimate]:
    """`x - mean`, and the biased variance."""
    mean = mean_over(x, axes, units)
    value = x.value - mean.value
    centered = Estimate(value, together(bound_of(x), bound_of(mean), units.sums * value))
    return centered, mean_over(_square(centered, units), axes, units)


def _inverse_deviation(x: Estimate, axes: tuple[int, ...], eps: float, units: Units) -> Estimate:
    return _inverse_root(mean_over(_square(x, units), axes, units), eps, units)


def _square(x: Estimate, units: Units) -> Estimate:
    value = np.square(x.value)
    return Estimate(value, together(2 * x.value * bound_of(x), units.sums * value))


def _inverse_root(x: Estimate, eps: float, units: Units) -> Estimate:
    value = 1 / np.sqrt(x.value + eps)
    return Estimate(value, together(value**3 / 2 * bound_of(x), FUNCTION_UNITS * units.sums * value))


def _product(x: Estimate, factor: Estimate, units: Units) -> Estimate:
    value = x.value * factor.value
    return Estimate(value, together(bound_of(x) * factor.value, x.value * bound_of(factor), units.results * value))


def _affine(x: Estimate, weight: Estimate | None, bias: Estimate | None, units: Units) -> Estimate:
    """`x * weight + bias`; an absent operand is left out."""
    if weight is not None:
        x = _product(x, weight, units)
    if bias is not None:
        value = x.value + bias.value
        x = Estimate(value, together(bound_of(x), bound_of(bias), units.results * value))
    return x


def _folded(x: Array, mean: Array, units: Units) -> Array:
    """What `x * scale + (bias - mean * scale)`, the usual form, rounds before its scale."""
    return units.sums * (np.abs(x) + np.abs(mean))


def _per_channel(x: Estimate | None, rank: int) -> Estimate | None:
    """A vector as it broadcasts to the second of `rank` axes."""
    if x is None:
        return None
    shape = (-1, *(1,) * (rank - 2))
    return Estimate(x.value.reshape(shape), bound_of(x).reshape(shape))


# ---- softmax and attention ----


def softmax(a: Application) -> tuple[Array, ...]:
    """Each weight by its own exponential and by the sum."""
    x, axis = a.first, (a.attributes["axis"],)
    relative = _exponent_bound(x.value, bound_of(x), axis, a.units)
    return (_softmax_bound(a.outputs[0], relative, axis, a.units),)


def log_softmax(a: Application) -> tuple[Array, ...]:
    """The exponent, less the logarithm of the sum."""
    x, axis = a.first, (a.attributes["axis"],)
    exponent = _exponent_bound(x.value, bound_of(x), axis, a.units)
    of_sum = _log_sum_bound(np.exp(a.outputs[0]), exponent, axis, a.units)
    return (together(exponent, of_sum, a.units.results * a.outputs[0]),)


def logsumexp(a: Application) -> tuple[Array, ...]:
    """The largest element, plus the logarithm of a sum."""
    x, axes = a.first, a.attributes["axes"]
    axes = tuple(range(x.value.ndim)) if axes is None else tuple(axes)
    exponent = _exponent_bound(x.value, bound_of(x), axes, a.units)
    shifted = np.exp(x.value - x.value.max(axis=axes, keepdims=True, initial=-np.inf))
    weights = shifted / shifted.sum(axis=axes, keepdims=True)
    of_sum = _log_sum_bound(weights, exponent, axes, a.units)
    return (together(of_sum.reshape(a.outputs[0].shape), FUNCTION_UNITS * a.units.results * a.outputs[0]),)


def attention(a: Application) -> tuple[Array, ...]:
    """For `attention_weights`, `attention_with_weights` and `scaled_dot_product_attention`."""
    q, k, *others = a.operands
    assert q is not None
    assert k is not None
    only_weights = a.op.name == "attention_weights"
    mask = others[0] if only_weights else others[1]
    weights = _attention_weights(q, k, mask, a)
    bounds = [_weights_bound(q, k, mask, weights, a)]
    if not only_weights:
        v, dropped = others[0], others[2]
        assert v is not None
        kept = 1.0 if dropped is None else dropped.value / (1 - a.attributes["dropout"])
        applied = Estimate(weights * kept, bounds[0] * kept)
        bounds.insert(0, product_bound(lambda x, y, _: x @ y, applied, v, None, a.outputs[0], a.units))
    return tuple(bounds[: len(a.outputs)])


def _attention_weights(q: Estimate, k: Estimate, mask: Estimate | None, a: Application) -> Array:
    attributes = {name: a.attributes[name] for name in ("causal", "scale")}
    operands = [q.value, k.value, None if mask is None else mask.value]
    return evaluate(attention_weights, operands, attributes)[0]


def _weights_bound(q: Estimate, k: Estimate, mask: Estimate | None, weights: Array, a: Application) -> Array:
    scale = a.attributes["scale"]
    scale = 1 / math.sqrt(q.value.shape[-1]) if scale is None else scale
    products = q.value @ k.value.swapaxes(-1, -2)
    of_products = product_bound(lambda x, y, _: x @ y.swapaxes(-1, -2), q, k, None, products, a.units)
    scores, bound = products * scale, together(of_products, a.units.sums * products) * abs(scale)
    if mask is not None and mask.bound is not None:
        scores = scores + mask.value
        bound = together(bound, mask.bound, a.units.sums * scores)
    attends = weights > 0  # elsewhere scores of a mask may be infinite
    exponent = np.where(attends, _exponent_bound(np.where(attends, scores, -np.inf), bound, (-1,), a.units), 0.0)
    return _softmax_bound(weights, exponent, (-1,), a.units)


def _exponent_bound(x: Array, bound: Array, axes: tuple[int, ...], units: Units) -> Array:
    """The bound of the difference of x and its largest element."""
    below = np.abs(x - x.max(axis=axes, keepdims=True, initial=-np.inf))
    return together(bound, units.sums * np.where(np.isfinite(below), below, 0.0))


def _softmax_bound(weights: Array, exponent: Array, axes: tuple[int, ...], units: Units) -> Array:
    of_sum = _log_sum_bound(weights, exponent, axes, units)
    return weights * together(exponent, of_sum, FUNCTION_UNITS * units.results)


def _log_sum_bound(weights: Array, exponent: Array, axes: tuple[int, ...], units: Units) -> Array:
    """The bound of the logarithm of a sum of exponentials, of which `weights` are the shares."""
    count = math.prod(weights.shape[axis] for axis in axes)
    inherited = np.sqrt(np.square(weights * exponent).sum(axis=axes, keepdims=True))
    return together(inherited, units.sums * (FUNCTION_UNITS + math.sqrt(2 * count)))
