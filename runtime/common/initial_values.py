"""Deterministic initializers, and the initial values of a tensor by name, number or initializer."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks
from .initializer_base import Array, Initializer, Shape, check_dimensions
from .random_initializers import (
    HeNormal,
    HeUniform,
    Normal,
    Orthogonal,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    XavierNormal,
    XavierUniform,
)


def initial_values(init: Any, shape: Any, dtype: np.dtype[Any]) -> Array:
    """Return an array of `shape` filled by `init`: the name of an initializer, an `Initializer` or a number.

    Raises:
        TypeError: `init` is none of these.
        ValueError: no initializer has that name, or the shape isn't positive.
    """
    if not isinstance(init, (str, numbers.Number, Initializer)):
        raise TypeError(
            "For 'initializer', 'init' must be a Tensor, a number, the name of an initializer or an Initializer, but "
            f"got {type(init).__name__}: {init!r}"
        )
    if shape is None:
        raise ValueError("For 'initializer', 'shape' must be given unless 'init' is a Tensor")
    array = np.zeros(as_shape(shape), dtype)
    _as_initializer(init)(array)
    return array


def as_shape(shape: Any) -> Shape:
    """Convert a shape to a tuple; `ValueError` unless it consists of ints > 0."""
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


# ---- deterministic initializers ----


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
    """Fills a matrix with 1 on the diagonal and 0 elsewhere; `ValueError` for a tensor that isn't 2-D."""

    def _values(self, shape: Shape) -> Array:
        check_dimensions(self, shape, (2,))
        return np.eye(shape[0], shape[1])


@dataclass(eq=False, repr=False)
class Dirac(Initializer):
    """Fills a convolution weight (out, in, ...) so that the convolution copies input channel i to output channel i.

    The element at the centre of that kernel is 1, all others are 0.

    Args:
        groups: the number of groups of the convolution; all groups are filled in the same way.

    Raises:
        ValueError: the tensor isn't 3-, 4- or 5-D, or `groups` doesn't divide its first dimension.
    """

    groups: int = 1

    def __post_init__(self) -> None:
        checks.positive_int(self.groups, "groups", of="Dirac")

    def _values(self, shape: Shape) -> Array:
        check_dimensions(self, shape, (3, 4, 5))
        if shape[0] % self.groups:
            raise ValueError(f"For 'Dirac', 'groups' must divide the first dimension of {shape}, but got {self.groups}")
        per_group = shape[0] // self.groups
        centre = tuple(size // 2 for size in shape[2:])
        values = np.zeros(shape)
        for group in range(self.groups):
            for channel in range(min(per_group, shape[1])):
                values[(group * per_group + channel, channel, *centre)] = 1
        return values


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
