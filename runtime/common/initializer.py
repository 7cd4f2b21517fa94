"""Initializers of Parameters, by name, number or object: `initializer("he_uniform", (4, 3), float32)`.

Random values come from the generator of `runtime.ops.random`, which `set_seed` seeds.
"""

from __future__ import annotations

from typing import Any

from .dtype import float32, to_dtype
from .initial_values import Constant, Dirac, Identity, One, Zero, as_shape
from .initializer_base import Initializer, fan_in_and_fan_out
from .random_initializers import (
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
from .tensor import Tensor, initialize


def initializer(init: Any, shape: Any = None, dtype: Any = float32) -> Tensor:
    """Return a tensor filled by `init`.

    Args:
        init: the name of an initializer (any case: "normal", "he_uniform", "XavierNormal"), an `Initializer`, a number
            that fills the tensor, or a tensor, which is returned unchanged.
        shape: an int or a sequence of ints >= 1; optional if `init` is a tensor.
        dtype: dtype of the elements.

    Raises:
        TypeError: `init` is none of these.
        ValueError: no initializer has that name, the shape isn't positive, or the tensor `init` has another shape.
    """
    return initialize(init, shape, to_dtype(dtype))


def initialize_argument(init: Any, shape: Any, dtype: Any, argument: str, *, of: str) -> Tensor:
    """Return `initializer(...)` for an argument of a layer; `ValueError` with its name if a tensor's shape is wrong."""
    if isinstance(init, Tensor) and init.shape != as_shape(shape):
        needed = as_shape(shape)
        raise ValueError(f"For '{of}', the tensor '{argument}' must have the shape {needed}, but got {init.shape}")
    return initializer(init, shape, dtype)


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
