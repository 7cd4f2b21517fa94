"""Matrix products: `matmul` and `linear`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.dims import product
from ..ir.types import BOOL, is_floating
from ..traits import Traits
from . import reduction, shaping
from .common import broadcast_shapes, require_same_dtype, unbroadcast
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Matrix product over the last axis of `a` and the second to last of `b`; leading axes broadcast.

    A vector is a row as `a` and a column as `b`, and the result lacks its axis, as in NumPy's `matmul`. ATen `matmul`,
    ONNX MatMul-13.

    Args:
        a: (..., n, k) or (k).
        b: (..., k, m) or (k).

    Returns:
        (..., n, m), without n where `a` is a vector and without m where `b` is.
    """


matmul.traits = Traits(products=True, costly=True, mixed_precision="half", wider_integers="all")


@matmul.infer
def _(a: Type, b: Type) -> Type:
    require_same_dtype(a, b)
    require(a.dtype != BOOL, "needed numbers, given bool; cast first")
    require(a.rank > 0 and b.rank > 0, "needed operands with at least one dimension")
    inner = b.shape[-2] if b.rank > 1 else b.shape[0]
    require(a.shape[-1] == inner, f"inner dimensions differ: {a.shape[-1]} and {inner}")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.with_shape((*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.rank > 1 else ())))


@matmul.kernel
def _(a: Array, b: Array) -> Any:
    if a.ndim > 2 and b.ndim == 2:  # one large product instead of one for each matrix of the batch
        rows = a.reshape(math.prod(a.shape[:-1]), a.shape[-1])
        return (_copy_for_blas(rows) @ _copy_for_blas(b)).reshape(*a.shape[:-1], b.shape[1])
    return np.matmul(_copy_for_blas(a), _copy_for_blas(b))


@matmul.vjp
def _(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Any, ...]:
    rows = shaping.reshape(a, shape=(1, *a.shape)) if a.ndim == 1 else a
    columns = shaping.reshape(b, shape=(*b.shape, 1)) if b.ndim == 1 else b
    batch = g.shape[: len(g.shape) - (a.ndim > 1) - (b.ndim > 1)]
    g = shaping.reshape(g, shape=(*batch, rows.shape[-2], columns.shape[-1]))

    def g_a() -> Any:
        return shaping.reshape(unbroadcast(matmul(g, _swap_last_axes(columns)), rows), shape=a.shape)

    def g_b() -> Any:
        if columns.ndim == 2:
            g_columns = matmul(_swap_last_axes(_flatten_rows(rows)), _flatten_rows(g))
        else:
            g_columns = unbroadcast(matmul(_swap_last_axes(rows), g), columns)
        return shaping.reshape(g_columns, shape=b.shape)

    return g_a, g_b


@matmul.onnx
def _(graph: OnnxGraph, a: str, b: str) -> Any:
    # convert vectors to matrices: ONNX Runtime fuses a Transpose into a MatMul with a vector, with a wrong result
    added_axes: list[int] = []
    if graph.type(a).rank == 1:
        a = graph.op("Unsqueeze", a, graph.constant(np.array([0])))
        added_axes.append(-2)
    if graph.type(b).rank == 1:
        b = graph.op("Unsqueeze", b, graph.constant(np.array([1])))
        added_axes.append(-1)
    y = graph.op("MatMul", a, b)
    return graph.op("Squeeze", y, graph.constant(np.array(added_axes))) if added_axes else y


@operator
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`x @ weight.T + bias`: ATen `linear`; ONNX Gemm-13 for a matrix `x`, else MatMul-13 and Add-14.

    Args:
        x: (..., k).
        weight: (m, k), or (k) for the product with a vector.
        bias: (m), or without dimensions where `weight` is (k).

    Returns:
        (..., m), or (...) where `weight` is (k).
    """


linear.traits = Traits(products=True, costly=True, mixed_precision="half", wider_integers="all")


@linear.infer
def _(x: Type, weight: Type, bias: Type | None = None) -> Type:
    require_same_dtype(x, weight, *([] if bias is None else [bias]))
    require(x.dtype != BOOL, "needed numbers, given bool; cast first")
    require(x.rank > 0, "needed an x of at least one dimension")
    require(weight.rank in (1, 2), f"needed a weight of shape (m, k) or (k), given {weight.shape}")
    require(
        x.shape[-1] == weight.shape[-1],
        f"dimensions of MatMul differ: x has {x.shape[-1]} features, the weight takes {weight.shape[-1]}",
    )
    require(bias is None or bias.shape == weight.shape[:-1], f"needed a bias of shape {weight.shape[:-1]}")
    return x.with_shape((*x.shape[:-1], *weight.shape[:-1]))


@linear.kernel
def _(x: Array, weight: Array, bias: Array | None = None) -> Array:
    y: Array = _copy_for_blas(x.reshape(math.prod(x.shape[:-1]), x.shape[-1])) @ _copy_for_blas(weight).T
    if bias is not None:
        y += bias
    return y.reshape(*x.shape[:-1], *weight.shape[:-1])


@linear.vjp
def _(g: Tensor, y: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Any, ...]:
    matrix = shaping.reshape(weight, shape=(1, *weight.shape)) if weight.ndim == 1 else weight
    g = shaping.reshape(g, shape=(*x.shape[:-1], matrix.shape[0]))
    rows = _flatten_rows(g)
    g_bias = None if bias is None else shaping.reshape(reduction.reduce_sum(rows, axes=(0,)), shape=bias.shape)
    return (
        lambda: matmul(g, matrix),
        lambda: shaping.reshape(matmul(_swap_last_axes(rows), _flatten_rows(x)), shape=weight.shape),
        g_bias,
    )


@linear.onnx
def _(graph: OnnxGraph, x: str, weight: str, bias: str = "") -> Any:
    weight_type = graph.type(weight)
    if graph.type(x).rank == 2 and weight_type.rank == 2 and is_floating(weight_type.dtype):
        return graph.op("Gemm", x, weight, *([bias] if bias else []), transB=1)
    matrix = graph.op("Transpose", weight, perm=[1, 0]) if weight_type.rank == 2 else weight
    y = graph.op("MatMul", x, matrix)
    return graph.op("Add", y, bias) if bias else y


def _flatten_rows(x: Tensor) -> Any:
    """Reshape (..., k) to (n, k)."""
    return x if x.ndim == 2 else shaping.reshape(x, shape=(product(x.shape[:-1]), x.shape[-1]))


def _swap_last_axes(x: Tensor) -> Any:
    """Swap the last two axes."""
    rank = x.ndim
    return shaping.transpose(x, permutation=(*range(rank - 2), rank - 1, rank - 2))


def _copy_for_blas(x: Array) -> Array:
    """Copy `x` if neither of its last two axes is contiguous, or if one has overlapping elements (after an expansion).

    NumPy multiplies such matrices without BLAS, which is hundreds of times slower.
    """
    if x.ndim < 2:
        return x
    (rows, columns), (row_step, column_step) = x.shape[-2:], x.strides[-2:]
    row_major = column_step == x.itemsize and (rows == 1 or row_step >= columns * x.itemsize)
    column_major = row_step == x.itemsize and (columns == 1 or column_step >= rows * x.itemsize)
    return x if row_major or column_major else np.ascontiguousarray(x)
