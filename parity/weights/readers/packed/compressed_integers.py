"""Whole numbers that compressed-tensors packed (pack-quantized): 2, 4 or 8 bits with a scale for a group of columns.

    weight[row, column] = (weight_packed - weight_zero_point) * weight_scale[row, group]

The tensors, as compressed-tensors 0.20.1 writes them:

    weight_packed      int32  [rows, columns * bits / 32]  lowest bits first, 2 ** (bits - 1) more than the number
    weight_shape       int64  [2]                          rows and columns
    weight_scale       float  [rows, groups], or one of all
    weight_zero_point  int32  [rows * bits / 32, groups]   in the same way along the rows; absent if it is symmetric.
                                                           Before packing, int8 [rows, groups], as 0.8 wrote them
    weight_g_idx       int32  [columns]                    the group of a column; absent, or -1, if they are in order

Other numbers of bits are refused: versions pack them differently (0.20 without gaps, earlier ones within words).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrangements import Array
from ..tensor import StoredCheckpoint, StoredTensor
from .groups import SCALES, Group, Unpacked, groups, of_weights, scaled, unpack, with_weights

PARTS = ("weight_packed", "weight_shape", "weight_scale", "weight_zero_point", "weight_g_idx")
_BITS = (2, 4, 8)


def unpack_compressed_integers(checkpoint: StoredCheckpoint) -> StoredCheckpoint | None:
    """Return the checkpoint with the weights that pack-quantized holds; None if it has none.

    Raises:
        UsageError: shapes contradict each other or the configuration, or it is a number of bits that isn't read.
    """
    found = [group for group in groups(checkpoint, "weight_packed") if group["weight_packed"].dtype == "int32"]
    return with_weights(checkpoint, [(group, Unpacked(_weight(group), PARTS)) for group in found])


def _weight(group: Group) -> StoredTensor:
    packed, scale, g_idx = group["weight_packed"], group["weight_scale"], group.get("weight_g_idx")
    rows, width = _shape(group)
    bits = _bits(group, width)
    per_row = scale.shape if len(scale.shape) == 2 else (scale.size, 1)
    count = per_row[1]
    shapes = group.shapes(*PARTS)
    group.require(per_row[0] in (1, rows) and (per_row[0] == rows or count == 1), f"its shapes contradict: {shapes}")
    group.require(scale.dtype in SCALES, f"its scales have another dtype: {shapes}")
    group.require(count > 0 and width % count == 0, f"{width} columns can't have {count} groups of one size")
    group.require(
        count == 1 or width // count in (_said(group, "group_size") or {width // count}),
        f"its groups have {width // count} columns, and the configuration says otherwise",
    )
    group.require(g_idx is None or g_idx.shape == (width,), f"its shapes contradict: {shapes}")
    zeros_of = _zero_points(group, bits, rows, per_row)

    def read_rows(start: int, stop: int) -> Array:
        steps = scale.read().reshape(1, 1) if per_row[0] == 1 else scale.read_rows(start, stop).reshape(-1, count)
        codes = unpack(packed.read_rows(start, stop), bits, width)
        return scaled(
            codes, np.broadcast_to(steps, (stop - start, count)), zeros_of(start, stop), _by_column(group, count)
        )

    return StoredTensor(f"{group.prefix}weight", (rows, width), f"packed {bits}-bit", read_rows)


def _shape(group: Group) -> tuple[int, int]:
    packed, said = group["weight_packed"], group["weight_shape"]
    group.require(
        len(packed.shape) == 2 and said.shape == (2,) and said.dtype in ("int64", "int32"),
        f"its shapes aren't read: {group.shapes(*PARTS)}",
    )
    rows, width = (int(length) for length in said.read())
    group.require(
        rows == packed.shape[0] > 0 and width > 0, f"weight_shape is ({rows}, {width}): {group.shapes(*PARTS)}"
    )
    return rows, width


def _bits(group: Group, width: int) -> int:
    words = group["weight_packed"].shape[1]
    fitting = [bits for bits in _BITS if -(-width * bits // 32) == words]
    said = _said(group, "num_bits")
    fitting = [bits for bits in fitting if not said or bits in said]
    group.require(len(fitting) == 1, f"{width} columns in {words} words are no numbers of 2, 4 or 8 bits as configured")
    return fitting[0]


def _zero_points(group: Group, bits: int, rows: int, per_row: tuple[int, int]) -> Any:
    """Return a function of rows, from `start` to `stop`, that returns their zero points, shaped (rows, groups)."""
    zeros, middle = group.get("weight_zero_point"), 1 << (bits - 1)
    if zeros is None:
        group.require(_said(group, "symmetric") != {False}, "it isn't symmetric, and has no weight_zero_point")
        return lambda start, stop: np.full((1, per_row[1]), middle)
    if zeros.dtype == "int8" and zeros.shape == per_row == (rows, per_row[1]):
        return lambda start, stop: zeros.read_rows(start, stop).astype(np.int32) + middle
    group.require(
        zeros.dtype == "int32" and zeros.shape == (-(-rows * bits // 32), per_row[1]) and per_row[0] == rows,
        f"its shapes contradict: {group.shapes(*PARTS)}",
    )
    per_word = 32 // bits

    def read(start: int, stop: int) -> Array:
        first = start // per_word
        words = zeros.read_rows(first, -(-stop // per_word)).T
        return unpack(words, bits, stop - first * per_word)[:, start - first * per_word :].T

    return read


def _by_column(group: Group, count: int) -> int | Array:
    """Return how many successive columns form a group, or the group of each column."""
    g_idx, width = group.get("weight_g_idx"), int(group["weight_shape"].read()[1])
    by_column = None if g_idx is None else g_idx.read()
    if by_column is None or (by_column == -1).all():
        return width // count
    if by_column.min() < 0 or by_column.max() >= count:
        raise group.error(f"weight_g_idx has numbers outside of the {count} groups")
    return by_column


def _said(group: Group, key: str) -> set[int]:
    """Return all that the configuration says of a property of weights, for any of its groups of layers."""
    return {value for value in of_weights(group.checkpoint, key) if isinstance(value, int)}
