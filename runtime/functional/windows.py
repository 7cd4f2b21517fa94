"""Window functions of signal processing, as vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..common.dtype import float32, float64, to_dtype
from ..common.tensor import from_array
from ..ir.types import is_floating
from .arguments import integer
from .public_op import public_op

Array = np.ndarray[Any, Any]


def _window(window_length: Any, periodic: bool, dtype: Any, form: Callable[[Array], Array], *, of: str) -> Any:
    """Evaluate `form` at points from 0 to 1; a periodic window omits the last point."""
    length = integer(window_length, "window_length", of=of)
    if length < 0:
        raise ValueError(f"For '{of}', 'window_length' must not be negative, but got {length}")
    kind = float32 if dtype is None else to_dtype(dtype)
    if not is_floating(kind):
        raise TypeError(f"For '{of}', 'dtype' must be a floating-point dtype, but got {kind}")
    if length < 2:
        return from_array(np.ones(length, kind))
    intervals = length if periodic else length - 1
    return from_array(form(np.arange(length) / intervals).astype(kind))


@public_op()
def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """Hann window: 1/2 - 1/2 cos(2 pi t), t from 0 to 1; float64 unless `dtype` is given."""
    return hamming_window(window_length, periodic, 0.5, 0.5, dtype=float64 if dtype is None else dtype)


@public_op()
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *, dtype: Any = None
) -> Any:
    """Hamming window: alpha - beta cos(2 pi t), t from 0 to 1; float32 unless `dtype` is given."""
    return _window(
        window_length, periodic, dtype, lambda t: alpha - beta * np.cos(2 * math.pi * t), of="hamming_window"
    )


@public_op()
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """Blackman window: 0.42 - 0.5 cos(2 pi t) + 0.08 cos(4 pi t), t from 0 to 1."""

    def form(t: Array) -> Array:
        return np.asarray(0.42 - 0.5 * np.cos(2 * math.pi * t) + 0.08 * np.cos(4 * math.pi * t))

    return _window(window_length, periodic, dtype, form, of="blackman_window")


@public_op()
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None) -> Any:
    """Bartlett window: 1 - |2t - 1|, t from 0 to 1."""
    return _window(window_length, periodic, dtype, lambda t: 1 - np.abs(2 * t - 1), of="bartlett_window")


@public_op()
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None) -> Any:
    """Kaiser window: I0(beta sqrt(1 - (2t - 1)^2)) / I0(beta), t from 0 to 1; float64 unless `dtype` is given.

    I0 is the modified Bessel function of the first kind.
    """

    def form(t: Array) -> Array:
        return np.asarray(np.i0(beta * np.sqrt(np.maximum(1 - (2 * t - 1) ** 2, 0))) / np.i0(beta))

    return _window(window_length, periodic, float64 if dtype is None else dtype, form, of="kaiser_window")
