"""Functions for ONNX operators that create a tensor from sizes or bounds among their operands.

They compute immediately. An importer that knows the operands emits `full` and `arange` itself.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..ops import comparison, creation, elementwise, shaping, slicing
from ..ops.common import normalize_axis
from ..ops.registry import Tensor
from ..tracing import SymbolicTensor
from .registry import onnx_function
from .shaping import scalar


@onnx_function("Range", "start", "limit", "delta")
def range(start: Any, limit: Any, delta: Any, *, dtype: np.dtype[Any]) -> Any:
    """Range-11."""
    return creation.arange(start=scalar(start), stop=scalar(limit), step=scalar(delta), dtype=dtype)


@onnx_function("ConstantOfShape", "input")
def constant_of_shape(input: tuple[int, ...], *, value: Any, dtype: np.dtype[Any]) -> Any:
    """ConstantOfShape-9."""
    return creation.full(shape=input, value=value, dtype=dtype)


@onnx_function("OneHot", "depth")
def one_hot(indices: Tensor, depth: Any, values: Tensor, *, axis: int = -1) -> Any:
    """OneHot-11: `values` are (off, on); negative indices count from the end, those out of range are off."""
    count = scalar(depth)
    count = int(count) if isinstance(count, float) else count
    at = normalize_axis(axis, indices.ndim + 1)
    lead = (*indices.shape[:at], 1, *indices.shape[at:])
    integers = elementwise.cast(indices, dtype=np.dtype(np.int64))
    places = shaping.reshape(integers, shape=lead)
    size = creation.full_like(places, count, ())
    places = elementwise.where(comparison.less(places, 0), places + size, places)
    shape = tuple(count if i == at else 1 for i in builtin_range(len(lead)))
    classes = _indices(places, count, shape)
    off, on = (
        shaping.reshape(slicing.slice(values, starts=(i,), stops=(i + 1,), steps=(1,), axes=(0,)), shape=())
        for i in (0, 1)
    )
    return elementwise.where(comparison.equal(places, classes), on, off)


def builtin_range(stop: int) -> Any:
    """Return Python's `range`, which the function above shadows."""
    import builtins

    return builtins.range(stop)


def _indices(like: Tensor, count: Any, shape: tuple[Any, ...]) -> Any:
    attributes = {"start": 0, "stop": count, "step": 1, "dtype": like.dtype}
    make = (
        functools.partial(like.builder.create, creation.arange) if isinstance(like, SymbolicTensor) else creation.arange
    )
    indices = make(**attributes)
    return shaping.reshape(indices, shape=shape)
