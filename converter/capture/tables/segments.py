"""ATen's reduction of consecutive rows: `segment_reduce`."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.types import INT64
from ....runtime.ops import comparison, creation, elementwise, indexing, reduction, scanning, shaping
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .scattering import REDUCTIONS
from .slicing import part
from .table import Context, aten, cast, operands

NAMES = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}
START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": float("-inf"), "min": float("inf")}


@aten("aten.segment_reduce.default")
def segment_reduce(
    context: Context, data: SymbolicTensor, reduce: str, *, lengths: SymbolicTensor | None = None,
    indices: SymbolicTensor | None = None,
    offsets: SymbolicTensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    """segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int
    axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor

    Each segment starts with `initial`; the mean of an empty segment is NaN unless `initial` is given.
    """
    boundaries = lengths if lengths is not None else offsets
    if boundaries is None or boundaries.ndim != 1 or axis != 0:
        raise Unsupported("segments that differ from row to row")
    rows, count = data.shape[0], context.shape[0]
    ends = (
        scanning.cumsum(cast(boundaries, INT64), axis=0)
        if lengths is not None
        else cast(part(boundaries, 0, 1, count + 1), INT64)
    )
    numbers = context.builder.create(creation.arange, stop=rows, dtype=INT64)
    # a row belongs to the first segment that ends after it, which is the number of ends at or before it
    passed = comparison.less_equal(shaping.reshape(ends, shape=(1, count)), shaping.reshape(numbers, shape=(rows, 1)))
    segment = reduction.reduce_sum(cast(passed, INT64), axes=(1,))
    shape = (count + 1, *data.shape[1:])  # the last one is for rows after all segments
    start = creation.full_like(data, START[reduce] if initial is None else float(initial), shape=shape)
    places = shaping.expand(shaping.reshape(segment, shape=(rows, *[1] * (data.ndim - 1))), shape=data.shape)
    reduced = part(indexing.scatter(start, places, data, axis=0, reduction=REDUCTIONS[NAMES[reduce]]), 0, 0, count)
    if reduce != "mean":
        return reduced
    zeros, ones = creation.full_like(data, 0.0, (count + 1,)), creation.full_like(data, 1.0, (rows,))
    sizes = part(indexing.index_add(zeros, segment, ones, axis=0), 0, 0, count)
    (none, one, nan) = operands(context, data.dtype, 0.0, 1.0, float("nan") if initial is None else float(initial))
    empty = comparison.equal(sizes, none)
    column = (count, *[1] * (data.ndim - 1))
    divided = reduced / shaping.reshape(elementwise.where(empty, one, sizes), shape=column)
    return elementwise.where(shaping.reshape(empty, shape=column), nan, divided)
