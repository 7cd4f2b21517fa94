"""The dtype in which operators compute: one for all (`Cell.to_float`), or by operator (`amp.auto_mixed_precision`)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .ir.types import is_floating, is_half


@dataclass(frozen=True)
class Policy:
    """Dtypes of computation by operator; operators in neither list compute in the widest dtype among their operands.

    Attributes:
        low: the half-precision dtype.
        in_low: names of the ops that compute in it.
        in_float32: names of the ops that compute in float32.
    """

    low: np.dtype[Any]
    in_low: frozenset[str]
    in_float32: frozenset[str]

    def dtype_for(self, op: str, operands: Iterable[Any]) -> np.dtype[Any] | None:
        """The dtype to which an op casts its floating-point operands; None: it doesn't."""
        if op in self.in_low:
            return self.low
        if op in self.in_float32:
            return _FLOAT32
        dtypes = {x.dtype for x in operands if hasattr(x, "dtype") and is_floating(x.dtype)}
        if len(dtypes) < 2:
            return None
        return _FLOAT32 if all(map(is_half, dtypes)) else max(dtypes, key=lambda dtype: dtype.itemsize)


_FLOAT32: np.dtype[Any] = np.dtype(np.float32)


class _Precision(threading.local):
    dtype: np.dtype[Any] | Policy | None = None
    throughout: np.dtype[Any] | None = None
    cast_external: Callable[[Any], Any] | None = None


_precision = _Precision()


def compute_dtype() -> np.dtype[Any] | None:
    """The one dtype to which all operators cast their floating-point operands now; None: there is no such dtype."""
    asked = _precision.throughout or _precision.dtype
    return None if isinstance(asked, Policy) else asked


def dtype_for(op: str, operands: Iterable[Any]) -> np.dtype[Any] | None:
    """The dtype to which an op casts its floating-point operands now; None: it doesn't."""
    asked = _precision.throughout or _precision.dtype
    return asked.dtype_for(op, operands) if isinstance(asked, Policy) else asked


def asked() -> Any:
    """What is asked for now, to be compared: a dtype, a policy or None."""
    return _precision.dtype


def overruling() -> bool:
    """Whether every operator computes in one dtype, whatever is asked for."""
    return _precision.throughout is not None


def casting() -> bool:
    """Whether operators bring floating-point operands of several dtypes to one."""
    return _precision.throughout is not None or _precision.dtype is not None


@contextlib.contextmanager
def computing_in(dtype: np.dtype[Any] | Policy | None) -> Iterator[None]:
    """Within the context, operators cast floating-point operands to `dtype`, or as a policy says; None: they don't."""
    before = _precision.dtype
    _precision.dtype = dtype
    try:
        yield
    finally:
        _precision.dtype = before


@contextlib.contextmanager
def force_dtype(dtype: np.dtype[Any], cast_external: Callable[[Any], Any] | None = None) -> Iterator[None]:
    """Within the context, every operator computes and makes floating-point numbers in `dtype`, whatever is asked for.

    Casts to another floating-point dtype, tensors made in one and `Cell.to_float` are overruled: a run in float64 keeps
    its digits where the network itself goes down to float32.

    Args:
        dtype: the dtype.
        taken_in: makes an array of `dtype` of one in another floating-point dtype, which an operator is given: a number
            or a table that was made outside of all operators. It is cast if not given.
    """
    before = _precision.throughout, _precision.cast_external
    _precision.throughout, _precision.cast_external = dtype, cast_external
    try:
        yield
    finally:
        _precision.throughout, _precision.cast_external = before


def taking_in() -> bool:
    """Whether `taken` does anything."""
    return _precision.cast_external is not None


def taken(array: Any) -> Any:
    """An array that was made outside of all operators, as `cast_external` of `force_dtype` says."""
    cast_external = _precision.cast_external
    return array if cast_external is None or overridden_dtype(array.dtype) == array.dtype else cast_external(array)


def overridden_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What a dtype is now: a floating-point one that of `force_dtype`, if there is one."""
    return dtype if _precision.throughout is None or not is_floating(dtype) else _precision.throughout


def with_dtype_override(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of an operator, with the dtype of `force_dtype` for floating-point ones."""
    wanted = _precision.throughout
    if wanted is None:
        return attributes
    return {
        name: wanted if isinstance(value, np.dtype) and is_floating(value) else value
        for name, value in attributes.items()
    }
