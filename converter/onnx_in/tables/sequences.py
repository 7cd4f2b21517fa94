"""ONNX sequences and optionals, whose length (and presence) is known on import."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import BOOL, INT64, Type
from ....runtime.onnx_functions import get_onnx_function
from ....runtime.onnx_functions.shaping import split as split_into
from ....runtime.ops import comparison, elementwise, guard, indexing, shaping, slicing
from ....runtime.ops.common import normalize_axis
from ....runtime.ops.higher_order.runtime_shaped import runtime_shaped
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from ..model.values import KnownTensor, Optional, Pieces, Sequence, known_tensor
from .context import Context
from .table import cast, onnx, require_few


def _unwrap(value: Any) -> Any:
    """The value in an optional; any other value as it is."""
    return value.value if isinstance(value, Optional) and value.value is not None else value


def _sequence(value: Any) -> tuple[Any, ...]:
    value = _unwrap(value)
    if isinstance(value, Pieces):
        raise Unsupported("a sequence with a data-dependent number of items")
    if not isinstance(value, Sequence):
        raise ShapeError("needed a sequence, given a tensor")
    return value.items


def _position(position: Any, what: str) -> int:
    if not isinstance(position, KnownTensor) or position.symbolic:
        raise Unsupported(f"a {what} that is known only when the program runs")
    return int(position.data.reshape(-1)[0])


@onnx("SequenceConstruct", values=("inputs",), folds=False)
def sequence_construct(context: Context, *inputs: Any) -> Any:
    """SequenceConstruct-11(*inputs) -> output_sequence"""
    if None in inputs:
        raise ShapeError("an item of the sequence is missing")
    return Sequence(inputs)


@onnx("SequenceEmpty", folds=False)
def sequence_empty(context: Context, *, dtype: int = 1) -> Any:
    """SequenceEmpty-11() -> output"""
    return Sequence(())


@onnx("SequenceAt", values=("input_sequence", "position"), folds=False)
def sequence_at(context: Context, input_sequence: Any, position: Any) -> Any:
    """SequenceAt-11(input_sequence, position) -> tensor"""
    if isinstance(pieces := _unwrap(input_sequence), Pieces):
        return _piece(context, pieces, position)
    items = _sequence(input_sequence)
    if isinstance(position, SymbolicTensor) and all(isinstance(x, SymbolicTensor | KnownTensor) for x in items):
        return _item_at(context, items, position)
    at = _position(position, "position")
    if not -len(items) <= at < len(items):
        raise ShapeError(f"position {at} is out of range for a sequence of {len(items)}")
    return items[at]


@onnx("SequenceInsert", values=("input_sequence", "tensor", "position"), folds=False)
def sequence_insert(context: Context, input_sequence: Any, tensor: Any, position: Any = None) -> Any:
    """SequenceInsert-11(input_sequence, tensor, position?) -> output_sequence"""
    items = list(_sequence(input_sequence))
    items.insert(len(items) if position is None else _position(position, "position"), tensor)
    return Sequence(tuple(items))


@onnx("SequenceErase", values=("input_sequence", "position"), folds=False)
def sequence_erase(context: Context, input_sequence: Any, position: Any = None) -> Any:
    """SequenceErase-11(input_sequence, position?) -> output_sequence"""
    items = list(_sequence(input_sequence))
    at = -1 if position is None else _position(position, "position")
    if not -len(items) <= at < len(items):
        raise ShapeError(f"position {at} is out of range for a sequence of {len(items)}")
    del items[at]
    return Sequence(tuple(items))


@onnx("SequenceLength", values=("input_sequence",), folds=False)
def sequence_length(context: Context, input_sequence: Any) -> Any:
    """SequenceLength-11(input_sequence) -> length"""
    if isinstance(pieces := _unwrap(input_sequence), Pieces):
        return _count(context, pieces)
    return known_tensor(np.array(len(_sequence(input_sequence)), np.int64))


@onnx("SplitToSequence", values=("split",), folds=False)
def split_to_sequence(
    context: Context, input: SymbolicTensor, split: Any = None, *, axis: int = 0, keepdims: int = 1
) -> Any:
    """SplitToSequence-11..24(input, split?) -> output_sequence

    Without `keepdims`, pieces of size 1 lose the axis; in ONNX Runtime, which requires this, also if one size is given.
    """
    at = normalize_axis(axis, input.ndim)
    size = input.shape[at]
    if split is not None and split.ndim > 1:
        raise ShapeError(
            f"needed one size of all pieces or a vector of sizes, given a split of {split.ndim} dimensions"
        )
    if split is not None and split.ndim == 1:
        return Sequence(_split_by_sizes(context, input, split, at))
    piece: Any = 1 if split is None else split
    if isinstance(split, KnownTensor):
        piece = split.data.item()
    if isinstance(piece, int) and piece < 1:
        raise ShapeError(f"needed pieces of a positive size, given {piece}")
    if not isinstance(piece, int) or not isinstance(size, int):
        of_any = context.tensor(split) if split is not None and not isinstance(piece, int) else piece
        return Pieces(input, at, of_any, bool(keepdims) or (isinstance(piece, int) and piece > 1))
    require_few(size // piece, "pieces of a sequence")
    parts = split_into(input, tuple(min(piece, size - start) for start in range(0, size, piece)), axis=at)
    if piece == 1 and not keepdims:
        shape = (*input.shape[:at], *input.shape[at + 1 :])
        parts = tuple(shaping.reshape(part, shape=shape) for part in parts)
    return Sequence(parts)


def _split_by_sizes(context: Context, x: SymbolicTensor, split: Any, at: int) -> tuple[Any, ...]:
    """Split into pieces of given sizes, which may be known only when the program runs."""
    count = split.shape[0]
    if not isinstance(count, int):
        raise Unsupported("a data-dependent number of sizes")
    require_few(count, "pieces of a sequence")
    if not count:
        raise ShapeError("needed the size of at least one piece")
    if isinstance(split, KnownTensor) and not split.symbolic:
        return tuple(split_into(x, split.contents(), axis=at))
    types = tuple(
        (None, tuple(map(_size_attribute, (*x.shape[:at], context.new_symbol(), *x.shape[at + 1 :]))))
        for _ in range(count)
    )
    parts = runtime_shaped(x, context.tensor(split), operator="Split", options=(("axis", at),), types=types)
    return parts if isinstance(parts, tuple) else (parts,)


def _size_attribute(size: Any) -> Any:
    """A size as an attribute value."""
    return size if isinstance(size, int) else str(size)


def _count(context: Context, pieces: Pieces) -> Any:
    """The number of pieces, as a tensor."""
    size = context.full((), pieces.data.shape[pieces.axis], INT64)
    each = _integer(pieces.size)
    one = np.asarray(1, INT64)
    return get_onnx_function("Div").function(size + each - one, each)


def _item_at(context: Context, items: tuple[Any, ...], position: SymbolicTensor) -> Any:
    """The item at a position that is known only when the program runs; all items must have the same type."""
    tensors = [context.tensor(item) for item in items]
    if len({x.value.type for x in tensors}) != 1:
        raise Unsupported("a position that is known only when the program runs, in a sequence of different types")
    count = np.asarray(len(items), INT64)
    at, shape = _check_position(position, count), tensors[0].shape
    rows = slicing.concat(*(shaping.reshape(x, shape=(1, *shape)) for x in tensors), axis=0)
    return indexing.take(rows, at, axis=0)


def _check_position(position: Any, count: Any) -> Any:
    """Make a position in a sequence non-negative, and check it when the program runs."""
    at, zero = shaping.reshape(cast(position, INT64), shape=()), np.asarray(0, INT64)
    at = elementwise.where(comparison.less(at, zero), at + count, at)
    valid = comparison.logical_and(comparison.greater_equal(at, zero), comparison.less(at, count))
    return guard.guard(at, valid, message="a position in a sequence lies within it")


def _integer(number: Any) -> Any:
    return np.asarray(number, INT64) if isinstance(number, int) else cast(number, INT64)


def _piece(context: Context, pieces: Pieces, position: Any) -> Any:
    """The piece at a position, which may be known only when the program runs; negative ones count from the end."""
    data, axis, each = pieces.data, pieces.axis, _integer(pieces.size)
    zero, one = np.asarray(0, INT64), np.asarray(1, INT64)
    if not isinstance(pieces.size, int):
        each = guard.guard(each, comparison.greater(each, zero), message="the size of pieces is positive")
    at = _check_position(context.tensor(position), _count(context, pieces))
    first, last = at * each, (at + one) * each
    bounds = (shaping.reshape(bound, shape=(1,)) for bound in (first, last))
    length = 1 if isinstance(pieces.size, int) and pieces.size == 1 else context.new_symbol()
    type = Type(data.dtype, (*data.shape[:axis], length, *data.shape[axis + 1 :]))
    part = context.runtime_shaped("Slice", data, *bounds, known_tensor([axis], np.int64), None, types=(type,))
    return part if pieces.keepdims else shaping.reshape(part, shape=(*data.shape[:axis], *data.shape[axis + 1 :]))


@onnx("ConcatFromSequence", values=("input_sequence",), folds=False)
def concat_from_sequence(context: Context, input_sequence: Any, *, axis: int, new_axis: int = 0) -> Any:
    """ConcatFromSequence-11(input_sequence) -> concat_result"""
    pieces = _unwrap(input_sequence)
    if isinstance(pieces, Pieces) and pieces.keepdims != bool(new_axis):
        rank = pieces.data.ndim
        if normalize_axis(axis, rank) == pieces.axis:
            return pieces.data
    items = [context.tensor(item) for item in _sequence(input_sequence)]
    if not items:
        raise ShapeError("an empty sequence can't be concatenated")
    rank = items[0].ndim + bool(new_axis)
    at = normalize_axis(axis, rank)
    if new_axis:
        items = [shaping.reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:])) for x in items]
    return slicing.concat(*items, axis=at)


@onnx("SequenceMap", values=("input_sequence", "additional_inputs"), folds=False)
def sequence_map(context: Context, input_sequence: Any, *additional_inputs: Any, body: Any) -> Any:
    """SequenceMap-17(input_sequence, *additional_inputs) { body } -> *out_sequence"""
    first = _sequence(input_sequence)
    rows = []
    for i, item in enumerate(first):
        others = tuple(x.items[i] if isinstance(x, Sequence) else x for x in additional_inputs)
        rows.append(context.run(body, (item, *others)))
    if not rows:
        return tuple(Sequence(()) for _ in context.outputs)
    return tuple(Sequence(tuple(column)) for column in zip(*rows, strict=True))


@onnx("Optional", values=("input",), folds=False)
def optional(context: Context, input: Any = None, *, type: Any = None) -> Any:
    """Optional-15..28(input?) -> output"""
    return Optional(input)


@onnx("OptionalHasElement", values=("input",), folds=False)
def optional_has_element(context: Context, input: Any = None) -> Any:
    """OptionalHasElement-15..28(input?) -> output"""
    present = input.value is not None if isinstance(input, Optional) else input is not None
    return known_tensor(np.array(present, BOOL))


@onnx("OptionalGetElement", values=("input",), folds=False)
def optional_get_element(context: Context, input: Any) -> Any:
    """OptionalGetElement-15..28(input) -> output"""
    value = input.value if isinstance(input, Optional) else input
    if value is None:
        raise ShapeError("the optional is empty")
    return value
