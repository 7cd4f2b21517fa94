"""Search in sorted sequences, runs of equal elements, quantiles. Indices have no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.dtype import int32, int64, to_dtype
from ..common.tensor import from_array
from ..ir.types import is_floating
from ..ops import comparison, creation, elementwise, indexing, reduction, rounding, shaping, slicing
from ..ops.common import normalize_axis
from .arguments import integer, known_elements, require_integers
from .indexing import unique
from .operands import as_tensor, common_dtype
from .permuting import moveaxis
from .public_op import Primitive, public_op
from .sorting import sort


@public_op(method="searchsorted")
def searchsorted(
    sorted_sequence: Any,
    values: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """The indices at which to insert values into sorted sequences to keep them sorted.

    Args:
        sorted_sequence: (n), or (*rows, n), ascending along the last axis.
        values: any shape for a vector; (*rows, m) otherwise.
        out_int32: whether the result is int32 instead of int64.
        right: whether to insert after equal elements instead of before them.
        side: "left" or "right", an alternative to `right`.
        sorter: the indices that sort `sorted_sequence`, if it isn't sorted.

    Returns:
        The number of smaller (or, to the right, not larger) elements, in the shape of `values`.

    Raises:
        ValueError: `side` is unknown or contradicts `right`, or the shapes don't fit.
    """
    of = "searchsorted"
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ValueError(f"For '{of}', 'side' must be 'left' or 'right' and agree with 'right', but got {side!r}")
    sequence, v = as_tensor(sorted_sequence, "sorted_sequence", of=of), as_tensor(values, "values", of=of)
    if sequence.ndim != 1 and tuple(sequence.shape[:-1]) != tuple(v.shape[:-1]):
        raise ValueError(
            f"For '{of}', all but the last axis of 'sorted_sequence' and 'values' must agree, but got shapes "
            f"{tuple(sequence.shape)} and {tuple(v.shape)}"
        )
    if sorter is not None:
        sequence = indexing.gather(sequence, require_integers(sorter, "sorter", of=of), axis=sequence.ndim - 1)
    return _insertion_indices(sequence, v, right or side == "right", int32 if out_int32 else int64)


def _insertion_indices(sequence: Any, values: Any, right: bool, dtype: np.dtype[Any]) -> Any:
    sequence, values = common_dtype((sequence, values))
    columns = shaping.reshape(values, shape=(*values.shape, 1))
    if sequence.ndim > 1:
        sequence = shaping.reshape(sequence, shape=(*sequence.shape[:-1], 1, sequence.shape[-1]))
    before = comparison.less_equal(sequence, columns) if right else comparison.less(sequence, columns)
    return reduction.reduce_sum(elementwise.cast(before, dtype=dtype), axes=(before.ndim - 1,))


@public_op(primitive=Primitive("SearchSorted", init_args=("dtype", "right")))
def _search_sorted(
    sorted_sequence: Any, values: Any, sorter: Any = None, dtype: Any = int64, right: bool = False
) -> Any:
    """`searchsorted`, with a result of an integer dtype."""
    indices = searchsorted(sorted_sequence, values, right=right, sorter=sorter)
    return elementwise.cast(indices, dtype=to_dtype(dtype))


@public_op(primitive=Primitive("LowerBound", init_args=("out_type",)))
def _lower_bound(sorted_x: Any, values: Any, out_type: Any = int32) -> Any:
    """The number of elements in each row that are smaller than each value of that row."""
    return elementwise.cast(searchsorted(sorted_x, values), dtype=to_dtype(out_type))


@public_op(primitive=Primitive("UpperBound", init_args=("out_type",)))
def _upper_bound(sorted_x: Any, values: Any, out_type: Any = int32) -> Any:
    """The number of elements in each row that are at most each value of that row."""
    return elementwise.cast(searchsorted(sorted_x, values, right=True), dtype=to_dtype(out_type))


@public_op(primitive=Primitive("Bucketize", init_args=("boundaries",), defaults={"right": True}))
def bucketize(input: Any, boundaries: Any, *, right: bool = False) -> Any:
    """The index (int32) of the interval between ascending `boundaries` that holds each element.

    Interval i is (b[i - 1], b[i]]; with `right`, [b[i - 1], b[i]).
    """
    x = as_tensor(input, of="bucketize")
    return _insertion_indices(as_tensor(boundaries, "boundaries", of="bucketize"), x, right, int32)


@public_op(method="unique_consecutive")
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements.

    Args:
        input: any tensor; without `dim` it is flattened.
        return_inverse: whether to also return the index of each element's run.
        return_counts: whether to also return the length of each run.
        dim: the axis whose slices are compared.

    Returns:
        The elements; with a flag, a tuple of the elements and the requested int64 tensors, in the order of the flags.
    """
    x = as_tensor(input, of="unique_consecutive")
    shape = tuple(x.shape)
    if dim is None:
        x, axis = shaping.reshape(x, shape=(int(np.prod(shape, dtype=int)),)), 0
    else:
        axis = normalize_axis(integer(dim, "dim", of="unique_consecutive"), x.ndim)
    slices = np.moveaxis(known_elements(x, "the operand of unique_consecutive"), axis, 0)
    rows = slices.reshape(len(slices), int(np.prod(slices.shape[1:], dtype=int)))
    starts = np.concatenate([np.ones(min(len(rows), 1), bool), (rows[1:] != rows[:-1]).any(axis=1)])
    firsts = np.flatnonzero(starts)
    results = [indexing.take(x, from_array(firsts), axis=axis)]
    if return_inverse:
        runs = np.cumsum(starts) - 1
        results.append(from_array(runs.reshape(shape) if dim is None else runs))
    if return_counts:
        results.append(from_array(np.diff(np.append(firsts, len(rows)))))
    return results[0] if len(results) == 1 else tuple(results)


@public_op(primitive=Primitive("UniqueConsecutive", init_args=("return_inverse", "return_counts", "dim")))
def _unique_consecutive(
    x: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> tuple[Any, Any, Any]:
    """`unique_consecutive` with all three results, a 0-d zero for each one not requested."""
    values, runs, lengths = unique_consecutive(x, True, True, dim)
    nothing = from_array(np.zeros((), int64))
    return values, runs if return_inverse else nothing, lengths if return_counts else nothing


@public_op(method="unique_with_pad", primitive="UniqueWithPad")
def unique_with_pad(x: Any, pad_num: Any) -> tuple[Any, Any]:
    """The distinct elements of a vector, as `unique` returns them, padded with `pad_num` to the size of `x`."""
    tensor = as_tensor(x, "x", of="unique_with_pad")
    values, places = unique(tensor)
    rest = creation.full_like(tensor, pad_num, (tensor.shape[0] - values.shape[0],))
    return slicing.concat(values, as_tensor(rest), axis=0), places


# ---- quantiles ----


@public_op(method="quantile")
def quantile(input: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """The value below which a fraction `q` of the elements along `axis` lies, with linear interpolation.

    Args:
        input: floating-point.
        q: a number in [0, 1], or a vector of them.
        axis: the axis; None for all elements.
        keepdims: whether to keep the axis, with size 1.

    Returns:
        The quantiles: `input` without the axis, with a new first axis for a vector `q`. NaN if an element is NaN.

    Raises:
        TypeError: `input` isn't floating-point.
        ValueError: `q` has more than one dimension or lies outside of [0, 1].
    """
    return _quantile(input, q, axis, keepdims, leave_out_nan=False, of="quantile")


@public_op(method="nanquantile")
def nanquantile(input: Any, q: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """`quantile` of the elements that aren't NaN; NaN if all are NaN."""
    return _quantile(input, q, axis, keepdims, leave_out_nan=True, of="nanquantile")


def _quantile(input: Any, q: Any, axis: int | None, keepdims: bool, *, leave_out_nan: bool, of: str) -> Any:
    x = as_tensor(input, of=of)
    if not is_floating(x.dtype):
        raise TypeError(f"For '{of}', 'input' must have a floating-point dtype, but got {x.dtype}")
    shares = (
        from_array(np.asarray(q, x.dtype))
        if isinstance(q, (int, float))
        else elementwise.cast(as_tensor(q, "q", of=of), dtype=x.dtype)
    )
    if shares.ndim > 1:
        raise ValueError(f"For '{of}', 'q' must be a number or a vector, but got shape {tuple(shares.shape)}")
    values = known_elements(shares, "the fractions of a quantile")
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"For '{of}', 'q' must lie in [0, 1], but got {values}")
    rank = x.ndim
    if axis is None:
        x, at = shaping.reshape(x, shape=(int(np.prod(x.shape, dtype=int)),)), 0
    else:
        at = normalize_axis(integer(axis, "axis", of=of), rank)
    rows = moveaxis(x, at, -1) if x.ndim else shaping.reshape(x, shape=(1,))
    ordered = sort(rows)[0]  # NaN last
    missing = comparison.isnan(ordered)
    counts = reduction.reduce_sum(
        elementwise.cast(comparison.logical_not(missing), dtype=x.dtype), axes=(ordered.ndim - 1,), keepdims=True
    )
    position = elementwise.clamp(counts - 1.0, minimum=0) * shares  # (..., number of shares)
    low = rounding.floor(position)
    usable = elementwise.where(missing, np.zeros((), x.dtype), ordered)
    below, above = (
        indexing.gather(usable, elementwise.cast(p, dtype=int64), axis=ordered.ndim - 1)
        for p in (low, rounding.ceil(position))
    )
    quantiles = below + (above - below) * (position - low)
    size = np.asarray(ordered.shape[-1], x.dtype)
    is_nan = comparison.less(counts, np.ones((), x.dtype) if leave_out_nan else size)
    quantiles = elementwise.where(is_nan, np.full((), np.nan, x.dtype), quantiles)
    lead = moveaxis(quantiles, -1, 0)
    if keepdims:
        sizes = (1,) * rank if axis is None else tuple(1 if i == at else size for i, size in enumerate(x.shape))
        lead = shaping.reshape(lead, shape=(lead.shape[0], *sizes))
    return lead if shares.ndim else shaping.reshape(lead, shape=tuple(lead.shape[1:]))
