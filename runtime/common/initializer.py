"""Initializers: what new Parameters hold, by name, number or object: `initializer("he_uniform", (4, 3), float32)`.

Random values are drawn from the generator of `runtime.ops.random`, which `set_seed` seeds.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks
from ..ops import random
from .dtype import float32, to_dtype
from .tensor import Tensor, wrapped

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
_FLOAT64 = np.dtype(np.float64)


def initializer(init: Any, shape: Any = None, dtype: Any = float32) -> Tensor:
    """A tensor filled as `init` says.

    Args:
        init: the name of an initializer (any case: "normal", "he_uniform", "XavierNormal"), an `Initializer`, a number
            that fills the tensor, or a tensor, which is returned as it is.
        shape: an int or a sequence of ints >= 1; needn't be given for a tensor.
        dtype: dtype of the elements.

    Raises:
        TypeError: `init` is none of these.
        ValueError: no initializer has that name, the shape isn't positive, or it isn't that of the tensor `init`.
    """
    if isinstance(init, Tensor):
        if shape is not None and init.shape != _as_shape(shape):
            raise ValueError(
                f"For 'initializer', the tensor 'init' must have the shape asked for, {_as_shape(shape)}, but got "
                f"{init.shape}"
            )
        return init
    if not isinstance(init, (str, numbers.Number, Initializer)):
        raise TypeError(
            "For 'initializer', 'init' must be a Tensor, a number, the name of an initializer or an Initializer, but "
            f"got {type(init).__name__}: {init!r}"
        )
    if shape is None:
        raise ValueError("For 'initializer', 'shape' must be given unless 'init' is a Tensor")
    array = np.zeros(_as_shape(shape), to_dtype(dtype))
    _as_initializer(init)(array)
    return wrapped(array)


def _as_shape(shape: Any) -> Shape:
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for size in sizes:
        if not isinstance(size, (int, np.integer)) or size < 1:
            raise ValueError(f"For 'initializer', 'shape' must consist of ints > 0, but got {shape}")
    return tuple(int(size) for size in sizes)


def _as_initializer(init: Any) -> Initializer:
    if isinstance(init, Initializer):
        return init
    if not isinstance(init, str):
        return Constant(init)
    if init.lower() not in _NAMED:
        raise ValueError(f"For 'initializer', 'init' must be one of {sorted(_NAMED)}, but got '{init}'")
    return _NAMED[init.lower()]()


class Initializer:
    """Base of the initializers.

    A subclass fills an array in place in `_initialize(arr)`, or gives the values for a shape in `_values(shape)`.
    Calling an initializer with an array fills it.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)

    def __call__(self, arr: Array) -> None:
        """Fill an array in place."""
        self._initialize(arr)

    def _initialize(self, arr: Array) -> None:
        arr[...] = self._values(arr.shape)

    def _values(self, shape: Shape) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _initialize(arr)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


# ---- without chance ----


@dataclass(eq=False, repr=False)
class Constant(Initializer):
    """Fills with one value: a number, or an array that broadcasts to the shape."""

    value: Any

    def _values(self, shape: Shape) -> Array:
        return np.broadcast_to(np.asarray(self.value), shape)


class Zero(Initializer):
    """Fills with 0."""

    def _values(self, shape: Shape) -> Array:
        return np.zeros(shape)


class One(Initializer):
    """Fills with 1."""

    def _values(self, shape: Shape) -> Array:
        return np.ones(shape)


class Identity(Initializer):
    """1 on the diagonal of a matrix, else 0; `ValueError` for a tensor that isn't 2-D."""

    def _values(self, shape: Shape) -> Array:
        _check_dimensions(self, shape, (2,))
        return np.eye(shape[0], shape[1])


@dataclass(eq=False, repr=False)
class Dirac(Initializer):
    """Makes of a convolution weight (out, in, ...) one that passes its input on: 1 at the centre of channel i to i.

    Args:
        groups: in how many groups the convolution works; each is filled alike.

    Raises:
        ValueError: the tensor isn't 3-, 4- or 5-D, or `groups` doesn't divide its first dimension.
    """

    groups: int = 1

    def __post_init__(self) -> None:
        checks.positive_int(self.groups, "groups", of="Dirac")

    def _values(self, shape: Shape) -> Array:
        _check_dimensions(self, shape, (3, 4, 5))
        if shape[0] % self.groups:
            raise ValueError(f"For 'Dirac', 'groups' must divide the first dimension of {shape}, but got {self.groups}")
        per_group = shape[0] // self.groups
        centre = tuple(size // 2 for size in shape[2:])
        filled = np.zeros(shape)
        for group in range(self.groups):
            for channel in range(min(per_group, shape[1])):
                filled[(group * per_group + channel, channel, *centre)] = 1
        return filled


# ---- drawn ----


@dataclass(eq=False, repr=False)
class Uniform(Initializer):
    """Drawn evenly from [-scale, scale)."""

    scale: float = 0.07

    def _values(self, shape: Shape) -> Array:
        return _uniform(-self.scale, self.scale, shape)


@dataclass(eq=False, repr=False)
class Normal(Initializer):
    """Drawn from the normal distribution with standard deviation `sigma` (at least 0) and mean `mean`."""

    sigma: float = 0.01
    mean: float = 0.0

    def __post_init__(self) -> None:
        checks.in_range(self.sigma, "sigma", "[0, inf)", of="Normal")

    def _values(self, shape: Shape) -> Array:
        return _normal(self.mean, self.sigma, shape)


@dataclass(eq=False, repr=False)
class TruncatedNormal(Initializer):
    """Drawn from the normal distribution of deviation `sigma` around `mean`, conditional on lying in [a, b].

    The bounds are values, not numbers of deviations. `ValueError` unless sigma > 0 and a < b.
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
    """Drawn evenly from [-b, b), b = gain * sqrt(6 / (fan_in + fan_out)). Glorot and Bengio, 2010."""

    gain: float = 1

    def _values(self, shape: Shape) -> Array:
        bound = self.gain * math.sqrt(6.0 / sum(_fans(self, shape)))
        return _uniform(-bound, bound, shape)


@dataclass(eq=False, repr=False)
class XavierNormal(Initializer):
    """Normal with mean 0 and deviation gain * sqrt(2 / (fan_in + fan_out)). Glorot and Bengio, 2010."""

    gain: float = 1

    def _values(self, shape: Shape) -> Array:
        return _normal(0.0, self.gain * math.sqrt(2.0 / sum(_fans(self, shape))), shape)


@dataclass(eq=False, repr=False)
class HeNormal(Initializer):
    """Normal with mean 0 and deviation gain / sqrt(fan). He et al., "Delving deep into rectifiers", 2015.

    Args:
        negative_slope: that of the leaky ReLU which follows; used for `nonlinearity` "leaky_relu" only, where the gain
            is sqrt(2 / (1 + negative_slope**2)).
        mode: which fan counts: "fan_in" keeps the size of activations, "fan_out" that of gradients.
        nonlinearity: what follows: "leaky_relu", "relu", "tanh", "sigmoid", "linear" or the name of a convolution.

    Raises:
        ValueError: `mode` or `nonlinearity` is another, or the tensor has fewer than 2 dimensions.
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
        fan_in, fan_out = _fans(self, shape)
        leaky = math.sqrt(2.0 / (1 + self.negative_slope**2))
        return _GAINS.get(self.nonlinearity, leaky) / math.sqrt(fan_in if self.mode == "fan_in" else fan_out)

    def _values(self, shape: Shape) -> Array:
        return _normal(0.0, self._deviation(shape), shape)


_GAINS = {"relu": math.sqrt(2.0), "tanh": 5.0 / 3.0} | dict.fromkeys(
    ("sigmoid", "linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), 1.0
)


@dataclass(eq=False, repr=False)
class HeUniform(HeNormal):
    """Drawn evenly from [-b, b), b = gain * sqrt(3 / fan); arguments and errors are those of `HeNormal`."""

    def _values(self, shape: Shape) -> Array:
        bound = math.sqrt(3.0) * self._deviation(shape)
        return _uniform(-bound, bound, shape)


@dataclass(eq=False, repr=False)
class VarianceScaling(Initializer):
    """Drawn with variance scale / n.

    Args:
        scale: above 0.
        mode: what n is: "fan_in", "fan_out" or their mean, "fan_avg".
        distribution: "truncated_normal" (cut at two deviations, and widened to make up for it), "untruncated_normal" or
            "uniform".
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
        fan_in, fan_out = _fans(self, shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        deviation = math.sqrt(self.scale / max(1.0, n))
        if self.distribution == "uniform":
            return _uniform(-math.sqrt(3.0) * deviation, math.sqrt(3.0) * deviation, shape)
        if self.distribution == "untruncated_normal":
            return _normal(0.0, deviation, shape)
        deviation /= _DEVIATION_WITHIN_TWO
        return _truncated_normal(0.0, deviation, -2 * deviation, 2 * deviation, shape)


_DEVIATION_WITHIN_TWO = 0.87962566103423978
"""Standard deviation of the standard normal distribution conditional on [-2, 2]."""


@dataclass(eq=False, repr=False)
class Orthogonal(Initializer):
    """`gain` times a matrix with orthonormal rows or columns, whichever are fewer.

    Dimensions after the first are taken together. Saxe et al., 2013. `ValueError` for fewer than 2 dimensions.
    """

    gain: float = 1.0

    def _values(self, shape: Shape) -> Array:
        if len(shape) < 2:
            raise ValueError(f"For 'Orthogonal', the tensor must have at least 2 dimensions, but got shape {shape}")
        rows, columns = shape[0], math.prod(shape[1:])
        q, r = np.linalg.qr(_normal(0.0, 1.0, (max(rows, columns), min(rows, columns))))
        q = q * np.sign(np.diag(r))  # makes the draw uniform among orthogonal matrices
        return self.gain * (q if rows >= columns else q.T).reshape(shape)


@dataclass(eq=False, repr=False)
class Sparse(Initializer):
    """Normal with mean 0 and deviation `sigma`; in each column of the matrix the fraction `sparsity` is 0.

    Martens, 2010. `ValueError` for a tensor that isn't 2-D.
    """

    sparsity: float
    sigma: float = 0.01

    def __post_init__(self) -> None:
        checks.in_range(self.sparsity, "sparsity", "[0, 1]", of="Sparse")
        checks.in_range(self.sigma, "sigma", "[0, inf)", of="Sparse")

    def _values(self, shape: Shape) -> Array:
        _check_dimensions(self, shape, (2,))
        filled = _normal(0.0, self.sigma, shape)
        order = np.argsort(_uniform(0.0, 1.0, shape), axis=0)
        filled[order[: math.ceil(self.sparsity * shape[0])], np.arange(shape[1])] = 0
        return filled


# ---- shared ----


def _uniform(low: float, high: float, shape: Shape) -> Array:
    return np.asarray(random.uniform(shape=shape, low=low, high=high, dtype=_FLOAT64))


def _normal(mean: float, deviation: float, shape: Shape) -> Array:
    return np.asarray(random.normal(shape=shape, mean=mean, deviation=deviation, dtype=_FLOAT64))


def _truncated_normal(mean: float, deviation: float, low: float, high: float, shape: Shape) -> Array:
    """Even draws, each accepted with a probability proportional to the density there."""
    low, high = (low - mean) / deviation, (high - mean) / deviation
    densest = min(max(0.0, low), high)
    low, high = max(low, densest - 40), min(high, densest + 40)  # beyond that the density is 0 in float64
    drawn: list[Array] = []
    missing = math.prod(shape)
    while missing > 0:
        count = max(2 * missing, 64)
        x, chance = _uniform(low, high, (count,)), _uniform(0.0, 1.0, (count,))
        drawn.append(x[chance < np.exp((densest**2 - x**2) / 2)][:missing])
        missing -= drawn[-1].size
    return mean + deviation * np.concatenate(drawn).reshape(shape)


def fan_in_and_fan_out(shape: Shape) -> tuple[int, int]:
    """How many inputs meet in an output of a weight (out, in, ...), and how many outputs an input reaches."""
    if len(shape) < 2:
        raise ValueError(f"fan_in and fan_out are those of a tensor with at least 2 dimensions, but got shape {shape}")
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def _fans(init: Initializer, shape: Shape) -> tuple[int, int]:
    try:
        return fan_in_and_fan_out(shape)
    except ValueError as error:
        raise ValueError(f"For '{type(init).__name__}', {error}") from None


def _check_dimensions(init: Initializer, shape: Shape, allowed: tuple[int, ...]) -> None:
    if len(shape) not in allowed:
        needed = " or ".join(map(str, allowed))
        raise ValueError(f"For '{type(init).__name__}', the tensor must have {needed} dimensions, but got {shape}")


_KINDS = (Zero, One, Identity, Dirac, Uniform, Normal, TruncatedNormal, XavierUniform, XavierNormal, HeUniform,
          HeNormal, VarianceScaling, Orthogonal)  # fmt: skip
_NAMED: dict[str, Callable[[], Initializer]] = {
    **{kind.__name__.lower(): kind for kind in _KINDS},
    "zeros": Zero,
    "ones": One,
    "xavier_uniform": XavierUniform,
    "xavier_normal": XavierNormal,
    "he_uniform": HeUniform,
    "he_normal": HeNormal,
}

__all__ = [
    "Constant",
    "Dirac",
    "HeNormal",
    "HeUniform",
    "Identity",
    "Initializer",
    "Normal",
    "One",
    "Orthogonal",
    "Sparse",
    "TruncatedNormal",
    "Uniform",
    "VarianceScaling",
    "XavierNormal",
    "XavierUniform",
    "Zero",
    "fan_in_and_fan_out",
    "initializer",
]
