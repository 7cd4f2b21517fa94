"""Random initializers; they use the generator of `runtime.ops.random`, which `set_seed` seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .. import checks
from ..ops import random
from .initializer_base import Array, Initializer, Shape, check_dimensions, fans

_FLOAT64 = np.dtype(np.float64)


@dataclass(eq=False, repr=False)
class Uniform(Initializer):
    """Uniform distribution on [-scale, scale)."""

    scale: float = 0.07

    def _values(self, shape: Shape) -> Array:
        return _uniform(-self.scale, self.scale, shape)


@dataclass(eq=False, repr=False)
class Normal(Initializer):
    """Normal distribution with standard deviation `sigma` (at least 0) and mean `mean`."""

    sigma: float = 0.01
    mean: float = 0.0

    def __post_init__(self) -> None:
        checks.in_range(self.sigma, "sigma", "[0, inf)", of="Normal")

    def _values(self, shape: Shape) -> Array:
        return _normal(self.mean, self.sigma, shape)


@dataclass(eq=False, repr=False)
class TruncatedNormal(Initializer):
    """Normal distribution with standard deviation `sigma` and mean `mean`, truncated to [a, b].

    The bounds are absolute values, not multiples of `sigma`. `ValueError` unless sigma > 0 and a < b.
    """

    sigma: float = 0.01
    mean: float = 0.0
    a: float = -2.0
    b: float = 2.0

    def __post_init__(self) -> None:
        checks.in_range(self.sigma, "sigma", "(0, inf)", of="TruncatedNormal")
        if not self.a < self.b:
            raise ValueError(f"For 'TruncatedNormal', 'a' must be below 'b', but got {self.a} and {self.b}")

    def _values(self, shape: Shape) -> Array:
        return _truncated_normal(self.mean, self.sigma, self.a, self.b, shape)


@dataclass(eq=False, repr=False)
class XavierUniform(Initializer):
    """Uniform distribution on [-b, b), b = gain * sqrt(6 / (fan_in + fan_out)). Glorot and Bengio, 2010."""

    gain: float = 1

    def _values(self, shape: Shape) -> Array:
        bound = self.gain * math.sqrt(6.0 / sum(fans(self, shape)))
        return _uniform(-bound, bound, shape)


@dataclass(eq=False, repr=False)
class XavierNormal(Initializer):
    """Normal distribution, mean 0, standard deviation gain * sqrt(2 / (fan_in + fan_out)). Glorot and Bengio, 2010."""

    gain: float = 1

    def _values(self, shape: Shape) -> Array:
        return _normal(0.0, self.gain * math.sqrt(2.0 / sum(fans(self, shape))), shape)


@dataclass(eq=False, repr=False)
class HeNormal(Initializer):
    """Normal distribution, mean 0, standard deviation gain / sqrt(fan). He et al., 2015.

    Source: "Delving deep into rectifiers".

    Args:
        negative_slope: the slope of the leaky ReLU that follows; used only for `nonlinearity` "leaky_relu", where the
            gain is sqrt(2 / (1 + negative_slope**2)).
        mode: the fan to use: "fan_in" preserves the variance of activations, "fan_out" that of gradients.
        nonlinearity: the function that follows: "leaky_relu", "relu", "tanh", "sigmoid", "linear" or the name of a
            convolution.

    Raises:
        ValueError: `mode` or `nonlinearity` is unknown, or the tensor has fewer than 2 dimensions.
    """

    negative_slope: float = 0
    mode: str = "fan_in"
    nonlinearity: str = "leaky_relu"

    def __post_init__(self) -> None:
        of = type(self).__name__
        self.mode = checks.one_of(str(self.mode).lower(), "mode", ("fan_in", "fan_out"), of=of)
        checks.one_of(self.nonlinearity, "nonlinearity", ("leaky_relu", *_GAINS), of=of)
        if isinstance(self.negative_slope, bool) or not isinstance(self.negative_slope, (int, float)):
            raise ValueError(f"For '{of}', 'negative_slope' must be a number, but got {self.negative_slope!r}")

    def _deviation(self, shape: Shape) -> float:
        fan_in, fan_out = fans(self, shape)
        leaky = math.sqrt(2.0 / (1 + self.negative_slope**2))
        return _GAINS.get(self.nonlinearity, leaky) / math.sqrt(fan_in if self.mode == "fan_in" else fan_out)

    def _values(self, shape: Shape) -> Array:
        return _normal(0.0, self._deviation(shape), shape)


_GAINS = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3.0} | dict.fromkeys(
    ("sigmoid", "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0
)


@dataclass(eq=False, repr=False)
class HeUniform(HeNormal):
    """Uniform distribution on [-b, b), b = gain * sqrt(3 / fan); arguments and errors as for `HeNormal`."""

    def _values(self, shape: Shape) -> Array:
        bound = math.sqrt(3.0) * self._deviation(shape)
        return _uniform(-bound, bound, shape)


@dataclass(eq=False, repr=False)
class VarianceScaling(Initializer):
    """A distribution with variance scale / n.

    Args:
        scale: above 0.
        mode: what n is: "fan_in", "fan_out", or "fan_avg" for their mean.
        distribution: "truncated_normal" (truncated at two standard deviations, and scaled up to compensate for it),
            "untruncated_normal" or "uniform".
    """

    scale: float = 1.0
    mode: str = "fan_in"
    distribution: str = "truncated_normal"

    def __post_init__(self) -> None:
        of = "VarianceScaling"
        checks.in_range(self.scale, "scale", "(0, inf)", of=of)
        checks.one_of(self.mode, "mode", ("fan_in", "fan_out", "fan_avg"), of=of)
        distributions = ("uniform", "truncated_normal", "untruncated_normal")
        checks.one_of(self.distribution, "distribution", distributions, of=of)

    def _values(self, shape: Shape) -> Array:
        fan_in, fan_out = fans(self, shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        deviation = math.sqrt(self.scale / max(1.0, n))
        if self.distribution == "uniform":
            return _uniform(-math.sqrt(3.0) * deviation, math.sqrt(3.0) * deviation, shape)
        if self.distribution == "untruncated_normal":
            return _normal(0.0, deviation, shape)
        deviation /= _DEVIATION_WITHIN_TWO
        return _truncated_normal(0.0, deviation, -2 * deviation, 2 * deviation, shape)


_DEVIATION_WITHIN_TWO = 0.87962566103423978
"""Standard deviation of the standard normal distribution truncated to [-2, 2]."""


@dataclass(eq=False, repr=False)
class Orthogonal(Initializer):
    """`gain` times a matrix with orthonormal rows or columns, whichever are fewer.

    The dimensions after the first are flattened. Saxe et al., 2013. `ValueError` for fewer than 2 dimensions.
    """

    gain: float = 1.0

    def _values(self, shape: Shape) -> Array:
        if len(shape) < 2:
            raise ValueError(f"For 'Orthogonal', the tensor must have at least 2 dimensions, but got shape {shape}")
        rows, columns = shape[0], math.prod(shape[1:])
        q, r = np.linalg.qr(_normal(0.0, 1.0, (max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))  # makes the distribution uniform over orthogonal matrices
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


@dataclass(eq=False, repr=False)
class Sparse(Initializer):
    """Normal distribution, mean 0, standard deviation `sigma`; in each column, a fraction `sparsity` of elements is 0.

    Martens, 2010. `ValueError` for a tensor that isn't 2-D.
    """

    sparsity: float
    sigma: float = 0.01

    def __post_init__(self) -> None:
        checks.in_range(self.sparsity, "sparsity", "[0, 1]", of="Sparse")
        checks.in_range(self.sigma, "sigma", "[0, inf)", of="Sparse")

    def _values(self, shape: Shape) -> Array:
        check_dimensions(self, shape, (2,))
        values = _normal(0.0, self.sigma, shape)
        order = np.argsort(_uniform(0.0, 1.0, shape), axis=0)
        values[order[: math.ceil(self.sparsity * shape[0])], np.arange(shape[1])] = 0
        return values


# ---- samples ----


def _uniform(low: float, high: float, shape: Shape) -> Array:
    return np.asarray(random.uniform(shape=shape, low=low, high=high, dtype=_FLOAT64))


def _normal(mean: float, deviation: float, shape: Shape) -> Array:
    return np.asarray(random.normal(shape=shape, mean=mean, deviation=deviation, dtype=_FLOAT64))


def _truncated_normal(mean: float, deviation: float, low: float, high: float, shape: Shape) -> Array:
    """Rejection sampling: uniform samples, each accepted with a probability proportional to its density."""
    low, high = (low - mean) / deviation, (high - mean) / deviation
    mode = min(max(0.0, low), high)
    low, high = max(low, mode - 40), min(high, mode + 40)  # beyond these bounds the density is 0 in float64
    samples: list[Array] = []
    missing = math.prod(shape)
    while missing > 0:
        count = max(2 * missing, 64)
        x, chance = _uniform(low, high, (count,)), _uniform(0.0, 1.0, (count,))
        samples.append(x[chance < np.exp((mode**2 - x**2) / 2)][:missing])
        missing -= samples[-1].size
    return mean + deviation * np.concatenate(samples).reshape(shape)
