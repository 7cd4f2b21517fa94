"""What ops take beside arrays: `TensorLike`, to which an op hands itself over, and what an op is to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np

Tensor = Union["TensorLike", np.ndarray[Any, Any]]
"""What ops take and return: an operand that does more than compute, or an array."""


class Operator(Protocol):
    """An op of the registry (`ops.registry.Op`), as far as the values that it is applied to know it."""

    name: str

    def attributes(self, given: dict[str, Any]) -> dict[str, Any]:
        """`given` completed with defaults."""

    def infer_types(self, types: list[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Types of the outputs on operands of these types; None for an absent operand."""


class TensorLike(ABC):
    """What an op hands itself to when it is called with one: it records, or computes and keeps track."""

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""

    @property
    @abstractmethod
    def shape(self) -> tuple[Any, ...]:
        """Shape."""

    @property
    @abstractmethod
    def ndim(self) -> int:
        """Number of dimensions."""

    @abstractmethod
    def apply(self, op: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The output (a tuple of several) of `op` on `inputs`, among which this is the first operand of its kind."""

    if TYPE_CHECKING:  # each kind has operators of its own; the rules of ops use these

        def __add__(self, other: Any) -> Any: ...
        def __radd__(self, other: Any) -> Any: ...
        def __sub__(self, other: Any) -> Any: ...
        def __rsub__(self, other: Any) -> Any: ...
        def __mul__(self, other: Any) -> Any: ...
        def __rmul__(self, other: Any) -> Any: ...
        def __truediv__(self, other: Any) -> Any: ...
        def __rtruediv__(self, other: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __neg__(self) -> Any: ...


class Compound:
    """What is made of several operands: it has operators of its own, which the operators of operands give way to."""
