"""Sorting along an axis, top-k, and k-th elements. NaN counts as the largest number.

Indices are int32, except those of single elements (`kthvalue`), which are int64.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import int32, int64
from ..ops import comparison, elementwise, indexing, reduction, shaping, slicing, sorting
from ..ops.common import normalize_axis
from .arguments import integer, is_symbolic, require_integers, to_symbolic_size
from .operands import as_numeric, as_tensor
from .public_op import Primitive, argument_aliases, public_op


@public_op(method="sort", primitive=Primitive("Sort", init_args=("axis", "descending")))
@argument_aliases(dim="axis")
def sort(input_x: Any, axis: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """Sort along `axis`: the sorted elements, and their indices; the sort is stable."""
    x = as_numeric(input_x, "input_x", of="sort")
    checks.of_type(descending, "descending", bool, of="sort")
    values, indices = sorting.sort(x, axis=integer(axis, "axis", of="sort"), descending=descending)
    return values, elementwise.cast(indices, dtype=int32)


@public_op(method="argsort")
@argument_aliases(dim="axis")
def argsort(input: Any, axis: int = -1, descending: bool = False) -> Any:
    """The indices that sort the elements along `axis`."""
    return sort(input, axis, descending)[1]


@public_op(method="msort")
def msort(input: Any) -> Any:
    """Sort along the first axis: the sorted elements."""
    return sort(input, 0)[0]


@public_op(method="topk")
def topk(input: Any, k: Any, dim: int | None = None, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:
    """The `k` largest (or smallest) elements along `dim`, and their indices.

    Args:
        input: tensor of numbers.
        k: the number of elements, an int or an integer tensor of one element.
        dim: the axis; None for the last one.
        largest: whether to return the largest elements, or the smallest.
        sorted: whether the results are sorted; they always are, and equal elements keep their order.

    Raises:
        TypeError: `k` isn't an integer, or `sorted` isn't a bool.
        ValueError: `k` isn't between 1 and the size of the axis.
    """
    x = as_numeric(input, of="topk")
    checks.of_type(sorted, "sorted", bool, of="topk")
    count = to_symbolic_size(k, "k", of="topk") if is_symbolic(k) else integer(k, "k", of="topk")
    axis = -1 if dim is None else integer(dim, "dim", of="topk")
    size = x.shape[axis] if x.ndim else 1
    if isinstance(size, int) and isinstance(count, int) and not 1 <= count <= size:
        raise ValueError(f"For 'topk', 'k' must be between 1 and {size}, the size of axis {axis}, but got {count}")
    values, indices = sorting.topk(x, k=count, axis=axis, largest=largest, sorted=sorted)
    return values, elementwise.cast(indices, dtype=int32)


@public_op(method="top_k", primitive=Primitive("TopK", init_args=("sorted",)))
def top_k(input_x: Any, k: Any, sorted: bool = True) -> Any:
    """The `k` largest elements along the last axis, and their indices; see `topk`."""
    return topk(input_x, k, sorted=sorted)


@public_op(method="kthvalue")
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The `k`-th smallest element along `dim`, counted from 1, and its index."""
    x = as_numeric(input, of="kthvalue")
    return nth_smallest(x, checks.positive_int(k, "k", of="kthvalue") - 1, integer(dim, "dim", of="kthvalue"), keepdim)


def nth_smallest(x: Any, n: Any, axis: int, keepdims: bool) -> tuple[Any, Any]:
    """The element at position `n` (from 0) in the sorted order along `axis`, and its index (int64)."""
    if not x.ndim:
        return x, sorting.argmin(x)
    at = normalize_axis(axis, x.ndim)
    order = sorting.sort(x, axis=at)[1]
    index = slicing.slice(order, starts=(n,), stops=(n + 1,), steps=(1,), axes=(at,))
    value = indexing.gather(x, index, axis=at)
    if keepdims:
        return value, index
    shape = tuple(size for i, size in enumerate(x.shape) if i != at)
    return shaping.reshape(value, shape=shape), shaping.reshape(index, shape=shape)


@public_op(primitive=Primitive("NthElement", init_args=("reverse",)))
def _nth_element(input: Any, n: Any, reverse: bool = False) -> Any:
    """The element at position `n` (from 0) in the ascending (or descending) order along the last axis."""
    x = as_numeric(input, of="NthElement")
    index = integer(n, "n", of="NthElement")
    if not 0 <= index < x.shape[-1]:
        raise ValueError(f"For 'NthElement', 'n' must lie in [0, {x.shape[-1]}), but got {index}")
    return nth_smallest(x, x.shape[-1] - 1 - index if reverse else index, -1, False)[0]


@public_op(primitive=Primitive("InTopK", init_args=("k",)))
def intopk(x1: Any, x2: Any, k: int) -> Any:
    """Whether the score of the class `x2` (batch) in each row of `x1` (batch, classes) is among the `k` largest.

    True for a score equal to the k-th largest; False for a score that isn't finite, or for a class out of range.
    """
    x = as_tensor(x1, "x1", of="intopk")
    target = require_integers(x2, "x2", of="intopk")
    checks.positive_int(k, "k", of="intopk")
    if x.ndim != 2 or target.shape != x.shape[:1]:
        raise ValueError(
            f"For 'intopk', 'x1' must be (batch, classes) and 'x2' (batch,), but got shapes {x.shape}, {target.shape}"
        )
    zero = np.zeros((), target.dtype)
    in_range = comparison.logical_and(
        comparison.greater_equal(target, zero), comparison.less(target, np.asarray(x.shape[1], target.dtype))
    )
    index = shaping.reshape(elementwise.where(in_range, target, zero), shape=(x.shape[0], 1))
    value = indexing.gather(x, elementwise.cast(index, dtype=int64), axis=1)
    larger = elementwise.cast(comparison.greater(x, value), dtype=int64)
    in_top_k = comparison.less(reduction.reduce_sum(larger, axes=(1,)), np.asarray(k))
    valid = comparison.logical_and(in_range, comparison.isfinite(shaping.reshape(value, shape=target.shape)))
    return comparison.logical_and(in_top_k, valid)
