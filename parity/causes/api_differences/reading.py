"""Reading arguments from layers of either framework, and formatting them as in code."""

from __future__ import annotations

import enum
import math
from numbers import Number
from typing import Any

import numpy as np
import torch


class Missing(enum.Enum):
    """Marks a value that the layer doesn't store."""

    MISSING = enum.auto()


MISSING = Missing.MISSING


def read_argument(layer: Any, *paths: str) -> Any:
    """Return the plain value of the first of these attributes, or dotted paths of attributes, that exists.

    Tensors with one element become numbers, lists tuples. `MISSING` if there is none.
    """
    for path in paths:
        value = layer
        for name in path.split("."):
            value = getattr(value, name, MISSING)
        if value is not MISSING:
            return plain_value(value)
    return MISSING


def plain_value(value: Any) -> Any:
    """Convert single-element tensors to numbers and lists to tuples; other values stay unchanged."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else value.detach().cpu().float().numpy()
    if hasattr(value, "asnumpy"):
        array = np.asarray(value.asnumpy())
        return array.item() if array.size == 1 else array
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(plain_value, value)) if isinstance(value, (list, tuple)) else value


def is_mindspore(layer: Any) -> bool:
    """Whether the layer is one of MindSpore's, some of which store their arguments in another form."""
    return any(base.__module__.partition(".")[0] == "mindspore" for base in type(layer).__mro__)


def sizes(value: Any, axes: int) -> Any:
    """Return an int for each of the last `axes` axes, from one int for all or one for each; `MISSING` stays."""
    if value is MISSING:
        return MISSING
    values = value if isinstance(value, tuple) else (value,)
    return values * axes if len(values) == 1 else values[-axes:]


def collapse(value: Any) -> Any:
    """Replace a tuple of equal numbers by one number."""
    return value[0] if isinstance(value, tuple) and value and len(set(value)) == 1 else value


def same(value: Any, other: Any) -> bool:
    """Whether two values are equal, numbers to six digits, since some are stored in float32."""
    if isinstance(value, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(value, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(value, other)
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, Number) and isinstance(other, Number):
        return math.isclose(value, other, rel_tol=1e-6)  # type: ignore[arg-type]
    return bool(value == other)


def format_value(value: Any) -> str:
    """Format a value as in code: `1e-5`, `'same'`, `(1, 2)`."""
    if isinstance(value, tuple):
        inner = ", ".join(map(format_value, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, np.ndarray):
        return f"array of shape {shape_text(value.shape)}"
    if isinstance(value, float):
        mantissa, _, exponent = f"{value:.7g}".partition("e")
        if exponent:
            return f"{mantissa}e{int(exponent)}"
        return mantissa if not mantissa.lstrip("-").isdigit() else f"{mantissa}.0"
    return repr(value)


def code(value: Any) -> str:
    """Format a value as code to write, with double quotes."""
    return f'"{value}"' if isinstance(value, str) else format_value(value)


def shape_text(shape: tuple[int, ...]) -> str:
    """`(2,240,12,12)`."""
    return f"({','.join(map(str, shape))})"
