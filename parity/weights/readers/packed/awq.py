"""AWQ: whole numbers of 4 bits with a scale and a zero point for a row and a group of columns.

    weight[row, column] = (qweight - qzeros)[row, column] * scales[row, group]

AutoAWQ 0.2.9 writes two versions, with `out` rows and `in` columns of the weight:

    GEMM  qweight  int32    [in, out / 8]       GEMV  qweight  int32    [out, in / 8]
          qzeros   int32    [groups, out / 8]         qzeros   int32    [out, padded groups / 8]
          scales   float16  [groups, out]             scales   float16  [out, padded groups]

A word of GEMM holds the rows 0, 2, 4, 6, 1, 3, 5, 7 of eight, from the lowest bits; one of GEMV holds eight columns in
order, and its groups are padded to a multiple of 8. Zero points are stored as they are.
"""

from __future__ import annotations

import numpy as np

from ...arrangements import Array
from ..tensor import StoredCheckpoint, StoredTensor
from .gptq import is_gptq
from .groups import SCALES, Group, Unpacked, columns, group_size, groups, scaled, unpack, whole_number, with_weights

PARTS = ("qweight", "qzeros", "scales")
_PLACES = np.argsort([0, 2, 4, 6, 1, 3, 5, 7])
"""Where in a word of GEMM each of eight rows is."""


def unpack_awq(checkpoint: StoredCheckpoint) -> StoredCheckpoint | None:
    """Return the checkpoint with the weights of AWQ's layers; None if it has none.

    Raises:
        UsageError: a tensor is called `qweight`, and its shapes are neither AWQ's nor GPTQ's.
    """
    found = [group for group in groups(checkpoint, "qweight") if not is_gptq(group)]
    return with_weights(checkpoint, [(group, _weight(group)) for group in found])


def _weight(group: Group) -> Unpacked:
    qweight, qzeros, scales = group["qweight"], group["qzeros"], group["scales"]
    shapes = group.shapes(*PARTS, "g_idx")
    matrices = all(len(tensor.shape) == 2 and 0 not in tensor.shape for tensor in (qweight, qzeros, scales))
    group.require(
        matrices
        and (qweight.dtype, qzeros.dtype) == ("int32", "int32")
        and scales.dtype in SCALES
        and qzeros.shape[1] * 8 == scales.shape[1],
        f"its shapes are neither GPTQ's nor AWQ's: {shapes}",
    )
    group.require(whole_number(group.checkpoint, "bits") in (None, 4), "AWQ is read with 4 bits only")
    if qweight.shape[1] == qzeros.shape[1] and qzeros.shape[0] == scales.shape[0]:
        return Unpacked(_gemm(group), PARTS)
    group.require(
        qweight.shape[0] == qzeros.shape[0] == scales.shape[0], f"its shapes are neither GPTQ's nor AWQ's: {shapes}"
    )
    return Unpacked(_gemv(group), PARTS)


def _gemm(group: Group) -> StoredTensor:
    qweight, qzeros, scales = group["qweight"], group["qzeros"], group["scales"]
    width, rows = qweight.shape[0], scales.shape[1]
    size = group_size(group, width, scales.shape[0])

    def numbers(packed: StoredTensor, start: int, stop: int) -> Array:
        """Return the numbers of some rows, shaped (rows, packed rows)."""
        words = columns(packed, start // 8, -(-stop // 8))
        eights = unpack(words, 4, 8 * words.shape[1]).reshape(len(words), -1, 8)[..., _PLACES]
        return eights.reshape(len(words), -1)[:, start % 8 :][:, : stop - start].T

    def read_rows(start: int, stop: int) -> Array:
        steps = columns(scales, start, stop).T
        return scaled(numbers(qweight, start, stop), steps, numbers(qzeros, start, stop), size)

    return StoredTensor(f"{group.prefix}weight", (rows, width), "AWQ 4-bit", read_rows)


def _gemv(group: Group) -> StoredTensor:
    qweight, qzeros, scales = group["qweight"], group["qzeros"], group["scales"]
    rows, width = qweight.shape[0], qweight.shape[1] * 8
    size = whole_number(group.checkpoint, "group_size") or 0  # shapes can't tell, since groups are padded
    size = width if size == -1 else min(size, width)
    count = -(-width // size) if size > 0 else 0
    unit = 4 if size == 32 else 2 if size == 64 else 1  # words of zero points come in so many
    padded = -(-count // (8 * unit)) * 8 * unit
    group.require(
        count > 0 and padded == scales.shape[1],
        f"a row of {width} columns has {scales.shape[1]} scales, and the configuration says group_size={size}",
    )

    def read_rows(start: int, stop: int) -> Array:
        zeros = unpack(qzeros.read_rows(start, stop), 4, count)
        steps = scales.read_rows(start, stop)
        if steps[:, count:].any():
            raise group.error(f"it has more than {count} groups, and the configuration says group_size={size}")
        return scaled(unpack(qweight.read_rows(start, stop), 4, width), steps[:, :count], zeros, size)

    return StoredTensor(f"{group.prefix}weight", (rows, width), "AWQ 4-bit", read_rows)
