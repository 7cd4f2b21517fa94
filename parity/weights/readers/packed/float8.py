"""Weights of 8 bits under their own name, with scales beside them: x, and x_scale or x_scale_inv.

    value = (x - x_zero_point) * scale of its block

The scale is one for all, one for each row, or one for each block of a grid. `weight_scale_inv` of DeepSeek-V3 (blocks
of 128 x 128, the last ones cut off; transformers 5.23, integrations/finegrained_fp8.py) is multiplied with as well, in
spite of its name. `weight_scale` is that of compressed-tensors 0.20.1 (float-quantized, int-quantized) and of ModelOpt
0.47.0 (FP8). Scales of one byte are powers of two for 32 columns (MXFP8). The size of blocks follows from shapes: where
the last block is cut off, several sizes would fit, and only a power of two is taken, or what the configuration says.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...arrangements import Array
from ..tensor import StoredCheckpoint, StoredTensor
from .groups import SCALES, Group, Unpacked, of_weights, powers_of_two, settings, with_weights

_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")
_SCALES = ("_scale", "_scale_inv")
_METHODS = ("fp8", "compressed-tensors", "modelopt")
"""Methods that write no weight in float8 without a scale."""


def unpack_float8(checkpoint: StoredCheckpoint) -> StoredCheckpoint | None:
    """Return the checkpoint with its weights of 8 bits multiplied by their scales; None if it has none.

    Raises:
        UsageError: shapes contradict each other or the configuration, or a scale is missing.
    """
    return with_weights(checkpoint, [(group, _weight(group)) for group in _groups(checkpoint)])


def _groups(checkpoint: StoredCheckpoint) -> Iterator[Group]:
    for name, tensor in checkpoint.tensors.items():
        if tensor.dtype not in (*_FLOATS, "int8"):
            continue
        group = Group(checkpoint, name, "")
        beside = any(group.get(part) for part in _SCALES)
        if beside:
            yield group
        elif tensor.dtype in _FLOATS and name.endswith("weight"):
            method = settings(checkpoint).get("quant_method")
            group.require(method not in _METHODS, f"it is {tensor.dtype}, and there is no {name}_scale beside it")


def _weight(group: Group) -> Unpacked:
    codes, zeros = group[""], group.get("_zero_point")
    part, *others = [part for part in _SCALES if group.get(part)]
    group.require(not others and not group.get("_g_idx"), "it has scales of two kinds, or groups in another order")
    scale = group[part]
    shapes = group.shapes("", part, "_zero_point")
    group.require(0 not in codes.shape and len(codes.shape) > 0, f"it has no elements: {shapes}")
    group.require(zeros is None or zeros.shape == scale.shape, f"its shapes contradict: {shapes}")
    grid = _grid(codes.shape, scale.shape)
    if grid is None:
        raise group.error(f"its shapes contradict: {shapes}")
    of_bytes = scale.dtype in ("uint8", "float8_e8m0fnu")
    if of_bytes and scale.dtype == "uint8":
        fits = (*grid[:-1], grid[-1] * 32) == codes.shape
        group.require(fits, f"scales in bytes aren't one for 32 columns: {shapes}")
    elif not of_bytes:
        group.require(scale.dtype in SCALES, f"its scales have another dtype: {shapes}")
    blocks = _blocks(group, codes.shape, grid)

    def steps_of(tensor: StoredTensor, start: int, stop: int) -> Array:
        """Return the numbers for rows from `start` to `stop`, in a shape that broadcasts with theirs."""
        first, last = (0, 1) if grid[0] == 1 else (start // blocks[0], -(-stop // blocks[0]))
        numbers = (
            tensor.read_rows(first, last) if len(tensor.shape) == len(grid) else tensor.read().reshape(grid)[first:last]
        )
        numbers = powers_of_two(numbers) if of_bytes and tensor is scale else numbers.astype(np.float32)
        for axis, (count, size) in enumerate(zip(grid, blocks, strict=True)):
            if count == 1:
                continue
            begin = start - first * size if axis == 0 else 0
            length = stop - start if axis == 0 else codes.shape[axis]
            numbers = np.repeat(numbers, size, axis).take(range(begin, begin + length), axis)
        return numbers

    def read_rows(start: int, stop: int) -> Array:
        values = codes.read_rows(start, stop).astype(np.float32)
        if zeros is not None:
            values -= steps_of(zeros, start, stop)
        values *= steps_of(scale, start, stop)
        return values

    name = "int8 with scales" if codes.dtype == "int8" else f"{codes.dtype} with scales"
    return Unpacked(StoredTensor(group.prefix, codes.shape, name, read_rows), ("", part, "_zero_point"))


def _grid(shape: tuple[int, ...], scale: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return how many scales there are along each axis of the weight; None if the shapes don't fit."""
    if math.prod(scale) == 1:
        return (1,) * len(shape)
    if len(scale) == 1 and scale[0] == shape[0]:
        return (scale[0], *[1] * (len(shape) - 1))
    return scale if len(scale) == len(shape) and 0 not in scale else None


def _blocks(group: Group, shape: tuple[int, ...], grid: tuple[int, ...]) -> tuple[int, ...]:
    """Return the size of blocks along each axis."""
    unknown: tuple[int, ...] = (0,) * len(shape)
    said = settings(group.checkpoint).get("weight_block_size")
    if said is not None and math.prod(grid) > 1:
        group.require(_is_pair(said) and len(shape) >= 2, f"the configuration says weight_block_size={said!r}")
        said = (*unknown[:-2], *said)
    else:
        said = unknown
    may_be = [(*unknown[:-2], *pair) for pair in of_weights(group.checkpoint, "block_structure") if _is_pair(pair)]
    return tuple(
        _block(group, length, count, said[axis], {sizes[axis] for sizes in may_be if len(sizes) == len(shape)})
        for axis, (length, count) in enumerate(zip(shape, grid, strict=True))
    )


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, (list, tuple)) and len(value) == 2 and all(type(size) is int and size > 0 for size in value)
    )


def _block(group: Group, length: int, count: int, said: int, may_be: set[int]) -> int:
    """Return the size of `count` blocks of an axis.

    Args:
        group: the group.
        length: the length of the axis.
        count: the number of blocks.
        said: the size that the configuration gives to all blocks, or 0.
        may_be: sizes that it gives to blocks of some layers.
    """
    problem = f"an axis of {length} has {count} scales"
    if count == 1:
        group.require(not said or said >= length, f"{problem}, and the configuration says blocks of {said}")
        return length
    sizes = {1 << k for k in range(length.bit_length()) if -(-length // (1 << k)) == count}
    sizes |= {length // count} if length % count == 0 else set()
    if said:
        group.require(said in sizes, f"{problem}, and the configuration says blocks of {said}")
        return said
    if len(sizes) > 1:
        sizes = sizes & may_be or sizes
    group.require(len(sizes) > 0, f"{problem}, which can't have blocks of one size")
    group.require(len(sizes) == 1, f"{problem}: blocks of {sorted(sizes)} fit, and no configuration says which it is")
    return sizes.pop()
