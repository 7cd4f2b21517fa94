"""ATen operators that create tensors from numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim, SymbolicDim
from ....runtime.ops import creation, shaping
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .table import Context, aten, cast

# The other arguments of these determine only the shape and dtype of the result, which torch has inferred.


@aten(
    "aten.zeros.default",
    "aten.zeros_like.default",
    "aten.new_zeros.default",
    "aten.zero.default",
    # the contents of an empty tensor are undefined; zeros will do
    "aten.empty.memory_format",
    "aten.empty_like.default",
    "aten.empty_permuted.default",
    "aten.empty_strided.default",
    "aten.new_empty.default",
    "aten.new_empty_strided.default",
)
def zeros(context: Context, *_: Any, **__: Any) -> Any:
    """zeros(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"""
    return _fill(context, 0)


@aten("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(context: Context, *_: Any, **__: Any) -> Any:
    """ones(SymInt[] size, *, ScalarType? dtype=None) -> Tensor"""
    return _fill(context, 1)


@aten("aten.full.default", "aten.full_like.default", "aten.fill.Scalar")
def full(context: Context, size: Any, fill_value: Any, **_: Any) -> Any:
    """full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor"""
    return _fill(context, fill_value)


@aten("aten.new_full.default")
def new_full(context: Context, self: SymbolicTensor, size: Any, fill_value: Any, **_: Any) -> Any:
    """new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None) -> Tensor"""
    return _fill(context, fill_value)


@aten("aten.scalar_tensor.default")
def scalar_tensor(context: Context, s: Any, **_: Any) -> Any:
    """scalar_tensor(Scalar s, *, ScalarType? dtype=None) -> Tensor"""
    return _fill(context, s)


@aten("aten.fill.Tensor")
def fill(context: Context, self: SymbolicTensor, value: SymbolicTensor) -> Any:
    """fill.Tensor(Tensor self, Tensor value) -> Tensor"""
    return shaping.expand(cast(value, context.dtype), shape=context.shape)


def _fill(context: Context, value: Any) -> Any:
    if isinstance(value, SymbolicTensor):  # a number that the model computes
        return shaping.expand(cast(value, context.dtype), shape=context.shape)
    return context.builder.create(creation.full, shape=context.shape, value=value, dtype=context.dtype)


@aten("aten.arange.default")
def arange(context: Context, end: Any, **_: Any) -> Any:
    """arange(Scalar end, *, ScalarType? dtype=None) -> Tensor"""
    return _range(context, 0, end, 1)


@aten("aten.arange.start", "aten.arange.start_step")
def arange_start(context: Context, start: Any, end: Any, step: Any = 1, **_: Any) -> Any:
    """arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None) -> Tensor"""
    return _range(context, start, end, step)


def _range(context: Context, start: Any, end: Any, step: Any) -> Any:
    return context.builder.create(creation.arange, start=start, stop=end, step=step, dtype=context.dtype)


@aten("aten.linspace.default")
def linspace(context: Context, start: Any, end: Any, steps: Dim, **_: Any) -> Any:
    """linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None) -> Tensor"""
    if any(isinstance(number, SymbolicDim) for number in (start, end, steps)):
        raise Unsupported("symbolic bounds or steps")
    return context.builder.constant(np.linspace(start, end, int(steps)), context.dtype)


@aten("aten.eye.default", "aten.eye.m")
def eye(context: Context, *_: Any, **__: Any) -> Any:
    """eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None) -> Tensor"""
    return shaping.triangle(shaping.triangle(_fill(context, 1), upper=True), upper=False)


@aten("aten.tril.default")
def tril(context: Context, self: SymbolicTensor, diagonal: int = 0) -> Any:
    """tril(Tensor self, SymInt diagonal=0) -> Tensor"""
    return shaping.triangle(self, k=diagonal, upper=False)


@aten("aten.triu.default")
def triu(context: Context, self: SymbolicTensor, diagonal: int = 0) -> Any:
    """triu(Tensor self, SymInt diagonal=0) -> Tensor"""
    return shaping.triangle(self, k=diagonal, upper=True)


@aten("aten.tril_indices.default")
def tril_indices(context: Context, row: Dim, col: Dim, offset: int = 0, **_: Any) -> Any:
    """tril_indices(int row, int col, int offset=0, *, ScalarType? dtype=None) -> Tensor"""
    return _triangle_indices(context, np.tril_indices, row, col, offset)


@aten("aten.triu_indices.default")
def triu_indices(context: Context, row: Dim, col: Dim, offset: int = 0, **_: Any) -> Any:
    """triu_indices(int row, int col, int offset=0, *, ScalarType? dtype=None) -> Tensor"""
    return _triangle_indices(context, np.triu_indices, row, col, offset)


def _triangle_indices(context: Context, numpy_function: Any, row: Dim, col: Dim, offset: int) -> Any:
    if not isinstance(row, int) or not isinstance(col, int):
        raise Unsupported("symbolic sizes")
    return context.builder.constant(np.stack(numpy_function(row, offset, col)).astype(context.dtype))
