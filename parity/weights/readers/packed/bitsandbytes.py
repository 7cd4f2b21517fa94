"""bitsandbytes: numbers of 4 bits (nf4, fp4) in blocks of a flat weight, or int8 with a scale for each row.

The tensors that bitsandbytes 0.50.2 writes for a weight x of 4 bits:

    x                                  uint8    [numbers / 2, 1]  two numbers in a byte, the first in its upper bits;
                                                                  or the same bytes as elements of another dtype
    x.quant_map                        float32  [16]              what the numbers stand for, between -1 and 1
    x.absmax                           float32  [blocks]          by what they are multiplied; uint8 if nested
    x.nested_absmax, x.nested_quant_map                           absmax = quant_map[absmax] * nested_absmax of its
                                                                  block + nested_offset
    x.quant_state.bitsandbytes__nf4    uint8                      JSON: shape, blocksize, nested_blocksize, ...

When it dequantizes, it takes the map of the type instead of `quant_map`: a checkpoint where they differ is refused. A
weight of 8 bits (LLM.int8) is int8, and beside it is SCB, float32 [rows]: value = weight * SCB / 127.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...arrangements import Array
from ..tensor import StoredCheckpoint, StoredTensor
from .groups import Group, Unpacked, nibbles, with_weights

_STATE = ".quant_state.bitsandbytes__"
_PARTS = (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map")
LONGEST_STATE = 1 << 16
"""Bytes of JSON: a state has about a hundred."""
LARGEST_BLOCK = 1 << 16
"""Numbers that share a scale: at most 4096 in practice."""
_STORAGE = {"uint8": 1, "float16": 2, "bfloat16": 2, "float32": 4}
"""Bytes of an element of x, by dtype."""
_POSITIVE = (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4)
MAPS = {
    "nf4": np.array([
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
        -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
        0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
    ], np.float32),
    "fp4": np.array([*_POSITIVE, *(-number for number in _POSITIVE)], np.float32),
}  # fmt: skip
"""What the 16 numbers of a type stand for."""


class _State(NamedTuple):
    """What a quant_state says.

    Attributes:
        type: nf4 or fp4.
        shape: the weight's shape.
        size: how many numbers have a scale.
        nested_size: how many scales have one; 0 if they aren't nested.
        offset: what is added to nested scales.
    """

    type: str
    shape: tuple[int, ...]
    size: int
    nested_size: int
    offset: float


def unpack_bitsandbytes(checkpoint: StoredCheckpoint) -> StoredCheckpoint | None:
    """Return the checkpoint with the weights that bitsandbytes packed; None if it has none.

    Raises:
        UsageError: shapes contradict each other or the state, or a tensor is missing.
    """
    weights = [(group, _weight(group, kind)) for group, kind in _groups(checkpoint)]
    return with_weights(checkpoint, weights + [(group, _rows(group)) for group in _int8(checkpoint)])


def _groups(checkpoint: StoredCheckpoint) -> Iterator[tuple[Group, str]]:
    with_state = {name.rpartition(_STATE)[0] for name in checkpoint.tensors}
    for name in checkpoint.tensors:
        stem = name.removesuffix(".quant_map")
        if stem != name and stem not in with_state:
            raise Group(checkpoint, stem, "").error("there is no quant_state beside it")
        prefix, state, kind = name.rpartition(_STATE)
        if state:
            group = Group(checkpoint, prefix, "")
            group.require(kind in MAPS, f"its numbers are of the type {kind!r}, which isn't read")
            yield group, kind


def _weight(group: Group, kind: str) -> Unpacked:
    numbers, absmax = group[""], group[".absmax"]
    state = _state(group, kind)
    total = math.prod(state.shape)
    shapes = group.shapes("", *_PARTS)
    width = _STORAGE.get(numbers.dtype, 0)
    group.require(width > 0, f"its numbers can't be in that dtype: {shapes}")
    blocks = -(-total // state.size)
    group.require(
        numbers.size == -(-total // (2 * width)) and math.prod(numbers.shape[1:]) == 1 and absmax.shape == (blocks,),
        f"it can't have the shape {list(state.shape)} in blocks of {state.size}: {shapes}",
    )
    group.require(absmax.dtype == ("uint8" if state.nested_size else "float32"), f"absmax has another dtype: {shapes}")
    quant_map = group[".quant_map"]
    group.require(quant_map.shape == (16,), f"its shapes contradict: {shapes}")
    if state.nested_size:
        many = -(-blocks // state.nested_size)
        fits = group[".nested_absmax"].shape == (many,) and group[".nested_quant_map"].shape == (256,)
        group.require(fits, f"its shapes contradict: {shapes}")
    per_row = math.prod(state.shape[1:])

    def read_rows(start: int, stop: int) -> Array:
        if not np.allclose(quant_map.read(), MAPS[kind], rtol=0, atol=1e-4):
            raise group.error(f"its quant_map isn't that of {kind}")
        first, last = start * per_row, stop * per_row
        element = first // (2 * width)
        octets = np.ascontiguousarray(numbers.read_rows(element, -(-last // (2 * width)))).view(np.uint8).reshape(-1)
        codes = nibbles(octets >> 4 | octets << 4)[first - element * 2 * width :][: last - first]
        values = np.take(MAPS[kind], codes)
        block = first // state.size
        scales = np.repeat(_scales(group, state, block, -(-last // state.size)), state.size)
        values *= scales[first - block * state.size :][: last - first]
        return values.reshape(stop - start, *state.shape[1:])

    tensor = StoredTensor(group.prefix, state.shape, f"bitsandbytes {kind}", read_rows)
    return Unpacked(tensor, ("", *_PARTS, f"{_STATE}{kind}"))


def _scales(group: Group, state: _State, start: int, stop: int) -> Array:
    """Return the scales of the blocks from `start` to `stop`."""
    scales = group[".absmax"].read_rows(start, stop)
    if not state.nested_size:
        return scales
    first = start // state.nested_size
    nested = np.repeat(group[".nested_absmax"].read_rows(first, -(-stop // state.nested_size)), state.nested_size)
    nested = nested[start - first * state.nested_size :][: stop - start].astype(np.float32)
    nested *= np.take(group[".nested_quant_map"].read().astype(np.float32), scales)
    nested += np.float32(state.offset)
    return nested


def _state(group: Group, kind: str) -> _State:
    """Read the state, and check all that is taken from it."""
    stored = group[f"{_STATE}{kind}"]
    group.require(stored.dtype == "uint8" and stored.size <= LONGEST_STATE, "its quant_state isn't a text")
    try:
        state = json.loads(bytes(stored.read().astype(np.uint8)))
    except (ValueError, RecursionError) as error:
        raise group.error("its quant_state isn't JSON") from error
    group.require(isinstance(state, dict), "its quant_state isn't an object")
    shape, size = state.get("shape"), state.get("blocksize")
    nested_size, offset = state.get("nested_blocksize", 0), state.get("nested_offset", 0.0)
    group.require(
        isinstance(shape, list) and len(shape) > 0 and all(map(_is_size, shape)) and _is_size(size, LARGEST_BLOCK),
        f"its quant_state says shape={shape!r} and blocksize={size!r}",
    )
    group.require(state.get("quant_type") == kind, f"its quant_state says quant_type={state.get('quant_type')!r}")
    nested = "nested_blocksize" in state
    group.require(
        nested == (group.get(".nested_absmax") is not None)
        and (not nested or _is_size(nested_size, LARGEST_BLOCK))
        and isinstance(offset, (int, float))
        and abs(offset) < 1e30,
        "its quant_state contradicts the tensors of nested scales",
    )
    return _State(kind, tuple(shape), size, nested_size, float(offset))


def _is_size(value: Any, most: int = 1 << 48) -> bool:
    return type(value) is int and 0 < value <= most


def _int8(checkpoint: StoredCheckpoint) -> Iterator[Group]:
    for name in checkpoint.tensors:
        prefix = name.removesuffix("SCB")
        if name.endswith("SCB") and (not prefix or prefix.endswith(".")):
            yield Group(checkpoint, prefix, "weight")


def _rows(group: Group) -> Unpacked:
    weight, scales, layout = group["weight"], group["SCB"], group.get("weight_format")
    group.require(
        weight.dtype == "int8" and len(weight.shape) == 2 and scales.shape == weight.shape[:1],
        f"its shapes contradict: {group.shapes('weight', 'SCB')}",
    )
    group.require(layout is None or (layout.size == 1 and not layout.read().any()), "its rows are stored in tiles")

    def read_rows(start: int, stop: int) -> Array:
        steps = scales.read_rows(start, stop).astype(np.float32) / np.float32(127)
        values: Array = weight.read_rows(start, stop).astype(np.float32)
        values *= steps[:, None]
        return values

    tensor = StoredTensor(f"{group.prefix}weight", weight.shape, "bitsandbytes int8", read_rows)
    return Unpacked(tensor, ("weight", "SCB", "weight_format"))
