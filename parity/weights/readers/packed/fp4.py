"""MXFP4 and NVFP4: floating-point numbers of 4 bits (E2M1) with a scale for 32 or 16 of them along the last axis.

A byte holds two numbers, the first in its lower bits. The scales of MXFP4 are powers of two (E8M0: 2 ** (byte - 127),
and 255 is NaN), those of NVFP4 are float8_e4m3fn, and there is another one for the whole weight. The tensors:

    gpt-oss            x_blocks uint8 [experts, rows, in / 32, 16], x_scales uint8 [experts, rows, in / 32]. The weight
                       of transformers 5.23 (integrations/mxfp4.py) is called x and is transposed: [experts, in, rows].
                       OpenAI's own files call them x.blocks and x.scales, and the weight isn't transposed.
    compressed-tensors weight_packed uint8 [..., in / 2] and weight_scale; for NVFP4 a weight_global_scale, by which
    0.20.1             values are divided.
    ModelOpt 0.47.0    weight uint8 [..., in / 2] and weight_scale; for NVFP4 a weight_scale_2, by which values are
                       multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrangements import Array
from ..tensor import StoredCheckpoint, StoredTensor
from .groups import Group, Unpacked, groups, nibbles, powers_of_two, scaled, with_weights

VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""The number that each of the 16 patterns stands for."""


@dataclass(frozen=True)
class _Layout:
    """What the parts of a group are called, and whether values are divided by the scale of the whole weight."""

    octets: str
    scale: str
    global_scale: str = ""
    divides: bool = False


_COMPRESSED = _Layout("weight_packed", "weight_scale", "weight_global_scale", divides=True)
_MODELOPT = _Layout("weight", "weight_scale", "weight_scale_2")
_GPT_OSS = (_Layout("_blocks", "_scales"), _Layout("blocks", "scales"))


def unpack_fp4(checkpoint: StoredCheckpoint) -> StoredCheckpoint | None:
    """Return the checkpoint with the weights that MXFP4 or NVFP4 packed; None if it has none.

    Raises:
        UsageError: shapes or dtypes contradict each other, or scales are missing.
    """
    weights = [(group, _blocks(group, layout)) for layout in _GPT_OSS for group in _of_bytes(checkpoint, layout)]
    for layout in (_COMPRESSED, _MODELOPT):
        weights += [(group, _weight(group, layout)) for group in _of_bytes(checkpoint, layout)]
    return with_weights(checkpoint, weights)


def _of_bytes(checkpoint: StoredCheckpoint, layout: _Layout) -> list[Group]:
    """Return the groups whose numbers are in bytes; other layouts have tensors of some of these names as well."""
    found = [group for group in groups(checkpoint, layout.octets) if group[layout.octets].dtype == "uint8"]
    if layout == _MODELOPT:
        return [group for group in found if group.get(layout.scale) or group.get(layout.global_scale)]
    if layout in _GPT_OSS:
        return [group for group in found if group.prefix and group[layout.octets].shape[-1:] == (16,)]
    return found


def _blocks(group: Group, layout: _Layout) -> Unpacked:
    blocks, scales = group[layout.octets], group[layout.scale]
    group.require(
        len(blocks.shape) >= 3
        and 0 not in blocks.shape
        and blocks.shape[:-1] == scales.shape
        and scales.dtype == "uint8",
        f"its shapes contradict: {group.shapes(layout.octets, layout.scale)}",
    )
    shape: tuple[int, ...] = (*blocks.shape[:-2], blocks.shape[-2] * 32)
    transposed = layout.octets.startswith("_")
    name = group.prefix.removesuffix(".")

    def read_rows(start: int, stop: int) -> Array:
        octets = blocks.read_rows(start, stop).reshape(-1, shape[-1] // 2)
        values = _values(octets, powers_of_two(scales.read_rows(start, stop)), 32)
        values = values.reshape(stop - start, *shape[1:])
        return np.swapaxes(values, -1, -2) if transposed else values

    group.require(not transposed or len(shape) == 3, f"it has {len(blocks.shape)} axes and not 4")
    shape_as_known = (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
    return Unpacked(StoredTensor(name, shape_as_known, "MXFP4", read_rows), (layout.octets, layout.scale))


def _weight(group: Group, layout: _Layout) -> Unpacked:
    octets, scale, whole = group[layout.octets], group[layout.scale], group.get(layout.global_scale)
    parts = (layout.octets, layout.scale, layout.global_scale)
    nvfp4 = scale.dtype == "float8_e4m3fn"
    size = 16 if nvfp4 else 32
    group.require(
        len(octets.shape) >= 2
        and 0 not in octets.shape
        and len(scale.shape) == len(octets.shape)
        and scale.dtype in ("float8_e4m3fn", "uint8", "float8_e8m0fnu")
        and (*octets.shape[:-1], octets.shape[-1] * 2) == (*scale.shape[:-1], scale.shape[-1] * size),
        f"its shapes are neither MXFP4's nor NVFP4's: {group.shapes(*parts)}",
    )
    if nvfp4:
        whole = group[layout.global_scale]
        several = len(octets.shape) > 2 and whole.size == octets.shape[0]
        group.require(whole.size == 1 or several, f"its shapes contradict: {group.shapes(*parts)}")
    else:
        group.require(whole is None, f"{group.prefix}{layout.global_scale} is beside scales that are powers of two")
    shape = (*octets.shape[:-1], octets.shape[-1] * 2)

    def read_rows(start: int, stop: int) -> Array:
        steps = scale.read_rows(start, stop)
        steps = steps.astype(np.float32) if nvfp4 else powers_of_two(steps)
        if whole is not None:
            steps = steps * _factor(group, whole, layout.divides, start, stop).reshape(-1, *[1] * (steps.ndim - 1))
        values = _values(octets.read_rows(start, stop).reshape(-1, octets.shape[-1]), steps, size)
        return values.reshape(stop - start, *shape[1:])

    name = f"{group.prefix}weight"
    return Unpacked(StoredTensor(name, shape, "NVFP4" if nvfp4 else "MXFP4", read_rows), parts if nvfp4 else parts[:2])


def _factor(group: Group, whole: StoredTensor, divides: bool, start: int, stop: int) -> Array:
    """Return by what the scales are multiplied: one number, or one for each row from `start` to `stop`."""
    numbers = whole.read().reshape(-1).astype(np.float32)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise group.error("its scale of the whole weight isn't a positive number")
    numbers = numbers if numbers.size == 1 else numbers[start:stop]
    return 1 / numbers if divides else numbers


def _values(octets: Array, steps: Array, size: int) -> Array:
    """Return the values of rows of bytes, shaped (rows, columns / 2), with scales of `size` columns."""
    return scaled(np.take(VALUES, nibbles(octets)), steps.reshape(len(octets), -1), None, size)
