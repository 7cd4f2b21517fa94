"""Dtypes of tensors: conversion and queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..common import dtype as dtypes
from ..common.dtype import dtype_name, to_dtype
from ..ir.types import is_floating
from ..ops import elementwise
from .operands import as_tensor
from .public_op import public_op, tensor_method


@public_op(primitive="Cast")
def cast(input: Any, dtype: Any) -> Any:
    """Cast a tensor or number to another dtype: floats are truncated to integers, and nonzero numbers become True.

    `TypeError` if `dtype` isn't a dtype.
    """
    return elementwise.cast(as_tensor(input, of="cast"), dtype=to_dtype(dtype))


@tensor_method("astype", "to")
def _astype(input: Any, dtype: Any, copy: bool = True) -> Any:
    """Cast the tensor to another dtype; see `cast`. `copy` has no effect."""
    return cast(input, dtype)


def _conversion_to(dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    def convert(self: Any) -> Any:
        return elementwise.cast(self, dtype=dtype)

    convert.__doc__ = f"Cast the tensor to {dtype}."
    return convert


for _name, _dtype in {
    "bfloat16": dtypes.bfloat16,
    "bool": dtypes.bool_,
    "byte": dtypes.uint8,
    "double": dtypes.float64,
    "float": dtypes.float32,
    "half": dtypes.float16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
}.items():
    tensor_method(_name)(_conversion_to(_dtype))


@public_op(method="type_as")
def type_as(input: Any, other: Any) -> Any:
    """Cast `input` to the dtype of `other`."""
    return elementwise.cast(as_tensor(input, of="type_as"), dtype=as_tensor(other, "other", of="type_as").dtype)


@tensor_method("type")
def _type(input: Any, dtype: Any = None) -> Any:
    """Return the name of the dtype, such as "Float32"; with `dtype`, cast the tensor to it."""
    return dtype_name(input.dtype) if dtype is None else cast(input, dtype)


@public_op(primitive="DType")
def dtype(x: Any) -> Any:
    """The dtype of a tensor."""
    return as_tensor(x, "x", of="dtype").dtype


@public_op(method="is_floating_point")
def is_floating_point(input: Any) -> bool:
    """Whether the dtype is floating-point."""
    return is_floating(as_tensor(input, of="is_floating_point").dtype)


@tensor_method("is_signed")
def _is_signed(input: Any) -> bool:
    """Whether the dtype is signed."""
    return is_floating(input.dtype) or input.dtype.kind == "i"
