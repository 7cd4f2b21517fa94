"""How the updates of a scatter combine with what they meet, and the gradients of that."""

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
    """Raise `ShapeError` unless there is such a reduction for the dtype of `x`."""
    require(reduction in ("none", *UFUNCS), f"reduction {reduction!r} is neither none nor one of {', '.join(UFUNCS)}")
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
    """Gradients of x and updates, as in PyTorch's `scatter_reduce_backward` (FunctionsManual.cpp).

    Args:
        g: cotangent of the result.
        y: the result.
        x: what was written into.
        updates: what was written.
        reduction: how it was written.
        read: the elements of a tensor like x at the places of the updates.
        write: a scatter into a tensor like x at these places, by a reduction.
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
    # The product of all the others. Where one of the updates is the only zero, the others are those that aren't zero.
    to_x = g * write(creation.full_like(x, 1), updates, "mul")
    zero = comparison.equal(updates, 0)
    zeros_there = read(write(creation.full_like(x, 0), elementwise.cast(zero, dtype=g.dtype), "add"))
    only_zero = comparison.logical_and(zero, comparison.equal(zeros_there, 1))
    one = creation.full_like(updates, 1)
    without_zeros = read(g * write(x, elementwise.where(only_zero, one, updates), "mul"))
    to_others = read(g * y) / elementwise.where(zero, one, updates)
    return to_x, elementwise.where(only_zero, without_zeros, to_others)


def to_float32(graph: OnnxGraph, x: str) -> str:
    """A half-precision tensor in float32: as in the kernels, and ONNX Runtime has no scatters that add float16."""
    return graph.cast(x, FLOAT32) if is_half(graph.type(x).dtype) else x


def cast_back(graph: OnnxGraph, y: str, type: Type) -> str:
    """A result that was computed from `to_float32` operands, in the dtype that it should have."""
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
    """`x` with slices of `updates` along `axis` combined with those at `places`, of which several may be the same.

    That is ScatterElements-18, not ScatterND: ONNX Runtime's writes slices in several threads and doesn't keep those
    apart that write to one place (microsoft/onnxruntime#18048: embeddings lost parts of their gradient).
    Rows are written as the numbers of one vector, for which ScatterElements takes half to two thirds of the time.

    Args:
        graph: what to write to.
        x: the tensor.
        places: int64, as many axes as `updates`, of size 1 but for `axis`.
        updates: the slices.
        shapes: of `x` and `updates`.
        axis: which axis of x `places` address.
        reduction: how they combine.
    """
    whole, shape = shapes
    row = product(shape[1:])
    if axis or len(shape) == 1 or not isinstance(row, int):
        everywhere = graph.op("Expand", places, graph.dims(shape))
        return str(graph.op("ScatterElements", x, everywhere, updates, axis=axis, reduction=reduction))
    columns = graph.constant(np.arange(row).reshape(1, *shape[1:]))
    everywhere = graph.op("Add", graph.op("Mul", places, graph.constant(row, np.int64)), columns)
    flat = graph.constant([-1], np.int64)
    vectors = (graph.op("Reshape", tensor, flat) for tensor in (x, everywhere, updates))
    combined = graph.op("ScatterElements", *vectors, axis=0, reduction=reduction)
    return str(graph.op("Reshape", combined, graph.dims(whole), allowzero=1))
