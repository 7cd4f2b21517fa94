"""Reading arguments off layers of either framework, and writing them down as people write them."""

from __future__ import annotations

import enum
import math
from numbers import Number
from typing import Any

import numpy as np
import torch


class Missing(enum.Enum):
    """The layer doesn't keep this value: nothing can be said about it."""

    MISSING = enum.auto()


MISSING = Missing.MISSING


def read(layer: Any, *paths: str) -> Any:
    """The value of the first of these attributes (dots lead into attributes of attributes) that there is, plain.

    Tensors with one element become numbers, lists tuples. `MISSING` if there is none.
    """
    for path in paths:
        found = layer
        for name in path.split("."):
            found = getattr(found, name, MISSING)
        if found is not MISSING:
            return plain(found)
    return MISSING


def plain(value: Any) -> Any:
    """Numbers for what holds one, tuples for lists, and what else there is as it is."""
    if isinstance(value, torch.Tensor):
        return value.item() if value.numel() == 1 else value.detach().cpu().float().numpy()
    if hasattr(value, "asnumpy"):
        array = np.asarray(value.asnumpy())
        return array.item() if array.size == 1 else array
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value


def is_mindspore(layer: Any) -> bool:
    """Whether it is MindSpore's own: some of its layers keep their arguments in another form."""
    return any(base.__module__.partition(".")[0] == "mindspore" for base in type(layer).__mro__)


def sizes(value: Any, axes: int) -> Any:
    """An int for each of the last `axes` axes, of one int for all or one for each; `MISSING` stays."""
    if value is MISSING:
        return MISSING
    found = value if isinstance(value, tuple) else (value,)
    return found * axes if len(found) == 1 else found[-axes:]


def collapsed(value: Any) -> Any:
    """One number for a tuple of equal ones."""
    return value[0] if isinstance(value, tuple) and value and len(set(value)) == 1 else value


def same(one: Any, other: Any) -> bool:
    """Whether two values mean the same: numbers to six digits, since some are kept in float32."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and np.array_equal(one, other)
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Number) and isinstance(other, Number):
        return math.isclose(one, other, rel_tol=1e-6)  # type: ignore[arg-type]
    return bool(one == other)


def shown(value: Any) -> str:
    """As it is written in code: `1e-5`, `'same'`, `(1, 2)`."""
    if isinstance(value, tuple):
        inner = ", ".join(map(shown, value))
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
    """As `shown`, with the quotes of code that is to be written."""
    return f'"{value}"' if isinstance(value, str) else shown(value)


def shape_text(shape: tuple[int, ...]) -> str:
    """`(2,240,12,12)`."""
    return f"({','.join(map(str, shape))})"
