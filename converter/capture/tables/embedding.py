"""ATen embeddings and bilinear products."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ir.types import INT64
from ....runtime.ops import boundary, comparison, creation, elementwise, indexing, linear, reduction, shaping, slicing
from ....runtime.ops import embeddings as ops
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .reduction import norm_of
from .table import Context, aten, cast, operands

SUM, MEAN, MAXIMUM = 0, 1, 2


@aten("aten.embedding.default")
def embedding(
    context: Context, weight: SymbolicTensor, indices: SymbolicTensor, padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:  # fmt: skip
    """embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool
    sparse=False) -> Tensor
    """
    rows = ops.embedding(weight, indices, padding_index=padding_idx if padding_idx >= 0 else None)
    return _shared_gradient(weight, indices, rows) if scale_grad_by_freq else rows


def _shared_gradient(weight: SymbolicTensor, indices: SymbolicTensor, rows: Any) -> Any:
    """The rows, whose gradient is divided by the number of their look-ups."""
    flat = shaping.reshape(cast(indices, INT64), shape=(product(indices.shape),))
    zeros = creation.full_like(weight, 0.0, weight.shape[:1])
    counts = indexing.index_add(zeros, flat, creation.full_like(weight, 1.0, flat.shape), axis=0)
    often = shaping.reshape(indexing.take(counts, indices, axis=0), shape=(*indices.shape, 1))
    fixed = boundary.stop_gradient(rows)
    return fixed + (rows - fixed) / often


@aten("aten.embedding_bag.default", "aten.embedding_bag.padding_idx")
def embedding_bag(
    context: Context, weight: SymbolicTensor, indices: SymbolicTensor, offsets: SymbolicTensor,
    scale_grad_by_freq: bool = False,
    mode: int = SUM, sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: Any = None,
) -> tuple[Any, None, None, None]:  # fmt: skip
    """embedding_bag.padding_idx(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq, int mode, bool
    sparse, Tensor? per_sample_weights, bool include_last_offset, int? padding_idx) -> (Tensor, Tensor, Tensor,
    Tensor)
    """
    if any(context.used[1:]):
        raise Unsupported("with its second, third or fourth result")
    bags, features = context.shape
    count = indices.shape[0]
    if padding_idx is not None:
        padding_idx = padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx
    rows = ops.embedding(weight, indices, padding_index=padding_idx)
    if scale_grad_by_freq:  # torch divides by the counts of wrong rows if an index occurs twice
        rows = _shared_gradient(weight, indices, rows)
    share = creation.full_like(weight, 1.0, (count,)) if per_sample_weights is None else per_sample_weights
    if padding_idx is not None:
        nothing = context.builder.constant(0.0, weight.dtype)
        share = elementwise.where(comparison.equal(indices, padding_idx), nothing, share)
    # the bag of an index is the last one that starts at or before it
    positions = context.builder.create(creation.arange, stop=count, dtype=INT64)
    starts = offsets
    if include_last_offset:
        starts = slicing.slice(offsets, starts=(0,), stops=(bags,), steps=(1,), axes=(0,))
    begun = comparison.greater_equal(
        shaping.reshape(positions, shape=(count, 1)), shaping.reshape(cast(starts, INT64), shape=(1, bags))
    )
    bag = reduction.reduce_sum(cast(begun, INT64), axes=(1,)) - 1
    if mode == MAXIMUM:
        return _largest(context, rows, share, bag), None, None, None
    zeros = creation.full_like(weight, 0.0, (bags, features))
    summed = indexing.index_add(zeros, bag, rows * shaping.reshape(share, shape=(count, 1)), axis=0)
    if mode == MEAN:
        sizes = indexing.index_add(creation.full_like(weight, 0.0, (bags,)), bag, share, axis=0)
        summed = summed / shaping.reshape(elementwise.clamp(sizes, minimum=1.0), shape=(bags, 1))
    return summed, None, None, None


def _largest(context: Context, rows: Any, share: Any, bag: Any) -> Any:
    """The largest elements of each bag, 0 for an empty bag; rows with a share of 0 don't count."""
    lowest, zero = operands(context, rows.dtype, float("-inf"), 0.0)
    counted = comparison.greater(shaping.reshape(share, shape=(rows.shape[0], 1)), zero)
    places = shaping.expand(shaping.reshape(bag, shape=(rows.shape[0], 1)), shape=rows.shape)
    empty = creation.full_like(rows, float("-inf"), context.shape)
    largest = indexing.scatter(empty, places, elementwise.where(counted, rows, lowest), axis=0, reduction="max")
    return elementwise.where(comparison.equal(largest, lowest), zero, largest)


@aten("aten.embedding_renorm.default")
def embedding_renorm(
    context: Context, self: SymbolicTensor, indices: SymbolicTensor, max_norm: float, norm_type: float
) -> Any:
    """embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor

    Rows that are looked up are scaled down to `max_norm` if their norm is greater.
    """
    flat = shaping.reshape(cast(indices, INT64), shape=(product(indices.shape),))
    ones = creation.full_like(self, 1.0, flat.shape)
    looked_up = indexing.index_add(creation.full_like(self, 0.0, self.shape[:1]), flat, ones, axis=0)
    norms = norm_of(context, self, norm_type, 1, False)
    zero, one, most = operands(context, self.dtype, 0.0, 1.0, max_norm)
    too_long = comparison.logical_and(comparison.greater(looked_up, zero), comparison.greater(norms, most))
    scale = elementwise.where(too_long, most / (norms + 1e-7), one)
    scaled = boundary.stop_gradient(self * shaping.reshape(scale, shape=(self.shape[0], 1)))
    return scaled + (self - boundary.stop_gradient(self))  # torch scales in place, without a gradient


@aten("aten.bilinear.default")
def bilinear(
    context: Context, input1: SymbolicTensor, input2: SymbolicTensor, weight: SymbolicTensor, bias: Any = None
) -> Any:
    """bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor

    y_o = sum over i, j of x1_i * weight_oij * x2_j, plus bias_o.
    """
    out, first, second = weight.shape
    batch = product(input1.shape[:-1])
    by_first = shaping.reshape(shaping.transpose(weight, permutation=(1, 0, 2)), shape=(first, out * second))
    half = linear.matmul(shaping.reshape(input1, shape=(batch, first)), by_first)
    columns = shaping.reshape(input2, shape=(batch, second, 1))
    y = linear.matmul(shaping.reshape(half, shape=(batch, out, second)), columns)
    y = shaping.reshape(y, shape=context.shape)
    return y if bias is None else y + bias
