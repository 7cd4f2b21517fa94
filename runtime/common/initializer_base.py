"""The base class of initializers, and the fans of a weight."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..current_trace import current

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


class Initializer:
    """The base class of initializers.

    A subclass fills an array in place in `_initialize(arr)`, or returns the values for a shape in `_values(shape)`.
    Calling an initializer with an array fills it.
    """

    def __init__(self, **kwargs: Any) -> None:
        self.__dict__.update(kwargs)

    def __call__(self, arr: Array) -> None:
        """Fill an array in place."""
        trace = current()
        if trace is not None:
            trace.guard.refuse_initial_values()
        self._initialize(arr)

    def _initialize(self, arr: Array) -> None:
        arr[...] = self._values(arr.shape)

    def _values(self, shape: Shape) -> Array:
        raise NotImplementedError(f"{type(self).__name__} must define _initialize(arr)")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


def fan_in_and_fan_out(shape: Shape) -> tuple[int, int]:
    """Return fan-in and fan-out of a weight (out, in, ...): its inputs per output, and its outputs per input."""
    if len(shape) < 2:
        raise ValueError(f"fan_in and fan_out need a tensor with at least 2 dimensions, but got shape {shape}")
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def fans(init: Initializer, shape: Shape) -> tuple[int, int]:
    """Return `fan_in_and_fan_out`; the error message names the initializer."""
    try:
        return fan_in_and_fan_out(shape)
    except ValueError as error:
        raise ValueError(f"For '{type(init).__name__}', {error}") from None


def check_dimensions(init: Initializer, shape: Shape, allowed: tuple[int, ...]) -> None:
    """Raise `ValueError` unless the number of dimensions is allowed."""
    if len(shape) not in allowed:
        needed = " or ".join(map(str, allowed))
        raise ValueError(f"For '{type(init).__name__}', the tensor must have {needed} dimensions, but got {shape}")
