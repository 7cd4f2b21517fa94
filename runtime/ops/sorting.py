"""Order along an axis: `argmax`, `argmin`, `sort`, `topk`. NaN counts as the largest number, as in ATen and NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..ir.dims import Dim
from ..ir.types import BOOL, INT64, is_floating
from ..traits import Traits
from . import creation, indexing
from .common import normalize_axis, require_same_dtype
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Op, Tensor, Type, operator, require


@operator
def argmax(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first largest element along `axis`, or of `x` flattened: ATen `argmax`, ONNX ArgMax-13."""


argmax.traits = Traits(ties="defined", wider_integers="most")


@operator
def argmin(x: Tensor, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Index (int64) of the first smallest element along `axis`, or of `x` flattened: ATen `argmin`, ONNX ArgMin-13."""


argmin.traits = Traits(ties="defined", wider_integers="most")


def _set_index_rules(op: Op, numpy_function: Any, onnx_name: str) -> None:
    @op.infer
    def _(x: Type, *, axis: int | None, keepdims: bool) -> Type:
        require(x.dtype != BOOL, "needed numbers, given bool; cast first")
        at = range(x.rank) if axis is None else [normalize_axis(axis, x.rank)]
        require(all(x.shape[i] != 0 for i in at if x.rank), "no element: the result is not defined")
        shape = tuple(1 if i in at else size for i, size in enumerate(x.shape) if keepdims or i not in at)
        return Type(INT64, shape)

    @op.kernel
    def _(x: Array, *, axis: int | None, keepdims: bool) -> Any:
        return numpy_function(x, axis=axis if x.ndim else None, keepdims=keepdims)

    @op.onnx
    def _(graph: OnnxGraph, x: str, *, axis: int | None, keepdims: bool) -> Any:
        type = graph.type(x)
        rank, x = type.rank, _replace_nonfinite(graph, x, type, largest=onnx_name == "ArgMax")
        if axis is not None and rank:
            return graph.op(onnx_name, x, axis=axis, keepdims=int(keepdims))
        index = graph.op(onnx_name, graph.op("Reshape", x, graph.constant([-1], np.int64)), axis=0, keepdims=0)
        return graph.op("Reshape", index, graph.constant([1] * (rank if keepdims else 0), np.int64))

    op.no_vjp("an index has no gradient")


_set_index_rules(argmax, np.argmax, "ArgMax")
_set_index_rules(argmin, np.argmin, "ArgMin")


@operator
def sort(x: Tensor, *, axis: int, descending: bool = False) -> tuple[Tensor, Tensor]:
    """The elements sorted along `axis`, and their indices (int64); the sort is stable.

    ATen `sort.stable`, ONNX TopK-11 of all the elements.
    """


sort.traits = Traits(ties="defined", exact=True, wider_integers="most")


@sort.infer
def _(x: Type, *, axis: int, descending: bool) -> tuple[Type, Type]:
    require(x.dtype != BOOL, "needed numbers, given bool; cast first")
    normalize_axis(axis, x.rank)
    return x, x.with_dtype(INT64)


@sort.kernel
def _(x: Array, *, axis: int, descending: bool) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    indices = _order(x, axis, descending)
    return np.take_along_axis(x, indices, axis), indices


@sort.vjp
def _(g: Any, y: Any, x: Tensor, *, axis: int, descending: bool) -> Any:
    return _scatter_gradient(g[0], y[1], x, axis)


@sort.onnx
def _(graph: OnnxGraph, x: str, *, axis: int, descending: bool) -> Any:
    type = graph.type(x)
    if type.rank == 0:
        return x, graph.constant(0, np.int64)
    return _onnx_topk(graph, x, type, type.shape[axis], axis, descending)


@operator
def topk(x: Tensor, *, k: Dim, axis: int, largest: bool = True, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) elements along `axis`, and their indices (int64): ATen `topk`, ONNX TopK-11.

    They are sorted even if `sorted` is False; equal ones keep their order.
    """


topk.traits = Traits(ties="defined", exact=True, wider_integers="most")


@topk.infer
def _(x: Type, *, k: Dim, axis: int, largest: bool, sorted: bool) -> tuple[Type, Type]:
    require(x.dtype != BOOL, "needed numbers, given bool; cast first")
    at = normalize_axis(axis, x.rank)
    size = x.shape[at] if x.rank else 1
    fits = not isinstance(size, int) or not isinstance(k, int) or 0 <= k <= size
    require(fits, f"k = {k} does not fit axis {at} of size {size}")
    y = x.with_shape((*x.shape[:at], k, *x.shape[at + 1 :]) if x.rank else ())
    return y, y.with_dtype(INT64)


@topk.kernel
def _(x: Array, *, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    indices = np.take(_order(x, axis, largest), np.arange(k), axis)
    return np.take_along_axis(x, indices, axis), indices


@topk.vjp
def _(g: Any, y: Any, x: Tensor, *, k: Dim, axis: int, largest: bool, sorted: bool) -> Any:
    return _scatter_gradient(g[0], y[1], x, axis)


@topk.onnx
def _(graph: OnnxGraph, x: str, *, k: Dim, axis: int, largest: bool, sorted: bool) -> Any:
    type = graph.type(x)
    if type.rank == 0:
        return x, graph.constant(0, np.int64)
    return _onnx_topk(graph, x, type, k, axis, largest)


def _onnx_topk(graph: OnnxGraph, x: str, type: Type, k: Dim, axis: int, largest: bool) -> tuple[str, str]:
    """Emit the first `k` elements in order, and their indices."""
    ordered = _replace_nonfinite(graph, x, type)
    values, indices = graph.op("TopK", ordered, graph.dims((k,)), outputs=2, axis=axis, largest=int(largest), sorted=1)
    return values if ordered is x else graph.op("GatherElements", x, indices, axis=axis), indices


def _replace_nonfinite(graph: OnnxGraph, x: str, type: Type, *, largest: bool = True) -> str:
    """Replace NaN, which ONNX Runtime doesn't sort, by infinity, and infinity by the largest finite number."""
    if not is_floating(type.dtype):
        return x
    w = Writer(graph, type.dtype)
    finite = float(ml_dtypes.finfo(type.dtype).max)  # type: ignore[no-untyped-call]
    below = w("Min", x, finite) if largest else w("Max", x, -finite)
    return w("Where", w("IsNaN", x), np.inf if largest else -np.inf, below)


@operator
def searchsorted(boundaries: Tensor, x: Tensor, *, right: bool = False) -> Tensor:
    """Positions (int64) at which values would be inserted into a sorted vector: ATen `searchsorted`.

    Args:
        boundaries: (..., n), ascending along the last axis; a vector for values of any shape.
        x: (..., k), values of the same dtype.
        right: whether to insert after boundaries equal to the value rather than before. NaN comes after all.
    """


@searchsorted.infer
def _(boundaries: Type, x: Type, *, right: bool) -> Type:
    require_same_dtype(boundaries, x)
    fits = boundaries.rank == 1 or boundaries.shape[:-1] == x.shape[:-1]
    require(boundaries.rank >= 1 and fits, "needed a vector of boundaries, or one for each row of values")
    return x.with_dtype(INT64)


@searchsorted.kernel
def _(boundaries: Array, x: Array, *, right: bool) -> Any:
    side: Any = "right" if right else "left"
    if boundaries.ndim == 1:
        return _move_nan_to_end(x, np.searchsorted(boundaries, x, side), boundaries)
    positions = np.empty(x.shape, np.int64)
    for row in np.ndindex(x.shape[:-1]):
        positions[row] = np.searchsorted(boundaries[row], x[row], side)
    return _move_nan_to_end(x, positions, boundaries)


def _move_nan_to_end(x: Array, positions: Any, boundaries: Array) -> Any:
    return np.where(x != x, boundaries.shape[-1], positions).astype(np.int64)


searchsorted.no_vjp("its result is integers")


@searchsorted.onnx
def _(graph: OnnxGraph, boundaries: str, x: str, *, right: bool) -> Any:
    rank = graph.type(x).rank
    if graph.type(boundaries).rank > 1:  # (..., 1, n) versus (..., k, 1)
        boundaries = graph.op("Unsqueeze", boundaries, graph.constant([-2], np.int64))
    values = graph.op("Unsqueeze", x, graph.constant([-1], np.int64))
    # boundaries not above the value (or, for left, below it) come before it; all do if it is NaN
    beyond = graph.op("Greater" if right else "GreaterOrEqual", boundaries, values)
    before = graph.op("Cast", graph.op("Not", beyond), to=INT64)
    # counted from the front: without values, ONNX Runtime before 1.32 doesn't drop axis -1
    return graph.op("ReduceSum", before, graph.constant([rank], np.int64), keepdims=0)


def _order(x: Array, axis: int, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    # sorting the reversed array and reversing the result keeps the order of equal elements
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.flip(x.shape[axis] - 1 - backwards, axis)


def _scatter_gradient(g: Tensor | None, indices: Tensor, x: Tensor, axis: int) -> Any:
    if g is None or x.ndim == 0:
        return g
    return indexing.scatter(creation.full_like(x, 0), indices, g, axis=axis)
