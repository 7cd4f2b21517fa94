"""`tensor(...)`: the shorter way to write `Tensor(...)`."""

from __future__ import annotations

from typing import Any

from .tensor import Tensor


def tensor(input_data: Any = None, dtype: Any = None, shape: Any = None, init: Any = None) -> Tensor:
    """`Tensor(input_data, dtype, shape, init)`."""
    return Tensor(input_data, dtype, shape, init)
