"""ONNX sequences and optionals, whose length (and presence) is known on import."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import BOOL
from ....runtime.ops import shaping
from ....runtime.ops.common import normalize_axis
from ....runtime.recipes.shaping import split as pieces
from ....runtime.tracing import Traced
from ..context import Context
from ..table import Unsupported, onnx, require_few
from ..values import Known, Optional, Sequence, known


def _sequence(value: Any) -> tuple[Any, ...]:
    if isinstance(value, Optional) and isinstance(value.value, Sequence):
        value = value.value
    if not isinstance(value, Sequence):
        raise ShapeError("needed a sequence, given a tensor")
    return value.items


def _position(position: Any, what: str) -> int:
    if not isinstance(position, Known) or position.symbolic:
        raise Unsupported(f"a {what} that is known only when the program runs")
    return int(position.data.reshape(-1)[0])


@onnx("SequenceConstruct", values=("inputs",), folds=False)
def sequence_construct(context: Context, *inputs: Any) -> Any:
    """SequenceConstruct-11(*inputs) -> output_sequence"""
    if None in inputs:
        raise ShapeError("an item of the sequence is left out")
    return Sequence(inputs)


@onnx("SequenceEmpty", folds=False)
def sequence_empty(context: Context, *, dtype: int = 1) -> Any:
    """SequenceEmpty-11() -> output"""
    return Sequence(())


@onnx("SequenceAt", values=("input_sequence", "position"), folds=False)
def sequence_at(context: Context, input_sequence: Any, position: Any) -> Any:
    """SequenceAt-11(input_sequence, position) -> tensor"""
    items, at = _sequence(input_sequence), _position(position, "position")
    if not -len(items) <= at < len(items):
        raise ShapeError(f"position {at} in a sequence of {len(items)}")
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
        raise ShapeError(f"position {at} in a sequence of {len(items)}")
    del items[at]
    return Sequence(tuple(items))


@onnx("SequenceLength", values=("input_sequence",), folds=False)
def sequence_length(context: Context, input_sequence: Any) -> Any:
    """SequenceLength-11(input_sequence) -> length"""
    return known(np.array(len(_sequence(input_sequence)), np.int64))


@onnx("SplitToSequence", values=("split",), folds=False)
def split_to_sequence(context: Context, input: Traced, split: Any = None, *, axis: int = 0, keepdims: int = 1) -> Any:
    """SplitToSequence-11..24(input, split?) -> output_sequence"""
    at = normalize_axis(axis, input.ndim)
    size = input.shape[at]
    if not isinstance(size, int):
        raise Unsupported("a number of pieces that is known only when the program runs")
    if split is not None and not isinstance(split, Known):
        raise Unsupported("sizes that are known only when the program runs")
    if split is None:
        require_few(size, "pieces of a sequence")
        sizes: tuple[int, ...] = (1,) * size
    elif split.ndim == 0:
        piece = int(split.data)
        if piece < 1:
            raise ShapeError(f"needed pieces of a positive size, given {piece}")
        require_few(size // piece, "pieces of a sequence")
        sizes = tuple(min(piece, size - start) for start in range(0, size, piece))
    else:
        sizes = split.contents()
    parts = pieces(input, sizes, axis=at)
    if split is None and not keepdims:
        shape = (*input.shape[:at], *input.shape[at + 1 :])
        parts = tuple(shaping.reshape(part, shape=shape) for part in parts)
    return Sequence(parts)


@onnx("ConcatFromSequence", values=("input_sequence",), folds=False)
def concat_from_sequence(context: Context, input_sequence: Any, *, axis: int, new_axis: int = 0) -> Any:
    """ConcatFromSequence-11(input_sequence) -> concat_result"""
    items = [context.tensor(item) for item in _sequence(input_sequence)]
    if not items:
        raise ShapeError("an empty sequence can't be joined")
    rank = items[0].ndim + bool(new_axis)
    at = normalize_axis(axis, rank)
    if new_axis:
        items = [shaping.reshape(x, shape=(*x.shape[:at], 1, *x.shape[at:])) for x in items]
    return shaping.concat(*items, axis=at)


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
    """Optional-15(input?) -> output"""
    return Optional(input)


@onnx("OptionalHasElement", values=("input",), folds=False)
def optional_has_element(context: Context, input: Any = None) -> Any:
    """OptionalHasElement-15..18(input?) -> output"""
    present = input.value is not None if isinstance(input, Optional) else input is not None
    return known(np.array(present, BOOL))


@onnx("OptionalGetElement", values=("input",), folds=False)
def optional_get_element(context: Context, input: Any) -> Any:
    """OptionalGetElement-15..18(input) -> output"""
    value = input.value if isinstance(input, Optional) else input
    if value is None:
        raise ShapeError("the optional holds nothing")
    return value
