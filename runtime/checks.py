"""Checks of arguments. Messages name the layer or function, the argument, the allowed values and the given value."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any


def of_type(value: Any, name: str, types: type | tuple[type, ...], *, of: str) -> Any:
    """Return `value` if it is an instance of one of `types` (a bool isn't an int); else raise `TypeError`."""
    kinds = types if isinstance(types, tuple) else (types,)
    if isinstance(value, kinds) and not (isinstance(value, bool) and bool not in kinds):
        return value
    allowed = " or ".join(kind.__name__ for kind in kinds)
    raise TypeError(f"For '{of}', '{name}' must be {allowed}, but got {type(value).__name__}: {value!r}")


def one_of(value: Any, name: str, allowed: Collection[Any], *, of: str) -> Any:
    """Return `value` if it is among `allowed`; else raise `ValueError`."""
    if value in allowed:
        return value
    raise ValueError(f"For '{of}', '{name}' must be one of {list(allowed)}, but got {value!r}")


def in_range(value: Any, name: str, interval: str, *, of: str) -> Any:
    """Return a number if it lies in an interval such as "[0, 1)"; else raise `ValueError` or `TypeError`."""
    of_type(value, name, (int, float), of=of)
    low, high = (float(bound) for bound in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    below = value <= high if interval[-1] == "]" else value < high
    if above and below:
        return value
    if math.isinf(high):
        finite = "" if math.isfinite(value) else "a finite number "
        needed = f"{finite}{'>=' if interval[0] == '[' else '>'} {low:g}"
        raise ValueError(f"For '{of}', '{name}' must be {needed}, but got {value}")
    raise ValueError(f"For '{of}', '{name}' must be a number in range {interval}, but got {value}")


def positive_int(value: Any, name: str, *, of: str) -> int:
    """Return an int of at least 1; else raise `ValueError`, or `TypeError` if it isn't an int."""
    of_type(value, name, int, of=of)
    if value < 1:
        raise ValueError(f"For '{of}', '{name}' must be an int > 0, but got {value}")
    return int(value)


def belongs_to_torch(value: Any) -> bool:
    """Whether a function belongs to torch, or an object is an instance of a torch class or of a subclass of one."""
    modules = [getattr(value, "__module__", None), *(cls.__module__ for cls in type(value).__mro__)]
    return any(str(module).partition(".")[0] == "torch" for module in modules)
