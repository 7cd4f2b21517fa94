"""ATen operators that create tensors from numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim, SymbolicDim
from ....runtime.ops import creation, shaping
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from ...unsupported import Unsupported
from .table import Context, aten, cast, pass_on

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
    return filled(context, 0)


@aten("aten.fill.Tensor")
def fill(context: Context, self: SymbolicTensor, value: SymbolicTensor) -> Any:
    """fill.Tensor(Tensor self, Tensor value) -> Tensor"""
    return shaping.expand(cast(value, context.dtype), shape=context.shape)


def filled(context: Context, value: Any) -> Any:
    """The result of the operator, with a number in each place."""
    if isinstance(value, SymbolicTensor):  # a number that the model computes
        return shaping.expand(cast(value, context.dtype), shape=context.shape)
    return context.builder.create(creation.full, shape=context.shape, value=value, dtype=context.dtype)


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
    return shaping.triangle(shaping.triangle(filled(context, 1), upper=True), upper=False)


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


ROWS: dict[str, Row] = {
    "aten.ones.default": (filled, "context, 1"),
    "aten.ones_like.default": (filled, "context, 1"),
    "aten.new_ones.default": (filled, "context, 1"),
    "aten.full.default": (filled, "context, fill_value"),
    "aten.full_like.default": (filled, "context, fill_value"),
    "aten.fill.Scalar": (filled, "context, value"),
    "aten.new_full.default": (filled, "context, fill_value"),
    "aten.scalar_tensor.default": (filled, "context, s"),
    "aten.arange.default": (_range, "context, 0, end, 1"),
    "aten.arange.start": (_range, "context, start, end, 1"),
    "aten.arange.start_step": (_range, "context, start, end, step"),
    "aten.tril.default": (shaping.triangle, "self, k=diagonal, upper=False"),
    "aten.triu.default": (shaping.triangle, "self, k=diagonal, upper=True"),
}
pass_on(ROWS)
