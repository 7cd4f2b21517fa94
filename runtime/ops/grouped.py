"""Products of groups of rows with one matrix per group, for mixtures of experts: ATen `_grouped_mm`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..ir.types import BOOL
from ..traits import Traits
from . import shaping
from .common import require_same_dtype
from .registry import Array, OnnxGraph, Tensor, Type, operator, require


@operator
def grouped_matmul(x: Tensor, weight: Tensor, ends: Tensor) -> Tensor:
    """The rows of each group times the matrix of the group: ATen `_grouped_mm` of a matrix and a batch of matrices.

    Args:
        x: (n, k), with the rows of each group contiguous.
        weight: (groups, k, m).
        ends: (groups), non-decreasing integers: the number of rows in each group and all groups before it.

    Returns:
        (n, m); rows after the last group are zero.
    """


grouped_matmul.traits = Traits(products=True, costly=True)


@operator
def grouped_outer(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """For each group of rows, the transposed rows of `a` times those of `b`: ATen `_grouped_mm` of two matrices.

    Args:
        a: (n, k), with the rows of each group contiguous.
        b: (n, m), with the rows of each group contiguous.
        ends: see `grouped_matmul`.

    Returns:
        (groups, k, m); zero for a group without rows.
    """


grouped_outer.traits = Traits(products=True, costly=True)


def _require_groups(ends: Type, *operands: Type) -> None:
    require_same_dtype(*operands)
    require(operands[0].dtype != BOOL, "needed numbers, given bool; cast first")
    require(ends.rank == 1 and ends.dtype.kind in "iu", f"needed a vector of integers as ends, given {ends}")


@grouped_matmul.infer
def _(x: Type, weight: Type, ends: Type) -> Type:
    _require_groups(ends, x, weight)
    require(x.rank == 2 and weight.rank == 3, "needed a matrix and a batch of matrices")
    require(x.shape[1] == weight.shape[1], f"inner dimensions differ: {x.shape[1]} and {weight.shape[1]}")
    require(weight.shape[0] == ends.shape[0], f"{weight.shape[0]} matrices for {ends.shape[0]} groups")
    return x.with_shape((x.shape[0], weight.shape[2]))


@grouped_matmul.kernel
def _(x: Array, weight: Array, ends: Array) -> Array:
    y = np.zeros((x.shape[0], weight.shape[2]), x.dtype)
    for matrix, (start, end) in zip(weight, pairwise((0, *ends)), strict=True):
        if end > start:
            y[start:end] = x[start:end] @ matrix
    return y


@grouped_matmul.vjp
def _(g: Tensor, y: Tensor, x: Tensor, weight: Tensor, ends: Tensor) -> tuple[Any, ...]:
    return lambda: grouped_matmul(g, _swap_last_axes(weight), ends), lambda: grouped_outer(x, g, ends), None


@grouped_matmul.onnx
def _(graph: OnnxGraph, x: str, weight: str, ends: str) -> Any:
    count = graph.type(weight).shape[0]
    assert isinstance(count, int)
    matrices = graph.op(
        "Split", weight, graph.constant(np.ones(count, np.int64)), outputs=count, axis=0
    )  # (1, k, m) each
    *groups, _ = _groups(graph, x, ends)
    products = [graph.op("MatMul", group, m) for group, m in zip(groups, _as_list(matrices), strict=True)]
    y = graph.op("Squeeze", graph.op("Concat", *products, axis=1), graph.constant(np.array([0])))
    missing = graph.op("Sub", graph.op("Shape", x, start=0, end=1), graph.op("Shape", y, start=0, end=1))
    none = graph.constant(np.array([0]))
    return graph.op("Pad", y, graph.op("Concat", none, none, missing, none, axis=0))


@grouped_outer.infer
def _(a: Type, b: Type, ends: Type) -> Type:
    _require_groups(ends, a, b)
    require(a.rank == b.rank == 2, "needed two matrices")
    require(a.shape[0] == b.shape[0], f"the numbers of rows differ: {a.shape[0]} and {b.shape[0]}")
    return a.with_shape((ends.shape[0], a.shape[1], b.shape[1]))


@grouped_outer.kernel
def _(a: Array, b: Array, ends: Array) -> Array:
    y = np.zeros((ends.shape[0], a.shape[1], b.shape[1]), a.dtype)
    for product, (start, end) in zip(y, pairwise((0, *ends)), strict=True):
        if end > start:
            product[...] = a[start:end].T @ b[start:end]
    return y


@grouped_outer.vjp
def _(g: Tensor, y: Tensor, a: Tensor, b: Tensor, ends: Tensor) -> tuple[Any, ...]:
    return lambda: grouped_matmul(b, _swap_last_axes(g), ends), lambda: grouped_matmul(a, g, ends), None


@grouped_outer.onnx
def _(graph: OnnxGraph, a: str, b: str, ends: str) -> Any:
    columns = graph.op("Unsqueeze", graph.op("Transpose", a, perm=[1, 0]), graph.constant(np.array([0])))
    *lefts, _ = _groups(graph, columns, ends, axis=2)  # (1, k, rows) each
    *rights, _ = _groups(graph, b, ends)
    products = [graph.op("MatMul", left, right) for left, right in zip(lefts, rights, strict=True)]
    return graph.op("Concat", *products, axis=0)


def _groups(graph: OnnxGraph, x: str, ends: str, axis: int = 0) -> list[str]:
    """Split `x` into the rows of each group and the remaining rows."""
    count = graph.type(ends).shape[0]
    assert isinstance(count, int)
    ends = graph.cast(ends, np.int64)
    bounds = graph.op(
        "Concat", graph.constant(np.array([0])), ends, graph.op("Shape", x, start=axis, end=axis + 1), axis=0
    )
    starts = graph.op("Slice", bounds, graph.constant(np.array([0])), graph.constant(np.array([-1])))
    after = graph.op("Slice", bounds, graph.constant(np.array([1])), graph.constant(np.array([count + 2])))
    return list(graph.op("Split", x, graph.op("Sub", after, starts), outputs=count + 1, axis=axis))


def _as_list(outputs: Any) -> list[str]:
    return [outputs] if isinstance(outputs, str) else list(outputs)


def _swap_last_axes(x: Tensor) -> Any:
    return shaping.transpose(x, permutation=(0, 2, 1))
