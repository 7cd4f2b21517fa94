"""`DeferredTensor`: a tensor that is computed when the model is written, and isn't kept in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.dims import product
from ..ir.types import Type

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, slots=True)
class DeferredTensor:
    """A tensor that each call of `compute` computes again: an array of type `type`, whose shape is known.

    `in_file`: whether it is read from a file, as of a model that may be larger than memory.
    """

    type: Type
    compute: Callable[[], Array]
    in_file: bool = False

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        size = product(self.type.shape)
        assert isinstance(size, int)
        return size * self.type.dtype.itemsize


def array_of(tensor: Array | DeferredTensor) -> Array:
    """Return the tensor's data."""
    return tensor.compute() if isinstance(tensor, DeferredTensor) else tensor


def type_of(tensor: Array | DeferredTensor) -> Type:
    """Return the tensor's dtype and shape."""
    return tensor.type if isinstance(tensor, DeferredTensor) else Type(tensor.dtype, tensor.shape)
