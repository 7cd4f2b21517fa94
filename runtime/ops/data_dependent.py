"""Ops whose output sizes depend on values, such as `nonzero` and `unique`, and are known only at run time.

Such a size is a symbol named by the attribute `symbols`; the types of dependent values use it.
"""

from __future__ import annotations

import numpy as np

from ..ir.dims import product, symbol
from ..ir.types import BOOL, INT64
from ..traits import Traits
from .common import normalize_axis
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

_COUNTS = "its result is integers"
_ORDER = "torch has no gradient of unique either: equal elements share one"


@operator
def read_sizes(x: Tensor, *, symbols: tuple[str, ...]) -> Tensor:
    """Identity of an integer tensor that makes its elements the sizes of symbols.

    Args:
        x: integers, zero- or one-dimensional.
        symbols: names of the sizes, one per element.
    """


@read_sizes.infer
def _(x: Type, *, symbols: tuple[str, ...]) -> Type:
    require(x.dtype.kind in "iu" and x.rank <= 1, f"needed integers in one dimension at most, given {x}")
    require(x.shape in ((), (len(symbols),)), f"needed {len(symbols)} integers for as many symbols, given {x}")
    return x


@read_sizes.native_kernel
def _(x: Array, *, symbols: tuple[str, ...]) -> Array:
    return x


read_sizes.no_vjp(_COUNTS)


@read_sizes.onnx
def _(graph: OnnxGraph, x: str, *, symbols: tuple[str, ...]) -> str:
    graph.read_sizes(x, symbols)
    return x


@operator
def nonzero(x: Tensor, *, symbols: tuple[str, ...]) -> Tensor:
    """Indices of the elements that aren't zero, in row-major order: int64 (count, rank of x).

    Args:
        x: any tensor; if it has no dimensions, the result is (count, 0).
        symbols: one name, for the size `count`.

    ATen nonzero; ONNX NonZero-13, transposed.
    """


@nonzero.infer
def _(x: Type, *, symbols: tuple[str, ...]) -> Type:
    return Type(INT64, (symbol(symbols[0]), x.rank))


@nonzero.native_kernel
def _(x: Array, *, symbols: tuple[str, ...]) -> Array:
    if x.ndim == 0:
        return np.zeros((int(bool(x)), 0), np.int64)
    return np.stack(np.nonzero(x), axis=1).astype(np.int64, copy=False)


nonzero.no_vjp(_COUNTS)


@nonzero.onnx
def _(graph: OnnxGraph, x: str, *, symbols: tuple[str, ...]) -> str:
    rank = graph.type(x).rank
    x = graph.cast(x, BOOL)  # ONNX Runtime has kernels for few other dtypes
    if rank == 0:  # ONNX treats a scalar as one-dimensional; in ATen each index is an empty row
        x = graph.op("Reshape", x, graph.constant([1], INT64))
    indices: str = graph.op("Transpose", graph.op("NonZero", x), perm=[1, 0])
    if rank == 0:
        bounds = (graph.constant([i], INT64) for i in (0, 0, 1))
        indices = graph.op("Slice", indices, *bounds)
    return indices


@operator
def unique(x: Tensor, *, symbols: tuple[str, ...], axis: int | None = None, sorted: bool = True) -> tuple[Tensor, ...]:
    """The distinct elements of x, or the distinct slices along an axis.

    Args:
        x: any tensor.
        symbols: one name, for the size `count`.
        axis: the axis whose slices are compared; None for the elements of x flattened.
        sorted: whether to sort in ascending order (slices lexicographically), or to keep the order of first occurrence.

    Returns:
        The values, (count,) or x with the axis of that size; and three int64 vectors: the first position of each
        value, the index of the value of each element or slice of x, and the number of occurrences of each value.

    ATen unique_dim, _unique2; ONNX Unique-11.
    """


unique.traits = Traits(ties="open", exact=True)


@unique.infer
def _(x: Type, *, symbols: tuple[str, ...], axis: int | None, sorted: bool) -> tuple[Type, ...]:
    count = symbol(symbols[0])
    places = Type(INT64, (count,))
    if axis is None:
        return Type(x.dtype, (count,)), places, Type(INT64, (product(x.shape),)), places
    at = normalize_axis(axis, x.rank)
    values = x.with_shape((*x.shape[:at], count, *x.shape[at + 1 :]))
    return values, places, Type(INT64, (x.shape[at],)), places


@unique.native_kernel
def _(x: Array, *, symbols: tuple[str, ...], axis: int | None, sorted: bool) -> tuple[Array, ...]:
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis, equal_nan=False
    )
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        values = values[order] if axis is None else np.take(values, order, axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    return values, *(array.astype(np.int64, copy=False) for array in (first, inverse, counts))


unique.no_vjp(_ORDER)


@unique.onnx
def _(graph: OnnxGraph, x: str, *, symbols: tuple[str, ...], axis: int | None, sorted: bool) -> tuple[str, ...]:
    dtype = graph.type(x).dtype
    numbers = graph.cast(x, np.int8) if dtype == BOOL else x  # ONNX Runtime has no kernel for bool
    values, *others = graph.op("Unique", numbers, outputs=4, axis=axis, sorted=int(sorted))
    return values if dtype != BOOL else graph.op("Cast", values, to=BOOL), *others
