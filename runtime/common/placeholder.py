"""`Placeholder`: the data of a Tensor without elements, which declares an input that may have open sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from .. import checks

OPEN_SIZE = -1
OPEN_RANK = -2


@dataclass(frozen=True)
class Placeholder:
    """Dtype and shape of a tensor without elements.

    Attributes:
        dtype: the dtype.
        shape: the sizes, -1 for an open size; (-2,) if the number of axes is open.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @classmethod
    def of(cls, shape: Any, dtype: np.dtype[Any]) -> Placeholder:
        """Return the data of `Tensor(shape=shape, dtype=dtype)`; a size None is open, a shape None has an open rank.

        Raises:
            TypeError: `shape` is neither None, an int, nor a list or tuple of ints and None.
            ValueError: a size is negative, except -1, which is the same as None.
        """
        if shape is None:
            return cls(dtype, (OPEN_RANK,))
        sizes = shape if isinstance(shape, (list, tuple)) else (shape,)
        return cls(dtype, tuple(OPEN_SIZE if size is None else _size(size, sizes) for size in sizes))

    @property
    def has_open_rank(self) -> bool:
        """Whether the number of axes is open."""
        return self.shape == (OPEN_RANK,)

    @property
    def text(self) -> str:
        """The shape in the form that users write."""
        return "None" if self.has_open_rank else str([None if size < 0 else size for size in self.shape])

    def accepts(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape is allowed."""
        if self.has_open_rank:
            return True
        return len(shape) == len(self.shape) and all(
            declared in (OPEN_SIZE, size) for declared, size in zip(self.shape, shape, strict=True)
        )

    def copy(self) -> Placeholder:
        """Return itself, since it is immutable."""
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        self.refuse("an array")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self.refuse(f"'{name}'")

    def refuse(self, what: str) -> NoReturn:
        """Raise `ValueError`, because `what` needs elements."""
        raise ValueError(
            f"{what} needs the elements of a tensor, but got Tensor(shape={self.text}, dtype={self.dtype}), a "
            "placeholder for `Cell.set_inputs` and `jit(input_signature=)`: give elements, or `init`"
        )


def _size(size: Any, shape: Sequence[Any]) -> int:
    checks.of_type(size, "shape", int, of="Tensor")
    if size < OPEN_SIZE:
        raise ValueError(f"For 'Tensor', 'shape' must hold sizes, or None for open sizes, but got {list(shape)}")
    return int(size)
