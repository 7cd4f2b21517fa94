"""What the compiled code of a function is kept by: its arguments without the elements of tensors, and their sizes."""

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
        key: their structure, dtypes and ranks of tensors, Python values, identities of Parameters.
        tensors: the tensors (Tensors, arrays), in flat order.
        kept: what is known by its identity, to be kept as long as the key.
    """

    key: Any
    tensors: tuple[Any, ...]
    kept: tuple[Any, ...]

    @classmethod
    def of(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Signature:
        """The signature of a call."""
        tensors: list[Any] = []
        kept: list[Any] = []
        key = (_key(args, tensors, kept), _key(kwargs, tensors, kept))
        return cls(key, tuple(tensors), tuple(kept))

    @property
    def sizes(self) -> Sizes:
        """The shapes of the tensors."""
        return tuple(tuple(x.shape) for x in self.tensors)

    @property
    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The tensors as arrays."""
        return [x._data if isinstance(x, Tensor) else as_array(x) for x in self.tensors]


def _key(item: Any, tensors: list[Any], kept: list[Any]) -> Any:
    if isinstance(item, Parameter):
        kept.append(item)
        return "parameter", id(item)
    if is_input(item):
        tensors.append(item)
        dtype = item.dtype if hasattr(item.dtype, "name") else as_array(item).dtype
        return "tensor", dtype.name, len(item.shape)
    if isinstance(item, (tuple, list)):
        return type(item), *(_key(part, tensors, kept) for part in item)
    if isinstance(item, Mapping):
        return type(item), *((name, _key(part, tensors, kept)) for name, part in item.items())
    if isinstance(item, float):
        return float, item.hex()  # which tells -0.0 from 0.0, and a NaN is itself
    if isinstance(item, complex):
        return complex, item.real.hex(), item.imag.hex()
    if isinstance(item, (bool, int, str, bytes, type(None), np.dtype)):
        return type(item), item
    kept.append(item)
    return type(item), id(item)


def fit(shapes: Shapes, sizes: Sizes) -> bool:
    """Whether tensors of these sizes are what a program with these shapes takes: a size of 1 fits no symbol."""
    found: dict[SymbolicDim, int] = {}
    for dims, given in zip(shapes, sizes, strict=True):
        for dim, size in zip(dims, given, strict=True):
            if isinstance(dim, int):
                if dim != size:
                    return False
            elif size == 1 or found.setdefault(dim, size) != size:
                return False
    return True


def generalized(before: Sizes, now: Sizes) -> Shapes | None:
    """Shapes for both sizes: where they differ there are symbols, one for each pair of sizes.

    None where one of the two is 1, which broadcasts where no other size does.
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
