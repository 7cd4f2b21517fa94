"""GPTQ: whole numbers of 2, 3, 4 or 8 bits along the columns, with a scale and a zero point for a row and a group.

    weight[row, column] = (qweight - zero)[row, column] * scales[g_idx[column], row]

The tensors, as AutoGPTQ 0.8.0.dev0 and GPTQModel 7.7.0 write them, with `out` rows and `in` columns of the weight:

    qweight  int32    [in * bits / 32, out]      the columns of a row follow one another, the lowest bits first
    qzeros   int32    [groups, out * bits / 32]  zero points, in the same way along the rows
    scales   float16  [groups, out]
    g_idx    int32    [in]                       the group of a column; absent if they are in order

Zero points are stored in two ways, which the tensors don't tell apart: `gptq`, also called v1, holds zero - 1 (a stored
2 ** bits - 1 stands for 0, as AutoGPTQ reads it), and `gptq_v2` holds the zero point itself. `checkpoint_format` of the
configuration says which; where it says nothing, it is v1, as for both packages. If the configuration says that it is
symmetric, all zero points are 2 ** (bits - 1): where they aren't, what it says of the format can't be true.
"""

from __future__ import annotations

from ...arrangements import Array
from ..tensor import StoredCheckpoint, StoredTensor
from .groups import (
    SCALES,
    Group,
    Unpacked,
    columns,
    group_size,
    groups,
    scaled,
    settings,
    unpack,
    whole_number,
    with_weights,
)

PARTS = ("qweight", "qzeros", "scales", "g_idx")
_BITS = (2, 3, 4, 8)
_OFFSETS = {"gptq": 1, "gptq_v2": 0}
_MEANINGS = {1: "less 1, as in v1 (gptq)", 0: "as they are, as in gptq_v2"}


def unpack_gptq(checkpoint: StoredCheckpoint) -> StoredCheckpoint | None:
    """Return the checkpoint with the weights of GPTQ's layers; None if it has none.

    Raises:
        UsageError: shapes, or they and the configuration, contradict each other, or it is a format that isn't read.
    """
    found = [group for group in groups(checkpoint, "qweight") if is_gptq(group)]
    return with_weights(checkpoint, [(group, _weight(group)) for group in found])


def is_gptq(group: Group) -> bool:
    """Whether the shapes are those of GPTQ: a column of `qweight` is a row of the weight.

    Only where there are as many groups as words could it be AWQ's GEMV as well, and the configuration decides.
    """
    qweight, scales = group["qweight"], group["scales"]
    fits = (qweight.dtype, len(qweight.shape)) == ("int32", 2) and scales.shape[1:] == qweight.shape[1:]
    if not fits or scales.shape != qweight.shape or group.get("g_idx"):
        return fits
    method = settings(group.checkpoint).get("quant_method")
    group.require(method in ("awq", "gptq"), f"its shapes may be GPTQ's or AWQ's: {group.shapes(*PARTS)}")
    return bool(method == "gptq")


def _weight(group: Group) -> Unpacked:
    qweight, qzeros, scales, g_idx = group["qweight"], group["qzeros"], group["scales"], group.get("g_idx")
    bits, width = _bits_and_width(group)
    rows, count = qweight.shape[1], scales.shape[0]
    size = group_size(group, width, count) if g_idx is None else 0
    offset, note = _zero_offset(group)
    symmetric = settings(group.checkpoint).get("sym") is True

    def read_rows(start: int, stop: int) -> Array:
        codes = unpack(columns(qweight, start, stop).T, bits, width)
        zeros = (_zeros(qzeros, bits, start, stop) + offset) & ((1 << bits) - 1)
        if symmetric and not (zeros == 1 << (bits - 1)).all():
            raise group.error(f"the configuration says that it is symmetric, but zero points aren't {1 << (bits - 1)}")
        by_column = size if g_idx is None else _group_of_columns(group, g_idx, count)
        return scaled(codes, columns(scales, start, stop).T, zeros.T, by_column)

    return Unpacked(StoredTensor(f"{group.prefix}weight", (rows, width), f"GPTQ {bits}-bit", read_rows), PARTS, note)


def _zeros(qzeros: StoredTensor, bits: int, start: int, stop: int) -> Array:
    """Return the stored zero points of some rows, shaped (groups, rows)."""
    first = start // 32 * 32  # 32 numbers are whole words
    words = columns(qzeros, first * bits // 32, -(-stop * bits // 32))
    return unpack(words, bits, stop - first)[:, start - first :]


def _bits_and_width(group: Group) -> tuple[int, int]:
    """Return the number of bits, and of columns of the weight."""
    qweight, qzeros, scales, g_idx = group["qweight"], group["qzeros"], group["scales"], group.get("g_idx")
    rows, shapes = qweight.shape[1], group.shapes(*PARTS)
    group.require(g_idx is None or (len(g_idx.shape) == 1 and g_idx.dtype in ("int32", "int64")), f"g_idx: {shapes}")

    def width(bits: int) -> int:
        return qweight.shape[0] * 32 // bits if g_idx is None else g_idx.shape[0]

    fitting = [
        bits
        for bits in _BITS
        if qzeros.shape == (scales.shape[0], -(-rows * bits // 32)) and qweight.shape[0] == -(-width(bits) * bits // 32)
    ]
    said = whole_number(group.checkpoint, "bits")
    fitting = [said] if said in fitting and len(fitting) > 1 else fitting
    group.require(len(fitting) > 0 and 0 not in (*qweight.shape, *scales.shape), f"shapes contradict: {shapes}")
    group.require(len(fitting) == 1, f"its shapes don't tell the number of bits: {shapes}")
    group.require(qzeros.dtype == "int32" and scales.dtype in SCALES, f"dtypes: {shapes}")
    return fitting[0], width(fitting[0])


def _zero_offset(group: Group) -> tuple[int, str]:
    """Return what is to be added to a stored zero point, and a note that says so."""
    config = settings(group.checkpoint)
    said, method = config.get("checkpoint_format", config.get("format")), config.get("quant_method", "gptq")
    group.require(
        said is None or (isinstance(said, str) and said in _OFFSETS),
        f"the configuration says checkpoint_format={said!r}, which isn't read: only gptq and gptq_v2 are",
    )
    group.require(
        bool(said) or method == "gptq",
        f"the configuration says quant_method={method!r}, and no checkpoint_format tells how zero points are stored",
    )
    offset = _OFFSETS[said or "gptq"]
    why = "" if said else ": no configuration says otherwise"
    return offset, f"zero points of GPTQ are stored {_MEANINGS[offset]}{why}"


def _group_of_columns(group: Group, g_idx: StoredTensor, count: int) -> Array:
    by_column = g_idx.read()
    if by_column.min() < 0 or by_column.max() >= count:
        raise group.error(f"g_idx has numbers outside of the {count} groups")
    return by_column
