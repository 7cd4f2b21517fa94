"""The dtype in which operators compute (`Cell.to_float`); None leaves operands as they are."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from .ir.types import is_floating


class _Precision(threading.local):
    dtype: np.dtype[Any] | None = None
    throughout: np.dtype[Any] | None = None


_precision = _Precision()


def compute_dtype() -> np.dtype[Any] | None:
    """The dtype to which operators cast their floating-point operands now."""
    return _precision.throughout or _precision.dtype


@contextlib.contextmanager
def computing_in(dtype: np.dtype[Any] | None) -> Iterator[None]:
    """Within the context, operators cast floating-point operands to `dtype`; None: they don't."""
    before = _precision.dtype
    _precision.dtype = dtype
    try:
        yield
    finally:
        _precision.dtype = before


@contextlib.contextmanager
def computing_throughout_in(dtype: np.dtype[Any]) -> Iterator[None]:
    """Within the context, every operator computes and makes floating-point numbers in `dtype`, whatever is asked for.

    Casts to another floating-point dtype, tensors made in one and `Cell.to_float` are overruled: a run in float64 keeps
    its digits where the network itself goes down to float32.
    """
    before = _precision.throughout
    _precision.throughout = dtype
    try:
        yield
    finally:
        _precision.throughout = before


def overruled(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of an operator, with the dtype of `computing_throughout_in` for floating-point ones."""
    wanted = _precision.throughout
    if wanted is None:
        return attributes
    return {
        name: wanted if isinstance(value, np.dtype) and is_floating(value) else value
        for name, value in attributes.items()
    }
