"""Sums, products and extrema of segments: slices with the same segment number, in any order."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..common.tensor import is_known
from ..ir.dims import Dim, product
from ..ir.types import is_floating
from ..ops import creation, elementwise, indexing, shaping
from .arguments import integer, require_integers
from .joining import part
from .operands import as_tensor
from .public_op import public_op


def _combine(x: Any, segment_ids: Any, num_segments: Any, reduction: str, start: Any, *, of: str) -> Any:
    """Combine the slices of `x` with the same number in `segment_ids`, starting from `start`.

    Args:
        x: (*ids, ...), numbers.
        segment_ids: (*ids), integers below `num_segments`; slices with a negative number are ignored.
        num_segments: the number of segments.
        reduction: the reduction, as in `ops.indexing.scatter_nd`.
        start: the value of an empty segment.
        of: name of the operator.

    Returns:
        (num_segments, ...).
    """
    x = as_tensor(x, "input_x", of=of)
    ids = require_integers(as_tensor(segment_ids, "segment_ids", of=of), "segment_ids", of=of)
    count = integer(num_segments, "num_segments", of=of)
    if count < 1:
        raise ValueError(f"For '{of}', 'num_segments' must be positive, but got {count}")
    if not ids.ndim or tuple(x.shape[: ids.ndim]) != tuple(ids.shape):
        raise ValueError(
            f"For '{of}', the shape of 'segment_ids' must be that of the first axes of the input, but got "
            f"{tuple(ids.shape)} and {tuple(x.shape)}"
        )
    if is_known(ids) and ids.size and int(np.asarray(ids).max()) >= count:
        raise IndexError(f"For '{of}', 'segment_ids' must be below {count}, but got {np.asarray(ids).max()}")
    rest = tuple(x.shape[ids.ndim :])
    slices: Dim = product(ids.shape)
    rows = shaping.reshape(x, shape=(slices, *rest))
    places = elementwise.clamp(shaping.reshape(ids, shape=(slices,)), minimum=-1) + 1  # 0: ignored
    base = as_tensor(creation.full_like(x, start, (count + 1, *rest)))
    if reduction == "add":
        combined = indexing.index_add(base, places, rows, axis=0)
    else:
        combined = indexing.scatter_nd(base, shaping.reshape(places, shape=(slices, 1)), rows, reduction=reduction)
    return part(combined, 0, 1, count + 1)


@public_op(method="unsorted_segment_sum", primitive="UnsortedSegmentSum")
def unsorted_segment_sum(input_x: Any, segment_ids: Any, num_segments: int) -> Any:
    """Sum of the slices of each segment; zeros for an empty segment.

    Args:
        input_x: (*ids, ...).
        segment_ids: (*ids), integers below `num_segments`; slices with a negative number are ignored.
        num_segments: number of segments.

    Returns:
        (num_segments, ...).
    """
    return _combine(input_x, segment_ids, num_segments, "add", 0, of="unsorted_segment_sum")


@public_op(method="unsorted_segment_prod", primitive="UnsortedSegmentProd")
def unsorted_segment_prod(x: Any, segment_ids: Any, num_segments: int) -> Any:
    """Product of the slices of each segment; ones for an empty segment. See `unsorted_segment_sum`."""
    return _combine(x, segment_ids, num_segments, "mul", 1, of="unsorted_segment_prod")


@public_op(method="unsorted_segment_max", primitive="UnsortedSegmentMax")
def unsorted_segment_max(x: Any, segment_ids: Any, num_segments: int) -> Any:
    """Largest elements of the slices of each segment; the smallest number of the dtype for an empty segment.

    See `unsorted_segment_sum`.
    """
    start = _limits(as_tensor(x, "x", of="unsorted_segment_max").dtype)[0]
    return _combine(x, segment_ids, num_segments, "max", start, of="unsorted_segment_max")


@public_op(method="unsorted_segment_min", primitive="UnsortedSegmentMin")
def unsorted_segment_min(x: Any, segment_ids: Any, num_segments: int) -> Any:
    """Smallest elements of the slices of each segment; the largest number of the dtype for an empty segment.

    See `unsorted_segment_sum`.
    """
    start = _limits(as_tensor(x, "x", of="unsorted_segment_min").dtype)[1]
    return _combine(x, segment_ids, num_segments, "min", start, of="unsorted_segment_min")


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """The smallest and the largest finite number of a dtype."""
    if is_floating(dtype):
        limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
        return float(limits.min), float(limits.max)
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
