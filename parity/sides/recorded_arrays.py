"""`RecordedArrays`: what is recorded at several boundaries, such as those of nested Cells, is one array."""

from __future__ import annotations

import weakref

import torch

from ...converter.dtypes import as_tensor, numpy_dtype
from .records import Array


class RecordedArrays:
    """The arrays of tensors that have crossed a boundary, for the next boundary that the same tensors cross.

    A tensor that was changed in place since has no array.
    """

    def __init__(self) -> None:
        self._of_tensors: dict[int, tuple[weakref.ref[torch.Tensor], int, Array]] = {}
        self._last_gradient: tuple[torch.Tensor, int, Array] | None = None
        self._fed: dict[tuple[int, torch.dtype], tuple[Array, torch.Tensor]] = {}

    def keep(self, tensor: torch.Tensor, array: Array | None) -> torch.Tensor:
        """Keep the array of a tensor, if it has one; return the tensor."""
        if array is not None:
            number = id(tensor)
            reference = weakref.ref(tensor, lambda _: self._of_tensors.pop(number, None))
            with torch._C.DisableTorchFunction():
                self._of_tensors[number] = reference, tensor._version, array
        return tensor

    def keep_gradient(self, gradient: torch.Tensor, array: Array | None) -> torch.Tensor:
        """Keep the array of the last gradient, if it has one; return the gradient."""
        self._last_gradient = None if array is None else (gradient, gradient._version, array)
        return gradient

    def of(self, tensor: torch.Tensor) -> Array | None:
        """Return the array of a tensor; None if it isn't known."""
        recorded = self._of_tensors.get(id(tensor))
        if recorded is not None and recorded[0]() is tensor and recorded[1] == tensor._version:
            return recorded[2]
        if self._last_gradient is not None:
            gradient, version, array = self._last_gradient
            if tensor._version == gradient._version == version and _is_same_memory(tensor, gradient):
                return array
        return None

    def tensor_of(self, array: Array, dtype: torch.dtype) -> torch.Tensor:
        """Return a recorded array as a tensor, which must not be changed in place, and keep what it holds."""
        if (id(array), dtype) not in self._fed:
            is_shared = array.flags.writeable and array.dtype.isbuiltin == 1
            tensor = (torch.from_numpy(array) if is_shared else as_tensor(array)).to(dtype)
            self._fed[id(array), dtype] = array, tensor
            if not dtype.is_complex and numpy_dtype(dtype).isbuiltin == 1:
                self.keep(tensor, tensor.numpy())
        return self._fed[id(array), dtype][1]


def _is_same_memory(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same numbers in memory."""
    if not tensor.layout == other.layout == torch.strided:
        return False
    layout = tensor.shape, tensor.stride(), tensor.dtype
    return tensor.data_ptr() == other.data_ptr() and layout == (other.shape, other.stride(), other.dtype)
