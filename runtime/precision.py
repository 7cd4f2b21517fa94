"""The dtype in which operators compute, for all (`Cell.to_float`) or by operator (`auto_mixed_precision`)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .ir.types import is_floating, is_half
from .traits import Traits


@dataclass(frozen=True)
class Policy:
    """Compute dtypes by operator, which `Traits.mixed_precision` tells.

    Attributes:
        half: the half-precision dtype.
    """

    half: np.dtype[Any]

    def dtype_for(self, traits: Traits, operands: Iterable[Any]) -> np.dtype[Any] | None:
        """Return the dtype to which an op casts its floating-point operands; None for no cast."""
        if traits.mixed_precision == "half":
            return self.half
        if traits.mixed_precision == "float32":
            return _FLOAT32
        dtypes = {x.dtype for x in operands if hasattr(x, "dtype") and is_floating(x.dtype)}
        if len(dtypes) < 2:
            return None
        return _FLOAT32 if all(map(is_half, dtypes)) else max(dtypes, key=lambda dtype: dtype.itemsize)


_FLOAT32: np.dtype[Any] = np.dtype(np.float32)


class _Precision(threading.local):
    dtype: np.dtype[Any] | Policy | None = None
    forced: np.dtype[Any] | None = None
    cast_external: Callable[[Any], Any] | None = None


_precision = _Precision()


def compute_dtype() -> np.dtype[Any] | None:
    """Return the dtype to which all operators currently cast their floating-point operands; None if there is none."""
    setting = _precision.forced or _precision.dtype
    return None if isinstance(setting, Policy) else setting


def dtype_for(traits: Traits, operands: Iterable[Any]) -> np.dtype[Any] | None:
    """Return the dtype to which an op of these traits casts its floating-point operands now; None for no cast."""
    setting = _precision.forced or _precision.dtype
    if setting is None or traits.mixed_precision == "as given":
        return None
    return setting.dtype_for(traits, operands) if isinstance(setting, Policy) else setting


def current_setting() -> Any:
    """Return the current setting, for comparison: a dtype, a policy or None."""
    return _precision.dtype


def is_forced() -> bool:
    """Whether `force_dtype` is in effect."""
    return _precision.forced is not None


def casts_operands() -> bool:
    """Whether operators cast floating-point operands of different dtypes to a common one."""
    return _precision.forced is not None or _precision.dtype is not None


@contextlib.contextmanager
def compute_in(dtype: np.dtype[Any] | Policy | None) -> Iterator[None]:
    """Within the context, operators cast floating-point operands to `dtype` or by a policy; None for no casts."""
    before = _precision.dtype
    _precision.dtype = dtype
    try:
        yield
    finally:
        _precision.dtype = before


@contextlib.contextmanager
def force_dtype(dtype: np.dtype[Any], cast_external: Callable[[Any], Any] | None = None) -> Iterator[None]:
    """Within the context, every operator computes and creates floating-point numbers in `dtype`.

    It overrides casts to other floating-point dtypes, dtypes of new tensors and `Cell.to_float`, so that a run in
    float64 keeps its digits where the network itself would cast to float32.

    Args:
        dtype: the dtype.
        cast_external: converts an operand that was created outside of all operators (a number, a table) from another
            floating-point dtype to `dtype`; by default, a plain cast.
    """
    before = _precision.forced, _precision.cast_external
    _precision.forced, _precision.cast_external = dtype, cast_external
    try:
        yield
    finally:
        _precision.forced, _precision.cast_external = before


def casts_external() -> bool:
    """Whether `cast_external` has any effect."""
    return _precision.cast_external is not None


def cast_external(array: Any) -> Any:
    """Convert an array that was created outside of all operators by the `cast_external` of `force_dtype`."""
    cast_external = _precision.cast_external
    return array if cast_external is None or effective_dtype(array.dtype) == array.dtype else cast_external(array)


def effective_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of `force_dtype` for a floating-point dtype while it is in effect; else `dtype` itself."""
    return dtype if _precision.forced is None or not is_floating(dtype) else _precision.forced


def with_dtype_override(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of an operator with floating-point dtypes replaced by that of `force_dtype`."""
    forced = _precision.forced
    if forced is None:
        return attributes
    return {
        name: forced if isinstance(value, np.dtype) and is_floating(value) else value
        for name, value in attributes.items()
    }
