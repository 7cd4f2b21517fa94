"""Arrays as torch tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ...runtime.ir.types import BFLOAT16
from .arrays import Array


def as_tensors(arrays: Sequence[Array]) -> tuple[torch.Tensor, ...]:
    """Return copies of arrays of dtypes that torch has as tensors."""
    return tuple(
        torch.from_numpy(array.astype(np.float32)).bfloat16()  # which NumPy itself lacks
        if array.dtype == BFLOAT16
        else torch.from_numpy(np.array(array))
        for array in arrays
    )
