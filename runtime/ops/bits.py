"""Reinterpreting the bits of numbers as another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import as_dtype
from ..traits import Traits
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def bitcast(x: Tensor, *, dtype: np.dtype[Any]) -> Tensor:
    """The bits of `x` as numbers of a dtype of the same width. ATen view.dtype, ONNX BitCast-26."""


bitcast.traits = Traits(elementwise=True, view=True)


@bitcast.infer
def _(x: Type, *, dtype: np.dtype[Any]) -> Type:
    width, new_width = x.dtype.itemsize, as_dtype(dtype).itemsize
    require(width == new_width, f"needed a dtype of {width} bytes, like {x.dtype.name}, given {as_dtype(dtype).name}")
    return x.with_dtype(as_dtype(dtype))


@bitcast.native_kernel
def _(x: Array, *, dtype: np.dtype[Any]) -> Array:
    return np.ascontiguousarray(x).view(as_dtype(dtype)).reshape(x.shape)


bitcast.no_vjp("its result isn't a smooth function of the operand")


@bitcast.onnx
def _(graph: OnnxGraph, x: str, *, dtype: np.dtype[Any]) -> Any:
    return graph.op("BitCast", x, to=as_dtype(dtype))
