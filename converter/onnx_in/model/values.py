"""What an ONNX value is while a model is imported: a traced tensor, known contents, a sequence, or nothing.

Contents are known of constants, and of what is computed from shapes: there an element may be a symbolic size. They
become a tensor of the program only where they are used as data.
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
class Known:
    """A tensor whose elements are known on import.

    Attributes:
        data: of `dtype`, or an object array in which some elements are symbolic sizes.
        dtype: of the elements.
        name: of the initializer that it is, empty if it is none.
    """

    data: Array
    dtype: np.dtype[Any]
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""
        shape: tuple[int, ...] = self.data.shape
        return shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.data.ndim

    @property
    def symbolic(self) -> bool:
        """Whether there are symbolic sizes among the elements."""
        return bool(self.data.dtype == object)

    def contents(self) -> Any:
        """The elements as Python numbers and sizes: one, or a tuple (of tuples)."""
        return _nested(self.data.tolist())


@dataclass(frozen=True, eq=False, slots=True)
class Sequence:
    """A sequence of values, whose length is known on import."""

    items: tuple[Any, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Pieces:
    """A sequence of the pieces of a tensor along an axis, whose number is known only when the program runs.

    Attributes:
        data: the tensor.
        axis: along which it is cut, from the front.
        size: of each piece but the last, which may be smaller; a tensor without dimensions, or a number.
        keepdims: whether pieces of size 1 keep the axis.
    """

    data: SymbolicTensor
    axis: int
    size: SymbolicTensor | int
    keepdims: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Optional:
    """An optional that holds a value, or None."""

    value: Any


Imported = SymbolicTensor | Known | Sequence | Pieces | Optional | None


def known(data: Any, dtype: Any = None) -> Known:
    """Known contents from an array or numbers."""
    array = np.asarray(data, dtype)
    return Known(array, array.dtype)


def known_dims(dims: Any, dtype: np.dtype[Any] = INT64) -> Known:
    """Known contents from sizes: an object array (or a nested sequence), or numbers only if none is symbolic."""
    array = dims if isinstance(dims, np.ndarray) else _object_array(dims)
    if all(isinstance(item, (bool, int, float, np.generic)) for item in array.reshape(-1)):
        return Known(array.astype(dtype), dtype)
    return Known(array, dtype)


def _object_array(dims: tuple[Dim, ...]) -> Array:
    array = np.empty(len(dims), object)
    array[:] = dims
    return array


def _nested(items: Any) -> Any:
    return tuple(_nested(item) for item in items) if isinstance(items, list) else items
