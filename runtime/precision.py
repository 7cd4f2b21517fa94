"""The dtype in which operators compute (`Cell.to_float`); None leaves operands as they are."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np


class _Precision(threading.local):
    dtype: np.dtype[Any] | None = None


_precision = _Precision()


def compute_dtype() -> np.dtype[Any] | None:
    """The dtype to which operators cast their floating-point operands now."""
    return _precision.dtype


@contextlib.contextmanager
def computing_in(dtype: np.dtype[Any] | None) -> Iterator[None]:
    """Within the context, operators cast floating-point operands to `dtype`; None: they don't."""
    before = _precision.dtype
    _precision.dtype = dtype
    try:
        yield
    finally:
        _precision.dtype = before
