"""Arrays as torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...runtime.ir.types import BFLOAT16

Array = np.ndarray[Any, Any]


def as_tensor(array: Array) -> torch.Tensor:
    """Return a copy of an array of a dtype that torch has as a tensor."""
    if array.dtype == BFLOAT16:  # which torch doesn't read from NumPy
        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(np.array(array))


def as_tensors(arrays: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    """Return copies of arrays of dtypes that torch has as tensors."""
    return tuple(map(as_tensor, arrays))


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor itself, or a sparse one with all its elements."""
    return tensor if tensor.layout == torch.strided else tensor.to_dense()
