"""The reductions by which a scatter combines updates with elements, and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.dims import Dim, product
from ..ir.types import BOOL, FLOAT32, is_half
from . import comparison, creation, elementwise
from .registry import Array, OnnxGraph, Tensor, Type, require

UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def require_reduction(x: Type, reduction: str) -> None:
    """Raise `ShapeError` unless the reduction exists for the dtype of `x`."""
    require(reduction in ("none", *UFUNCS), f"reduction {reduction!r} isn't none or one of {', '.join(UFUNCS)}")
    require(reduction == "none" or x.dtype != BOOL, "needed numbers to reduce, given bool; cast first")


def combine(y: Array, places: Array, updates: Array, reduction: str) -> None:
    """Combine `updates` into the vector `y`, in place."""
    if reduction == "none":
        y[places] = updates
    else:
        UFUNCS[reduction].at(y, places, updates)


def gradients(
    g: Tensor,
    y: Tensor,
    x: Tensor,
    updates: Tensor,
    reduction: str,
    read: Callable[[Tensor], Any],
    write: Callable[[Tensor, Tensor, str], Any],
) -> tuple[Any, Any]:
    """Return the gradients of x and updates, as PyTorch's `scatter_reduce_backward` (FunctionsManual.cpp) does.

    Args:
        g: cotangent of the result.
        y: the result.
        x: the operand that is updated.
        updates: the updates.
        reduction: how they combine.
        read: returns the elements of a tensor like x at the positions of the updates.
        write: scatters into a tensor like x at these positions, by a reduction.
    """
    if reduction == "none":
        return write(g, creation.full_like(updates, 0), "none"), read(g)
    if reduction == "add":
        return g, read(g)
    if reduction in ("max", "min"):
        x_chosen = elementwise.cast(comparison.equal(x, y), dtype=g.dtype)
        updates_chosen = elementwise.cast(comparison.equal(updates, read(y)), dtype=g.dtype)
        share = g / write(x_chosen, updates_chosen, "add")
        return x_chosen * share, updates_chosen * read(share)
    # the product of all others; if an update is the only zero, the others are all nonzero elements
    gx = g * write(creation.full_like(x, 1), updates, "mul")
    zero = comparison.equal(updates, 0)
    zero_counts = read(write(creation.full_like(x, 0), elementwise.cast(zero, dtype=g.dtype), "add"))
    only_zero = comparison.logical_and(zero, comparison.equal(zero_counts, 1))
    one = creation.full_like(updates, 1)
    without_zeros = read(g * write(x, elementwise.where(only_zero, one, updates), "mul"))
    quotients = read(g * y) / elementwise.where(zero, one, updates)
    return gx, elementwise.where(only_zero, without_zeros, quotients)


def to_float32(graph: OnnxGraph, x: str) -> str:
    """Cast a half-precision tensor to float32, as for kernels; ONNX Runtime has no scatters that add float16."""
    return graph.cast(x, FLOAT32) if is_half(graph.type(x).dtype) else x


def cast_back(graph: OnnxGraph, y: str, type: Type) -> str:
    """Cast a result that was computed from `to_float32` operands to its own dtype."""
    return graph.cast(y, type.dtype) if is_half(type.dtype) else y


def combine_slices(
    graph: OnnxGraph,
    x: str,
    places: str,
    updates: str,
    shapes: tuple[tuple[Dim, ...], tuple[Dim, ...]],
    axis: int,
    reduction: str,
) -> str:
    """Emit `x` with slices of `updates` along `axis` combined with those at `places`, which may repeat.

    It uses ScatterElements-18, because ONNX Runtime's ScatterND writes slices in several threads with a data race for
    repeated places (microsoft/onnxruntime#18048: embeddings lost parts of their gradient). Rows are written as
    elements of one vector, for which ScatterElements takes half to two thirds of the time.

    Args:
        graph: the graph to emit to.
        x: the tensor.
        places: int64, with as many axes as `updates`, of size 1 except for `axis`.
        updates: the slices.
        shapes: of `x` and `updates`.
        axis: the axis of x that `places` index.
        reduction: how the slices combine.
    """
    whole, shape = shapes
    row = product(shape[1:])
    if axis or len(shape) == 1 or not isinstance(row, int):
        indices = graph.op("Expand", places, graph.dims(shape))
        return str(graph.op("ScatterElements", x, indices, updates, axis=axis, reduction=reduction))
    columns = graph.constant(np.arange(row).reshape(1, *shape[1:]))
    indices = graph.op("Add", graph.op("Mul", places, graph.constant(row, np.int64)), columns)
    flat = graph.constant([-1], np.int64)
    vectors = (graph.op("Reshape", tensor, flat) for tensor in (x, indices, updates))
    combined = graph.op("ScatterElements", *vectors, axis=0, reduction=reduction)
    return str(graph.op("Reshape", combined, graph.dims(whole), allowzero=1))
