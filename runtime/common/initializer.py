"""Initializers: what new Parameters hold, by name, number or object: `initializer("he_uniform", (4, 3), float32)`.

Random values are drawn from the generator of `runtime.ops.random`, which `set_seed` seeds.
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
from .tensor import Tensor, initialized


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
    return initialized(init, shape, to_dtype(dtype))


def initial(init: Any, shape: Any, dtype: Any, argument: str, *, of: str) -> Tensor:
    """What `initializer` gives for an argument of a layer; `ValueError` names it where a tensor has another shape."""
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
