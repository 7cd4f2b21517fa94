"""`reduce_prod`, whose gradient consists of the products of the elements before and after each."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import dims
from ..ir.types import BOOL
from ..traits import Traits
from . import scanning, shaping
from .common import in_float32, normalize_axes
from .reduction import Axes, reduced_type, restore_axes
from .reduction_onnx import reduce_onnx
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def reduce_prod(x: Tensor, *, axes: Axes = None, keepdims: bool = False) -> Tensor:
    """Product in the dtype of `x`: ATen `prod`, ONNX ReduceProd-18."""


reduce_prod.traits = Traits(mixed_precision="float32", wider_integers="all")


@reduce_prod.infer
def _(x: Type, *, axes: Axes, keepdims: bool) -> Type:
    require(x.dtype != BOOL, "needed numbers, given bool; cast first")
    return reduced_type(x, axes, keepdims)


@reduce_prod.kernel
def _(x: Array, *, axes: Axes, keepdims: bool) -> Any:
    return np.prod(x, axis=normalize_axes(axes, x.ndim), keepdims=keepdims, dtype=x.dtype)


@reduce_prod.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, *, axes: Axes, keepdims: bool) -> Any:
    # the product of all others is the product from the left times that from the right; division by x fails at zeros
    at = normalize_axes(axes, x.ndim)
    order = (*(axis for axis in range(x.ndim) if axis not in at), *at)
    transposed = shaping.transpose(x, permutation=order)
    kept = transposed.shape[: x.ndim - len(at)]
    flat = shaping.reshape(transposed, shape=(*kept, dims.product(transposed.shape[len(kept) :])))
    left = scanning.exclusive_cumprod(flat, -1)
    right = shaping.flip(scanning.exclusive_cumprod(shaping.flip(flat, axes=(-1,)), -1), axes=(-1,))
    others = shaping.reshape(left * right, shape=transposed.shape)
    inverse = tuple(order.index(axis) for axis in range(x.ndim))
    return restore_axes(g, x, axes) * shaping.transpose(others, permutation=inverse)


@reduce_prod.onnx
def _(graph: OnnxGraph, x: str, *, axes: Axes, keepdims: bool) -> Any:
    return reduce_onnx(graph, "ReduceProd", x, axes, keepdims)
