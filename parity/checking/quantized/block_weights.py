"""Weights in blocks of few bits: the operand of ONNX Runtime's MatMulNBits, as codes and their quantizer."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from onnx import NodeProto, helper

from ....runtime.errors import ConversionError
from ....runtime.visible import visible_name
from ...sides.records import Array
from .quantizers import Quantizer
from .stored import StoredTensors

_DTYPES = {4: ml_dtypes.uint4, 8: np.uint8}


def block_weight(node: NodeProto, stored: StoredTensors) -> tuple[Array, Quantizer]:
    """Return the codes [K, N] of the weight of a MatMulNBits node (com.microsoft, version 1), and their quantizer.

    Each column has a scale, and a zero point, for each block of `block_size` rows.

    Raises:
        ConversionError: sizes don't fit, or rows are in another order (`g_idx`).
    """
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    rows, columns, block = (int(attributes[name]) for name in ("K", "N", "block_size"))
    bits = int(attributes.get("bits", 4))
    if bits not in _DTYPES or block <= 0 or rows <= 0 or columns <= 0:
        raise ConversionError(
            f"{visible_name(node.name)}: needed weights of 4 or 8 bits in blocks, given {bits} bits of {block}"
        )
    if len(node.input) > 4 and node.input[4]:
        raise ConversionError(
            f"{visible_name(node.name)}: its weight has rows in another order (g_idx), which isn't read"
        )
    blocks = -(-rows // block)
    packed = stored.array(node.input[1])
    codes = _unpacked(_sized(node, packed, columns * blocks * block * bits // 8), bits).reshape(columns, blocks * block)
    scale = _sized(node, stored.array(node.input[2]), columns * blocks).reshape(columns, blocks).astype(np.float64)
    zero: Array = np.full((), 2.0 ** (bits - 1))
    if len(node.input) > 3 and node.input[3]:
        zero_points = stored.array(node.input[3])
        if zero_points.dtype == np.uint8:
            bytes_per_column = -(-blocks * bits // 8)
            zero_points = _unpacked(_sized(node, zero_points, columns * bytes_per_column), bits).reshape(columns, -1)[
                :, :blocks
            ]
        zero = _sized(node, zero_points, columns * blocks).reshape(columns, blocks).astype(np.float64).T
    quantizer = Quantizer(node.input[2], scale.T, zero, np.dtype(_DTYPES[bits]), axis=0, block=block)
    return np.ascontiguousarray(codes[:, :rows].T), quantizer


def _sized(node: NodeProto, array: Array, size: int) -> Array:
    if array.size != size:
        raise ConversionError(
            f"{visible_name(node.name)}: needed {size} elements for its K, N and block_size, given {array.size}"
        )
    return array


def _wrong(node: NodeProto, what: str) -> ConversionError:
    return ConversionError(f"MatMulNBits node {visible_name(node.name)}: {what}")


def _unpacked(packed: Array, bits: int) -> Array:
    """Return the codes in bytes, of which the lowest bits come first."""
    shifted = packed.reshape(-1, 1) >> np.arange(0, 8, bits, dtype=np.uint8)
    return np.asarray(shifted & np.uint8(2**bits - 1)).reshape(-1)
