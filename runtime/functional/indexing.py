"""Element lookup: along an axis (`gather`), one by one (`gather_elements`), by coordinates, and by masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.dtype import bool_, int32, int64
from ..common.tensor import Tensor, from_array
from ..ir.dims import product
from ..ops import comparison, elementwise, embeddings, indexing, shaping, slicing
from ..ops.common import broadcast_shapes, normalize_axis
from ..tensor_like import TensorLike
from .arguments import integer, is_symbolic, known_elements, require_integers, symbolic_nonzero
from .joining import part
from .operands import as_tensor, promote_pair
from .public_op import Primitive, argument_aliases, public_op, tensor_method

# ---- by integers ----


@public_op(primitive=(Primitive("Gather", init_args=("batch_dims",)), "GatherV2", "SparseGatherV2"))
def gather(input_params: Any, input_indices: Any, axis: int, batch_dims: int = 0) -> Any:
    """Return the slices of `input_params` at `input_indices` along `axis`; the axes of the indices replace that axis.

    Args:
        input_params: any tensor.
        input_indices: integers of any shape; negative ones count from the end.
        axis: the axis.
        batch_dims: the number of leading batch axes of both operands; indices refer to their own batch.

    Raises:
        TypeError: the indices aren't integers.
        ValueError: `axis` lies before `batch_dims`, or the batches differ.
        IndexError: an index is out of bounds.
    """
    x = as_tensor(input_params, "input_params", of="gather")
    if isinstance(input_indices, int):
        input_indices = Tensor(input_indices)
    indices = require_integers(input_indices, "input_indices", of="gather")
    at = normalize_axis(integer(axis, "axis", of="gather"), x.ndim)
    batches = integer(batch_dims, "batch_dims", of="gather")
    batches = batches + indices.ndim if batches < 0 else batches
    if batches == 0:
        return indexing.take(x, indices, axis=at)
    if not batches <= min(at, indices.ndim) or tuple(x.shape[:batches]) != tuple(indices.shape[:batches]):
        raise ValueError(
            f"For 'gather', {batch_dims=} must not exceed 'axis' ({axis}), and the first sizes must agree, but got "
            f"shapes {tuple(x.shape)} and {tuple(indices.shape)}"
        )
    return _gather_in_batches(x, indices, at, batches)


def _gather_in_batches(x: Any, indices: Any, axis: int, batches: int) -> Any:
    shape = tuple(indices.shape)
    columns = []
    for i in range(batches):
        places = from_array(np.arange(shape[i]).reshape(-1, *(1,) * (len(shape) - i - 1)))
        columns.append(shaping.expand(places, shape=shape))
    columns.append(elementwise.cast(indices, dtype=int64))
    coordinates = slicing.concat(*(shaping.reshape(c, shape=(*shape, 1)) for c in columns), axis=len(shape))
    others = [i for i in range(batches, x.ndim) if i != axis]
    elements = indexing.gather_nd(shaping.transpose(x, permutation=(*range(batches), axis, *others)), coordinates)
    first = range(len(shape), len(shape) + axis - batches)  # the axes of x between the batches and `axis`
    last = range(len(shape) + axis - batches, elements.ndim)
    return shaping.transpose(elements, permutation=(*range(batches), *first, *range(batches, len(shape)), *last))


@tensor_method("gather")
def _gather(self: Any, input_indices: Any, axis: Any, batch_dims: int = 0) -> Any:
    """`ops.gather`; if the first argument is an int, `ops.gather_elements(self, dim, index)`."""
    if isinstance(input_indices, int) and isinstance(axis, TensorLike):
        return gather_elements(self, input_indices, axis)
    return gather(self, input_indices, axis, batch_dims)


@public_op(method="index_select")
def index_select(input: Any, axis: int, index: Any) -> Any:
    """The slices along `axis` at the vector `index`."""
    x = as_tensor(input, of="index_select")
    indices = require_integers(index, "index", of="index_select")
    if indices.ndim > 1:
        raise ValueError(f"For 'index_select', 'index' must be a vector, but got shape {tuple(indices.shape)}")
    flat = shaping.reshape(indices, shape=(product(indices.shape),))
    return indexing.take(x, flat, axis=normalize_axis(integer(axis, "axis", of="index_select"), x.ndim))


@public_op()
def take(input: Any, index: Any) -> Any:
    """The elements at `index` of `input` flattened."""
    return _take(as_tensor(input, of="take"), index, mode="raise")


@tensor_method("take")
def _take(self: Any, indices: Any, axis: int | None = None, mode: str = "clip") -> Any:
    """The slices at `indices` along `axis` (None: of the flattened tensor); negative indices count from the end.

    For indices out of bounds, `mode` "clip" uses the nearest valid index, "wrap" the index modulo the size, and "raise"
    raises `IndexError`.
    """
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"For 'take', 'mode' must be 'raise', 'clip' or 'wrap', but got {mode!r}")
    indices = require_integers(as_tensor(indices, "indices", of="take"), "indices", of="take")
    x, at = (self, axis) if axis is not None else (shaping.reshape(self, shape=(product(self.shape),)), 0)
    if mode == "clip":
        indices = elementwise.clamp(indices, minimum=-x.shape[at], maximum=x.shape[at] - 1)
    elif mode == "wrap":
        indices = indices % x.shape[at]
    return indexing.take(x, indices, axis=normalize_axis(at, x.ndim))


@public_op(method="gather_elements", primitive="GatherD", alias="gather_d")
@argument_aliases(x="input")
def gather_elements(input: Any, dim: int, index: Any) -> Any:
    """y[i][j][k] = input[i][index[i][j][k]][k] for `dim` 1, and so on.

    `index` has as many axes as `input`, and except for `dim`, they must not be longer than those of `input`.
    """
    x = as_tensor(input, of="gather_elements")
    indices = require_integers(index, "index", of="gather_elements")
    return indexing.gather(x, indices, axis=normalize_axis(integer(dim, "dim", of="gather_elements"), x.ndim))


@public_op(method="gather_nd", primitive="GatherNd")
def gather_nd(input_x: Any, indices: Any) -> Any:
    """The slices of `input_x` (n_1, ..., n_k, ...) at coordinates `indices` (..., k), which index its first axes."""
    x = as_tensor(input_x, "input_x", of="gather_nd")
    return indexing.gather_nd(x, require_integers(indices, "indices", of="gather_nd"))


@public_op()
def embedding(input: Any, weight: Any, padding_idx: int | None = None) -> Any:
    """The rows of `weight` (rows, features) at `input`, integers of any shape; row `padding_idx` gets no gradient."""
    indices = require_integers(input, "input", of="embedding")
    table = as_tensor(weight, "weight", of="embedding")
    index = padding_idx
    if index is not None:
        rows = table.shape[0]
        if not -rows <= integer(index, "padding_idx", of="embedding") < rows:
            raise ValueError(f"For 'embedding', 'padding_idx' must lie within {rows} rows, but got {padding_idx}")
        index = index % rows
    return embeddings.embedding(table, indices, padding_index=index)


@public_op(primitive="EmbeddingLookup")
def embedding_lookup(input_params: Any, input_indices: Any, offset: int = 0) -> Any:
    """The rows of `input_params` at `input_indices - offset`; zeros where that is out of range."""
    table = as_tensor(input_params, "input_params", of="embedding_lookup")
    indices = require_integers(input_indices, "input_indices", of="embedding_lookup") - offset
    in_range = comparison.logical_and(
        comparison.greater_equal(indices, 0), comparison.less(indices, np.asarray(table.shape[0], indices.dtype))
    )
    rows = indexing.take(table, elementwise.where(in_range, indices, np.zeros((), indices.dtype)), axis=0)
    mask = shaping.reshape(in_range, shape=(*indices.shape, *(1,) * (table.ndim - 1)))
    return elementwise.where(mask, rows, np.zeros((), rows.dtype))


# ---- by masks ----


@public_op(method="masked_select", primitive="MaskedSelect")
def masked_select(input: Any, mask: Any) -> Any:
    """The elements of `input` where `mask` is true, as a vector; the two broadcast.

    Raises:
        RuntimeError: the mask isn't a tensor of bools.
    """
    x = as_tensor(input, of="masked_select")
    chosen = as_tensor(mask, "mask", of="masked_select")
    if chosen.dtype != bool_:
        raise RuntimeError(f"For 'masked_select', 'mask' must be a Tensor of bools, but got dtype {chosen.dtype}")
    shape = broadcast_shapes(tuple(x.shape), tuple(chosen.shape))
    every = shaping.expand(chosen, shape=shape)
    flat = shaping.reshape(shaping.expand(x, shape=shape), shape=(product(shape),))
    if is_symbolic(every):
        coordinates = symbolic_nonzero(shaping.reshape(every, shape=(product(shape),)))
        return indexing.take(flat, shaping.reshape(coordinates, shape=(coordinates.shape[0],)), axis=0)
    every = known_elements(every, "the mask of masked_select")
    return indexing.take(flat, from_array(np.flatnonzero(every)), axis=0)


@public_op(method="masked_fill", primitive="MaskedFill")
def masked_fill(input_x: Any, mask: Any, value: Any) -> Any:
    """Fill `input_x` with `value`, a number or 0-d tensor, where `mask` is true; both broadcast. The dtype is kept.

    Raises:
        TypeError: the mask isn't a tensor of bools.
        ValueError: `value` has dimensions.
    """
    x = as_tensor(input_x, "input_x", of="masked_fill")
    chosen = as_tensor(mask, "mask", of="masked_fill")
    if chosen.dtype != bool_:
        raise TypeError(f"For 'masked_fill', 'mask' must be a Tensor of bools, but got dtype {chosen.dtype}")
    v = as_tensor(value, "value", of="masked_fill")
    if v.ndim:
        raise ValueError(f"For 'masked_fill', 'value' must be a number or 0-d, but got shape {tuple(v.shape)}")
    return elementwise.where(chosen, elementwise.cast(v, dtype=x.dtype), x)


@public_op(method="nonzero", primitive="NonZero")
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """Coordinates of the nonzero elements: int64 (count, axes), or a vector for each axis if `as_tuple`."""
    x = as_tensor(input, of="nonzero")
    if is_symbolic(x):
        all_found = symbolic_nonzero(x if x.ndim else shaping.reshape(x, shape=(1,)))
        columns = (part(all_found, 1, axis, axis + 1) for axis in range(max(x.ndim, 1)))
        shape = (all_found.shape[0],)
        return tuple(shaping.reshape(column, shape=shape) for column in columns) if as_tuple else all_found
    coordinates = np.nonzero(np.atleast_1d(known_elements(x, "the operand of nonzero")))
    if as_tuple:
        return tuple(from_array(places) for places in coordinates)
    return from_array(np.stack(coordinates, axis=1).astype(np.int64))


@public_op(method="argwhere")
def argwhere(input: Any) -> Any:
    """Same as `nonzero`."""
    return nonzero(input)


# ---- one-hot ----


@public_op(primitive=Primitive("OneHot", init_args=("axis",), call_args=("indices", "depth", "on_value", "off_value")))
def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Any:
    """One-hot encoding along a new axis: `on_value` at the position of each index, `off_value` elsewhere.

    Args:
        indices: integers; for an index outside [0, `depth`), all elements are `off_value`.
        depth: size of the new axis.
        on_value: a number or 0-d tensor; it determines the dtype.
        off_value: likewise.
        axis: the position of the new axis.

    Raises:
        TypeError: the indices aren't integers.
        ValueError: `depth` is negative, or `axis` is out of range.
    """
    x = require_integers(as_tensor(indices, "indices", of="one_hot"), "indices", of="one_hot")
    count = integer(depth, "depth", of="one_hot")
    if isinstance(count, int) and count < 0:
        raise ValueError(f"For 'one_hot', 'depth' must be >= 0, but got {depth}")
    at = normalize_axis(integer(axis, "axis", of="one_hot"), x.ndim + 1)
    places = from_array(np.arange(count, dtype=x.dtype).reshape(-1, *(1,) * (x.ndim - at)))
    is_index = comparison.equal(shaping.reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:])), places)
    on, off = (
        as_tensor(value, name, of="one_hot") for value, name in ((on_value, "on_value"), (off_value, "off_value"))
    )
    on, off = promote_pair(on, off, of="one_hot")
    return elementwise.where(is_index, on, off)


@public_op()
def sequence_mask(lengths: Any, maxlen: int | None = None) -> Any:
    """Mask of the valid positions of sequences: whether i < length, bools (..., maxlen).

    `maxlen` defaults to the largest length.
    """
    x = require_integers(lengths, "lengths", of="sequence_mask")
    count = integer(
        known_elements(x, "lengths").max(initial=0) if maxlen is None else maxlen, "maxlen", of="sequence_mask"
    )
    return comparison.less(from_array(np.arange(count, dtype=x.dtype)), shaping.reshape(x, shape=(*x.shape, 1)))


@public_op(method="unique", primitive="Unique")
def unique(input: Any) -> tuple[Any, Any]:
    """The distinct elements in order of first appearance, and for each element its index among them."""
    x = as_tensor(input, of="unique")
    values = known_elements(x, "the operand of unique").reshape(-1)
    _, firsts, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    kind = int64 if values.dtype == int64 else int32
    flat = shaping.reshape(x, shape=(values.size,))
    return indexing.take(flat, from_array(firsts[order]), axis=0), from_array(
        rank[inverse].reshape(np.shape(values)).reshape(tuple(x.shape)).astype(kind)
    )
