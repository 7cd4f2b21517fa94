"""The types of the Cell IR: `Type`, `Value`, `Node`, `CellCall` and their parts.

All are immutable: passes build new programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import ShapeError
from ..visible import visible_name
from .dims import Dim

BFLOAT16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
FLOAT16: np.dtype[Any] = np.dtype(np.float16)
FLOAT32: np.dtype[Any] = np.dtype(np.float32)
FLOAT64: np.dtype[Any] = np.dtype(np.float64)
INT32: np.dtype[Any] = np.dtype(np.int32)
INT64: np.dtype[Any] = np.dtype(np.int64)
BOOL: np.dtype[Any] = np.dtype(np.bool_)
_FLOATS_OF_8_BITS = tuple(
    np.dtype(scalar)
    for scalar in (
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
    )
)  # fmt: skip

MAX_RANK = 64  # the largest in NumPy

DTypeLike = Any  # a name such as "bfloat16", a NumPy dtype or scalar type
Attributes = Mapping[str, Any]  # bool, int, float, str, None, dtype, Dim, or tuples of these


def as_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """The NumPy dtype for a name (`"bfloat16"` too), a scalar type or a dtype; `TypeError` if there is none."""
    return BFLOAT16 if dtype == "bfloat16" else np.dtype(dtype)


def in_native_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array in the byte order of the machine; an array from a file may have the other one."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is float64, float32, float16 or bfloat16."""
    return dtype in (FLOAT32, FLOAT64, FLOAT16, BFLOAT16)


def carries_gradients(dtype: np.dtype[Any]) -> bool:
    """Whether gradients pass through values of `dtype`: floating-point numbers, and 8-bit floats between two casts.

    As in ATen, the gradient of an 8-bit float has the same 8 bits.
    """
    return is_floating(dtype) or dtype in _FLOATS_OF_8_BITS


def is_half(dtype: np.dtype[Any]) -> bool:
    """Whether `dtype` is float16 or bfloat16."""
    return dtype in (FLOAT16, BFLOAT16)


def at_least_float32(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype in which to compute several steps before rounding: float32 for half precision, else `dtype`."""
    return FLOAT32 if is_half(dtype) else dtype


@dataclass(frozen=True, slots=True)
class Type:
    """Dtype and shape of a tensor; dimensions are integers or symbolic. Raises `ShapeError` for too many dimensions."""

    dtype: np.dtype[Any]
    shape: tuple[Dim, ...]

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_RANK:
            raise ShapeError(f"a tensor can have at most {MAX_RANK} dimensions, not {len(self.shape)}")

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The shape where no dimension is symbolic; else None."""
        for dim in self.shape:
            if not isinstance(dim, int):
                return None
        return self.shape  # type: ignore[return-value]

    def with_shape(self, shape: tuple[Dim, ...]) -> Type:
        """The same dtype with another shape."""
        return Type(self.dtype, tuple(shape))

    def with_dtype(self, dtype: np.dtype[Any]) -> Type:
        """The same shape with another dtype."""
        return Type(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{', '.join(map(visible_name, self.shape))}]"


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """One tensor of a program: assigned once, known by its name. Compared by identity."""

    name: str
    type: Type

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Shape; dimensions are integers or symbolic."""
        return self.type.shape

    def __str__(self) -> str:
        return f"%{visible_name(self.name)}: {self.type}"


@dataclass(frozen=True, slots=True)
class Source:
    """The origin of a node: a line in a file of the user or a library, and the operator in it.

    `settings` are the operator's attributes as they were given there, by name, with its defaults; files of programs
    don't keep them.
    """

    file: str
    line: int
    text: str
    operator: str
    settings: tuple[tuple[str, Any], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return visible_name(f"{self.file}:{self.line}: {self.text}" if self.file else self.operator)


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One application of an op. `cell` is the index of its Cell call in `Program.calls`."""

    op: str
    inputs: tuple[Value | None, ...]
    attributes: Attributes
    outputs: tuple[Value, ...]
    cell: int = 0
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class CellCall:
    """One call of one Cell.

    `path` is the module path (`""` for the root), `index` counts the calls of that path from 0, `parent` is the index
    in `Program.calls` of the calling Cell (None for the root). The values at its boundary are marked in the graph by
    nodes of the op `boundary`.
    """

    path: str
    class_name: str
    index: int = 0
    parent: int | None = None

    @property
    def label(self) -> str:
        """Path and index, unescaped: the name of the call in files."""
        name = self.path or "(root)"
        return f"{name}@{self.index}" if self.index else name

    def __str__(self) -> str:
        return visible_name(self.label)


@dataclass(frozen=True, eq=False, slots=True)
class ProgramParameter:
    """A trainable (or frozen) tensor of a program, by its qualified name.

    `data` may have another floating-point dtype than `value`, and be in a file that is mapped into memory: they are
    then converted, and read, whenever they are used.
    `aliases` are the other qualified names of a parameter that several modules share.
    """

    value: Value
    data: np.ndarray[Any, Any]
    trainable: bool = True
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Buffer:
    """A state tensor that isn't trained; `update` is its value after a run of the program."""

    value: Value
    data: np.ndarray[Any, Any]
    update: Value | None = None


@dataclass(frozen=True, eq=False, slots=True)
class Constant:
    """A constant tensor. `data` may be wider than the value's dtype, so that a Python number keeps its digits."""

    value: Value
    data: np.ndarray[Any, Any] = field(repr=False)
