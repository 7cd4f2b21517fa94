"""`tensor(...)`, the short form of `Tensor(...)`."""

from __future__ import annotations

from typing import Any

from .tensor import Tensor


def tensor(input_data: Any = None, dtype: Any = None, shape: Any = None, init: Any = None) -> Tensor:
    """Return `Tensor(input_data, dtype, shape, init)`."""
    return Tensor(input_data, dtype, shape, init)
