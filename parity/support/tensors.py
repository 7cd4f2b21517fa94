"""Arrays as torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...converter.dtypes import as_tensor

Array = np.ndarray[Any, Any]


def as_tensors(arrays: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    """Return copies of arrays of dtypes that torch has as tensors."""
    return tuple(map(as_tensor, arrays))


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor itself, or a sparse one with all its elements."""
    return tensor if tensor.layout == torch.strided else tensor.to_dense()
