"""Joining, splitting and repeating tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.tensor import from_array
from ..ir.dims import Dim, product
from ..ops import indexing, shaping, slicing
from ..ops.common import broadcast_shapes, normalize_axis
from .arguments import integer, integers, known_size, require_operands, unpack_varargs
from .operands import as_tensor, common_dtype
from .public_op import Primitive, argument_aliases, public_op, tensor_method
from .shapes import atleast_1d, atleast_2d, atleast_3d

# ---- joining ----


@public_op(primitive=Primitive("Concat", init_args=("axis",)), alias="concat")
def cat(tensors: Any, axis: int = 0) -> Any:
    """Concatenate tensors along `axis`, in their common dtype.

    Raises:
        ValueError: shapes differ outside `axis`, or there are no tensors.
    """
    xs = common_dtype(require_operands(tensors, "tensors", of="cat"))
    return slicing.concat(*xs, axis=normalize_axis(integer(axis, "axis", of="cat"), xs[0].ndim))


@public_op(primitive=(Primitive("Stack", init_args=("axis",)), Primitive("Pack", init_args=("axis",))))
def stack(tensors: Any, axis: int = 0) -> Any:
    """Stack tensors of the same shape along a new axis.

    Raises:
        TypeError: dtypes differ.
        ValueError: shapes differ, or there are no tensors.
    """
    xs = require_operands(tensors, "tensors", of="stack")
    if len({x.dtype for x in xs}) > 1:
        raise TypeError(f"For 'stack', all tensors must have one type, but got {[str(x.dtype) for x in xs]}")
    if len({tuple(x.shape) for x in xs}) > 1:
        raise ValueError(f"For 'stack', all tensors must have one shape, but got {[tuple(x.shape) for x in xs]}")
    shape = xs[0].shape
    at = normalize_axis(integer(axis, "axis", of="stack"), len(shape) + 1)
    return slicing.concat(*(shaping.reshape(x, shape=(*shape[:at], 1, *shape[at:])) for x in xs), axis=at)


@public_op()
def hstack(tensors: Any) -> Any:
    """Stack horizontally: concatenate along the second axis, vectors along their only axis."""
    xs = atleast_1d(require_operands(tensors, "tensors", of="hstack"))
    return cat(xs, 0 if xs[0].ndim == 1 else 1)


@public_op(alias="row_stack")
@argument_aliases(tensors="inputs")
def vstack(inputs: Any) -> Any:
    """Stack vertically: concatenate along the first axis, vectors as rows."""
    return cat(atleast_2d(require_operands(inputs, "inputs", of="vstack")), 0)


@public_op()
def dstack(tensors: Any) -> Any:
    """Stack in depth: concatenate along the third axis, which is added if it is missing."""
    return cat(atleast_3d(require_operands(tensors, "tensors", of="dstack")), 2)


@public_op()
def column_stack(tensors: Any) -> Any:
    """Concatenate along the second axis, vectors as columns."""
    xs = require_operands(tensors, "tensors", of="column_stack")
    return cat(tuple(x if x.ndim > 1 else shaping.reshape(x, shape=(product(x.shape), 1)) for x in xs), 1)


@public_op(primitive=Primitive("Meshgrid", init_args=("indexing",)))
def meshgrid(*inputs: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Coordinate grids: vector i varies along axis i for "ij"; for "xy", the first two axes are swapped.

    Raises:
        TypeError: dtypes differ.
        ValueError: `indexing` is unknown, or an input has more than one dimension.
    """
    if len(inputs) == 1 and isinstance(inputs[0], (tuple, list)):
        inputs = tuple(inputs[0])
    xs = require_operands(inputs, "inputs", of="meshgrid")
    if indexing not in ("xy", "ij"):
        raise ValueError(f"For 'meshgrid', 'indexing' must be 'xy' or 'ij', but got {indexing!r}")
    if any(x.ndim > 1 for x in xs):
        raise ValueError(f"For 'meshgrid', each input must be a vector, but got {[tuple(x.shape) for x in xs]}")
    if len({x.dtype for x in xs}) > 1:
        raise TypeError(f"For 'meshgrid', all inputs must have one type, but got {[str(x.dtype) for x in xs]}")
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[:2] = 1, 0
    sizes = tuple(product(xs[i].shape) for i in order)
    placed = (
        shaping.reshape(x, shape=tuple(size if i == axis else 1 for axis, size in zip(order, sizes, strict=True)))
        for i, x in enumerate(xs)
    )
    return tuple(shaping.expand(x, shape=sizes) for x in placed)


@public_op()
def broadcast_tensors(*tensors: Any) -> tuple[Any, ...]:
    """Broadcast tensors to their common shape."""
    xs = require_operands(tensors, "tensors", of="broadcast_tensors")
    shape = broadcast_shapes(*(tuple(x.shape) for x in xs))
    return tuple(shaping.expand(x, shape=shape) for x in xs)


# ---- splitting ----


def part(x: Any, axis: int, start: Dim, stop: Dim) -> Any:
    """The slice `start:stop` along `axis`."""
    return slicing.slice(x, starts=(start,), stops=(stop,), steps=(1,), axes=(axis,))


def _parts(x: Any, axis: int, sizes: Any) -> tuple[Any, ...]:
    pieces, start = [], 0
    for size in sizes:
        pieces.append(part(x, axis, start, start + size))
        start += size
    return tuple(pieces)


@public_op(method="split")
def split(tensor: Any, split_size_or_sections: Any, axis: int = 0) -> Any:
    """Split along `axis` into pieces of one size (the last may be smaller), or of a list of sizes.

    Raises:
        ValueError: a size isn't positive, or the sizes don't add up to the axis.
    """
    x = as_tensor(tensor, "tensor", of="split")
    at = normalize_axis(integer(axis, "axis", of="split"), x.ndim)
    total = known_size(x.shape[at], "For 'split', the size of the axis")
    sizes = integers(split_size_or_sections, "split_size_or_sections", of="split")
    if not isinstance(split_size_or_sections, (tuple, list)):
        (size,) = sizes
        if size < 1:
            raise ValueError(f"For 'split', 'split_size_or_sections' must be positive, but got {size}")
        sizes = tuple(min(size, total - start) for start in range(0, max(total, 1), size))
    elif sum(sizes) != total or min(sizes, default=0) < 0:
        raise ValueError(f"For 'split', the sections must add up to the size {total} of axis {axis}, but got {sizes}")
    return _parts(x, at, sizes)


@public_op(primitive=Primitive("Split", init_args=("axis", "output_num")))
def split_evenly(input_x: Any, axis: int = 0, output_num: int = 1) -> tuple[Any, ...]:
    """Split along `axis` into `output_num` equal pieces; `ValueError` if the size isn't divisible."""
    x = as_tensor(input_x, "input_x", of="Split")
    at = normalize_axis(axis, x.ndim)
    if output_num < 1 or x.shape[at] % output_num:
        raise ValueError(f"For 'Split', the size {x.shape[at]} of axis {axis} can't be divided by {output_num=}")
    return _parts(x, at, (x.shape[at] // output_num,) * output_num)


@public_op(primitive=Primitive("SplitV", init_args=("size_splits", "split_dim", "num_split")))
def _split_into(input_x: Any, size_splits: Any, split_dim: int, num_split: int) -> tuple[Any, ...]:
    """Split along `split_dim` into pieces of the given sizes; -1 means the rest."""
    x = as_tensor(input_x, "input_x", of="SplitV")
    sizes = list(integers(size_splits, "size_splits", of="SplitV"))
    if len(sizes) != num_split or sizes.count(-1) > 1:
        raise ValueError(f"For 'SplitV', needed {num_split} sizes, one of them -1 at most, but got {sizes}")
    axis = normalize_axis(split_dim, x.ndim)
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.shape[axis] - sum(sizes) - 1
    return _parts(x, axis, sizes)


@public_op(method="chunk")
def chunk(input: Any, chunks: int, axis: int = 0) -> Any:
    """Split along `axis` into at most `chunks` pieces of equal size; the last may be smaller."""
    x = as_tensor(input, of="chunk")
    count = integer(chunks, "chunks", of="chunk")
    if count < 1:
        raise ValueError(f"For 'chunk', 'chunks' must be positive, but got {chunks}")
    total = known_size(x.shape[normalize_axis(axis, x.ndim)], "For 'chunk', the size of the axis")
    return split(x, max(-(-total // count), 1), axis)


@public_op(method="tensor_split")
def tensor_split(input: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """Split along `axis` at indices, or into a number of pieces whose sizes differ by at most one."""
    x = as_tensor(input, of="tensor_split")
    at = normalize_axis(axis, x.ndim)
    total = known_size(x.shape[at], "For 'tensor_split', the size of the axis")
    if isinstance(indices_or_sections, (tuple, list)):
        stops = [slice(0, i).indices(total)[1] for i in integers(indices_or_sections, "indices", of="tensor_split")]
        bounds = zip([0, *stops], [*stops, total], strict=True)
        return tuple(part(x, at, start, max(start, stop)) for start, stop in bounds)
    count = integer(indices_or_sections, "indices_or_sections", of="tensor_split")
    if count < 1:
        raise ValueError(f"For 'tensor_split', the number of sections must be positive, but got {count}")
    return _parts(x, at, [total // count + (i < total % count) for i in range(count)])


@public_op(method="hsplit")
def hsplit(input: Any, indices_or_sections: Any) -> Any:
    """`tensor_split` along the second axis; for a vector, along its only axis."""
    return tensor_split(input, indices_or_sections, 0 if as_tensor(input, of="hsplit").ndim == 1 else 1)


@public_op(method="vsplit")
def vsplit(input: Any, indices_or_sections: Any) -> Any:
    """`tensor_split` along the first axis."""
    return tensor_split(input, indices_or_sections, 0)


@public_op(method="dsplit")
def dsplit(input: Any, indices_or_sections: Any) -> Any:
    """`tensor_split` along the third axis."""
    return tensor_split(input, indices_or_sections, 2)


@public_op(
    primitive=(
        Primitive("Unstack", init_args=("axis",), ignored_args={"num": None}),
        Primitive("Unpack", init_args=("axis",), ignored_args={"num": None}),
    )
)
def unstack(input_x: Any, axis: int = 0) -> tuple[Any, ...]:
    """Unstack a tensor into its slices along `axis`, without that axis."""
    x = as_tensor(input_x, "input_x", of="unstack")
    at = normalize_axis(integer(axis, "axis", of="unstack"), x.ndim)
    if not x.ndim:
        raise ValueError("For 'unstack', 'input_x' must have at least one dimension, but got a 0-d tensor")
    shape = (*x.shape[:at], *x.shape[at + 1 :])
    count = known_size(x.shape[at], "For 'unstack', the size of the axis")
    return tuple(shaping.reshape(part(x, at, i, i + 1), shape=shape) for i in range(count))


@public_op(method="unbind")
def unbind(input: Any, dim: int = 0) -> Any:
    """Same as `unstack`."""
    return unstack(input, dim)


# ---- repeating ----


@public_op(method="tile", primitive="Tile")
@argument_aliases(dims="reps")
def tile(input: Any, reps: Any) -> Any:
    """Repeat `input` `reps[i]` times along axis i; the shorter of `reps` and the shape is padded with leading ones."""
    x = as_tensor(input, of="tile")
    counts = integers(reps, "reps", of="tile")
    counts = (1,) * (x.ndim - len(counts)) + counts
    if any(isinstance(count, int) and count < 0 for count in counts):
        raise ValueError(f"For 'tile', 'reps' must not be negative, but got {reps}")
    if len(counts) > x.ndim:
        x = shaping.reshape(x, shape=(1,) * (len(counts) - x.ndim) + tuple(x.shape))
    return slicing.tile(x, repeats=counts)


@tensor_method("repeat")
def _repeat(self: Any, *repeats: Any) -> Any:
    """Repeat the tensor along its axes; the repeats, at least one for each axis, are separate arguments or a tuple."""
    counts = integers(unpack_varargs(repeats), "repeats", of="repeat")
    if len(counts) < self.ndim:
        raise ValueError(f"For 'repeat', there must be a number for each of {self.ndim} axes, but got {counts}")
    return tile(self, counts)


@public_op(method="repeat_interleave")
def repeat_interleave(input: Any, repeats: Any, axis: int | None = None) -> Any:
    """Repeat each element along `axis` (None: each element of the flattened tensor).

    Args:
        input: any tensor.
        repeats: the number of repeats: an int, or one for each element along the axis, as a tuple, list or tensor.
        axis: the axis.

    Raises:
        ValueError: the numbers of repeats and elements differ, or one is negative.
    """
    x = as_tensor(input, of="repeat_interleave")
    if axis is None:
        x, axis = shaping.reshape(x, shape=(product(x.shape),)), 0
    at = normalize_axis(integer(axis, "axis", of="repeat_interleave"), x.ndim)
    counts = integers(repeats, "repeats", of="repeat_interleave")
    size = x.shape[at]
    if min(counts, default=0) < 0 or len(counts) not in (1, size):
        raise ValueError(f"For 'repeat_interleave', needed 1 or {size} numbers of at least 0, but got {counts}")
    if len(counts) == 1:
        before, after = x.shape[:at], x.shape[at + 1 :]
        columns = shaping.reshape(x, shape=(*before, size, 1, *after))
        expanded = shaping.expand(columns, shape=(*before, size, counts[0], *after))
        return shaping.reshape(expanded, shape=(*before, size * counts[0], *after))
    return indexing.take(x, from_array(np.repeat(np.arange(size), counts)), axis=at)


@public_op()
def repeat_elements(x: Any, rep: int, axis: int = 0) -> Any:
    """`repeat_interleave` with one number of repeats."""
    return repeat_interleave(x, integer(rep, "rep", of="repeat_elements"), axis)
