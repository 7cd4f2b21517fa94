"""Checkpoints of packed weights, written from the formats' descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.readers.tensor import StoredCheckpoint, stored_array


def checkpoint(arrays: Mapping[str, Array], **quantization_config: Any) -> StoredCheckpoint:
    """A checkpoint of arrays, with the configuration if it says anything."""
    tensors = {name: stored_array(name, array) for name, array in arrays.items()}
    config = {"config": {"quantization_config": quantization_config}} if quantization_config else {}
    return StoredCheckpoint("model", "test", tensors, metadata=config)


def words(numbers: Sequence[int], bits: int) -> list[int]:
    """Signed words of 32 bits that hold the numbers one after another, from the lowest bits."""
    joined = sum(int(number) << (bits * place) for place, number in enumerate(numbers))
    return np.frombuffer(joined.to_bytes(-(-len(numbers) * bits // 32) * 4, "little"), "<i4").tolist()


def quantized(values: Array, bits: int, size: int) -> tuple[Array, Array, Array]:
    """Numbers (rows, columns), and scales and zero points (rows, groups) of groups of `size` columns."""
    groups = values.reshape(len(values), -1, size)
    low, high = np.minimum(groups.min(axis=2), 0), np.maximum(groups.max(axis=2), 0)
    scales = ((high - low) / (2**bits - 1)).astype(np.float16)
    zeros = np.clip(np.rint(-low / scales.astype(np.float32)), 1, 2**bits - 1).astype(int)
    codes = np.rint(groups / scales[..., None].astype(np.float32)) + zeros[..., None]
    return np.clip(codes, 0, 2**bits - 1).astype(int).reshape(values.shape), scales, zeros


def random_values(rows: int, width: int) -> Array:
    """Values of a weight."""
    return np.random.default_rng(0).standard_normal((rows, width)).astype(np.float32)
