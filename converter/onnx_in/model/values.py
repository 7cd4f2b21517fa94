"""The values during import: a symbolic tensor, a known tensor, a sequence, an optional, or nothing.

Constants and results computed from shapes are known tensors; in the latter, an element may be a symbolic size. They
become tensors of the program only where they are used as data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import INT64
from ....runtime.tracing import SymbolicTensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, slots=True)
class KnownTensor:
    """A tensor whose elements are known on import.

    Attributes:
        data: an array of `dtype`, or an object array in which some elements are symbolic sizes.
        dtype: the dtype of the elements.
        name: the name of the initializer, empty for any other tensor.
    """

    data: Array
    dtype: np.dtype[Any]
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        shape: tuple[int, ...] = self.data.shape
        return shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.data.ndim

    @property
    def symbolic(self) -> bool:
        """Whether some elements are symbolic sizes."""
        return bool(self.data.dtype == object)

    def contents(self) -> Any:
        """The elements as Python numbers and sizes: a number, or nested tuples."""
        return _to_tuples(self.data.tolist())


@dataclass(frozen=True, eq=False, slots=True)
class Sequence:
    """A sequence of values, whose length is known on import."""

    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """The pieces of a tensor along an axis, as a sequence whose length is known only when the program runs.

    Attributes:
        data: the tensor.
        axis: the axis along which it is split.
        size: the size of each piece except the last, which may be smaller; a tensor of rank 0, or a number.
        keepdims: whether pieces of size 1 keep the axis.
    """

    data: SymbolicTensor
    axis: int
    size: SymbolicTensor | int
    keepdims: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Optional:
    """An optional: a value, or None if it is empty."""

    value: Any


Imported = SymbolicTensor | KnownTensor | Sequence | Pieces | Optional | None


def known_tensor(data: Any, dtype: Any = None) -> KnownTensor:
    """A known tensor with the elements of an array or of numbers."""
    array = np.asarray(data, dtype)
    return KnownTensor(array, array.dtype)


def known_dims(dims: Any, dtype: np.dtype[Any] = INT64) -> KnownTensor:
    """A known tensor of sizes (an array or nested sequence); an object array only if some are symbolic."""
    array = dims if isinstance(dims, np.ndarray) else _object_array(dims)
    if all(isinstance(item, (bool, int, float, np.generic)) for item in array.reshape(-1)):
        return KnownTensor(array.astype(dtype), dtype)
    return KnownTensor(array, dtype)


def _object_array(dims: tuple[Dim, ...]) -> Array:
    array = np.empty(len(dims), object)
    array[:] = dims
    return array


def _to_tuples(items: Any) -> Any:
    return tuple(_to_tuples(item) for item in items) if isinstance(items, list) else items
