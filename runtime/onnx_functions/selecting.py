"""Functions for ONNX operators that select elements: TopK and Compress."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dims import product
from ..ops import indexing, shaping, sorting
from ..ops.common import normalize_axis
from ..ops.registry import Tensor, require
from .registry import onnx_function
from .shaping import scalar


@onnx_function("TopK", "k")
def topk(x: Tensor, k: Any, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    """TopK-11: values and their indices; a stable sort if all elements are selected."""
    count, axis = scalar(k), normalize_axis(axis, x.ndim)
    if sorted and x.ndim and count == x.shape[axis]:
        return sorting.sort(x, axis=axis, descending=bool(largest))
    return sorting.topk(x, k=count, axis=axis, largest=bool(largest), sorted=bool(sorted))


@onnx_function("Compress", "condition")
def compress(input: Tensor, condition: Any, *, axis: int | None = None) -> Any:
    """Compress-11: the slices (without `axis`: the elements) for which the condition is true."""
    if axis is None:
        input, axis = shaping.reshape(input, shape=(product(input.shape),)), 0
    chosen = [i for i, holds in enumerate(condition) if holds]
    size = input.shape[normalize_axis(axis, input.ndim)]
    require(not isinstance(size, int) or len(condition) <= size, f"{len(condition)} conditions for a size of {size}")
    return indexing.take(input, np.array(chosen, np.int64), axis=normalize_axis(axis, input.ndim))
