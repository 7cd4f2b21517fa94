"""Initializers: what new Parameters hold, by name, number or object: `initializer("he_uniform", (4, 3), float32)`.

Random values are drawn from the generator of `runtime.ops.random`, which `set_seed` seeds.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import checks
from .drawn_initializers import (
    HeNormal,
    HeUniform,
    Normal,
    Orthogonal,
    Sparse,
    TruncatedNormal,
    Uniform,
    VarianceScaling,
    XavierNormal,
    XavierUniform,
)
from .dtype import float32, to_dtype
from .initializer_base import Array, Initializer, Shape, check_dimensions, fan_in_and_fan_out
from .tensor import Tensor, wrapped


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


def initial(init: Any, shape: Any, dtype: Any, argument: str, *, of: str) -> Tensor:
    """What `initializer` gives for an argument of a layer; `ValueError` names it where a tensor has another shape."""
    if isinstance(init, Tensor) and init.shape != _as_shape(shape):
        needed = _as_shape(shape)
        raise ValueError(f"For '{of}', the tensor '{argument}' must have the shape {needed}, but got {init.shape}")
    return initializer(init, shape, dtype)


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


# ---- those without chance ----


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
        check_dimensions(self, shape, (2,))
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
        check_dimensions(self, shape, (3, 4, 5))
        if shape[0] % self.groups:
            raise ValueError(f"For 'Dirac', 'groups' must divide the first dimension of {shape}, but got {self.groups}")
        per_group = shape[0] // self.groups
        centre = tuple(size // 2 for size in shape[2:])
        filled = np.zeros(shape)
        for group in range(self.groups):
            for channel in range(min(per_group, shape[1])):
                filled[(group * per_group + channel, channel, *centre)] = 1
        return filled


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
