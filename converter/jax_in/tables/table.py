"""The table of primitives, by name; a translation takes the reader, the operands and the primitive's parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.ops import elementwise

Translation = Callable[..., Any]
"""`translate(reader, *operands, **parameters)` returns the result, or a tuple of several."""

TABLE: dict[str, Translation] = {}


def primitive(*names: str) -> Callable[[Translation], Translation]:
    """Return a decorator that enters a translation for primitives of these names."""

    def enter(function: Translation) -> Translation:
        for name in names:
            TABLE[name] = function
        return function

    return enter


def cast(x: Any, dtype: Any) -> Any:
    """Return a tensor in a dtype, itself if it has that dtype."""
    return x if x.dtype == np.dtype(dtype) else elementwise.cast(x, dtype=np.dtype(dtype))
