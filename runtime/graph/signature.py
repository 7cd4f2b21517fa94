"""The key of a compiled program: the arguments of a call without the elements and sizes of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..common.parameter import Parameter
from ..common.tensor import Tensor
from ..ir.dims import Dim, SymbolicDim, symbol
from ..programs.call import as_array
from .sizes import is_input

Sizes = tuple[tuple[int, ...], ...]
Shapes = tuple[tuple[Dim, ...], ...]


@dataclass(frozen=True)
class Signature:
    """The arguments of a call.

    Attributes:
        key: structure, dtypes and ranks of tensors, Python values, identities of Parameters and other objects.
        tensors: the tensors (Tensors, arrays), in flat order.
        references: the objects that the key identifies by `id`; they must live as long as the key.
    """

    key: Any
    tensors: tuple[Any, ...]
    references: tuple[Any, ...]

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
        """Return the signature of a call."""
        tensors: list[Any] = []
        references: list[Any] = []
        key = (_key(args, tensors, references), _key(kwargs, tensors, references))
        return cls(key, tuple(tensors), tuple(references))

    @property
    def sizes(self) -> Sizes:
        """The shapes of the tensors."""
        return tuple(tuple(x.shape) for x in self.tensors)

    @property
    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The tensors as arrays."""
        return [x._data if isinstance(x, Tensor) else as_array(x) for x in self.tensors]


def _key(item: Any, tensors: list[Any], references: list[Any]) -> Any:
    if isinstance(item, Parameter):
        references.append(item)
        return "parameter", id(item)
    if is_input(item):
        tensors.append(item)
        dtype = item.dtype if hasattr(item.dtype, "name") else as_array(item).dtype
        return "tensor", dtype.name, len(item.shape)
    if isinstance(item, (tuple, list)):
        return type(item), *(_key(part, tensors, references) for part in item)
    if isinstance(item, Mapping):
        return type(item), *((name, _key(part, tensors, references)) for name, part in item.items())
    if isinstance(item, float):
        return float, item.hex()  # distinguishes -0.0 from 0.0, and NaN equals itself
    if isinstance(item, complex):
        return complex, item.real.hex(), item.imag.hex()
    if isinstance(item, (bool, int, str, bytes, type(None), np.dtype)):
        return type(item), item
    references.append(item)
    return type(item), id(item)


def fits(shapes: Shapes, sizes: Sizes) -> bool:
    """Whether a program with these shapes accepts tensors of these sizes; a size of 1 fits no symbol."""
    values: dict[SymbolicDim, int] = {}
    for dims, actual in zip(shapes, sizes, strict=True):
        for dim, size in zip(dims, actual, strict=True):
            if isinstance(dim, int):
                if dim != size:
                    return False
            elif size == 1 or values.setdefault(dim, size) != size:
                return False
    return True


def generalize(before: Sizes, now: Sizes) -> Shapes | None:
    """Return shapes that fit both sizes, with a symbol for each pair of different sizes.

    None if one of a pair is 1, because only that size broadcasts.
    """
    symbols: dict[tuple[int, int], SymbolicDim] = {}

    def dim(a: int, b: int) -> Dim:
        return a if a == b else symbols.setdefault((a, b), symbol(f"size_{len(symbols)}"))

    pairs = [list(zip(a, b, strict=True)) for a, b in zip(before, now, strict=True)]
    if any(1 in pair for axes in pairs for pair in axes if pair[0] != pair[1]):
        return None
    return tuple(tuple(dim(*pair) for pair in axes) for axes in pairs)


def is_symbolic(shapes: Sequence[Sequence[Dim]]) -> bool:
    """Whether a size is symbolic."""
    return any(not isinstance(dim, int) for dims in shapes for dim in dims)
