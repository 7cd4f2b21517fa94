"""Calibration data: the inputs from whose intermediate values a quantizer takes its ranges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....runtime.errors import UsageError
from ....runtime.ir.types import Value, is_floating
from ....runtime.visible import visible_name
from ...inputs.arrays import read_all
from ...sides.records import Array

Calibration = list[dict[str, Array]]
"""Arrays by input name, for each call."""


def read_calibration(path: str, inputs: Sequence[Value]) -> Calibration:
    """Read an .npz file with an array for each input: of one call, or of several along an additional first axis.

    Args:
        path: the file.
        inputs: the model's inputs.

    Raises:
        UsageError: the file can't be read, lacks an input or holds others, an array has another shape or dtype, there
            are NaN or infinite numbers, no sample, or different numbers of them.
    """
    arrays = read_all(path)
    needed = [value.name for value in inputs]
    if sorted(arrays) != sorted(needed):
        names = ", ".join(map(visible_name, arrays)) or "nothing"
        raise UsageError(f"the model takes {', '.join(map(visible_name, needed))}; {path} holds {names}")
    split = {value.name: _samples(path, value, arrays[value.name]) for value in inputs}
    counts = {name: len(samples) for name, samples in split.items()}
    if len(set(counts.values())) > 1:
        words = ", ".join(f"{visible_name(name)} {count}" for name, count in counts.items())
        raise UsageError(f"{path}: the inputs have different numbers of samples: {words}")
    if not min(counts.values(), default=0):
        raise UsageError(f"{path} holds no sample: give at least one, better a hundred")
    return [dict(zip(split, sample, strict=True)) for sample in zip(*split.values(), strict=True)]


def _samples(path: str, value: Value, array: Array) -> list[Array]:
    """Return the array of each call."""
    name = visible_name(value.name)
    if is_floating(value.dtype) and array.dtype.kind == "f":
        if not np.isfinite(array).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise UsageError(f"{path}: {name} isn't finite at {list(index)}: a range can't be taken from it")
        array = array.astype(value.dtype, copy=False)
    if array.dtype != value.dtype:
        raise UsageError(f"{path}: {name} must be {value.dtype}, given {array.dtype}")
    if _fits(array.shape, value):
        return [array]
    if _fits(array.shape[1:], value) and array.ndim:
        return list(array)
    raise UsageError(
        f"{path}: {name} must be {value.type}, or several of that along an additional first axis; given "
        f"{array.dtype}{list(array.shape)}"
    )


def _fits(shape: Sequence[int], value: Value) -> bool:
    """Whether an array of this shape can be that input, in which symbols stand for any size."""
    return len(shape) == len(value.shape) and all(
        not isinstance(dim, int) or dim == size for dim, size in zip(value.shape, shape, strict=True)
    )
