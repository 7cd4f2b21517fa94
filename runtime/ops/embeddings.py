"""Lookup of rows in a table of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dims import product
from ..traits import Traits
from . import comparison, creation, elementwise, indexing, shaping
from .declarations import zero
from .registry import Array, OnnxGraph, Tensor, Type, operator

PADDING = "cellbridge.padding_index"  # metadata of an ONNX node: the row that isn't trained


@operator
def embedding(weight: Tensor, indices: Tensor, *, padding_index: int | None = None) -> Tensor:
    """The rows of `weight` at `indices`. ATen embedding, ONNX Gather-13.

    Args:
        weight: (rows, features).
        indices: int64 or int32, any shape.
        padding_index: the row that gets no gradient.

    Returns:
        (*indices, features).
    """


embedding.traits = Traits(moves="first")


@embedding.infer
def _(weight: Type, indices: Type, *, padding_index: int | None) -> Type:
    (rows,) = indexing.take.infer_types([weight, indices], {"axis": 0})
    return rows


@embedding.native_kernel
def _(weight: Array, indices: Array, *, padding_index: int | None) -> Array:
    return np.take(weight, indices, 0)


@embedding.vjp
def _(g: Tensor, y: Tensor, weight: Tensor, indices: Tensor, *, padding_index: int | None) -> tuple[Any, None]:
    if padding_index is not None:
        padding = shaping.reshape(comparison.equal(indices, padding_index), shape=(*indices.shape, 1))
        g = elementwise.where(padding, zero(g), g)
    count = product(indices.shape)
    rows = shaping.reshape(g, shape=(count, weight.shape[1]))
    flat = shaping.reshape(indices, shape=(count,))
    return indexing.index_add(creation.full_like(weight, 0), flat, rows, axis=0), None


@embedding.onnx
def _(graph: OnnxGraph, weight: str, indices: str, *, padding_index: int | None) -> str:
    rows = str(graph.op("Gather", weight, indices, axis=0))
    if padding_index is not None:  # it matters only for the gradient, which ONNX doesn't have
        graph.note(PADDING, str(padding_index))
    return rows
