"""`TensorLike`: an operand to which an op delegates; `Operator`: the interface of an op for such operands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol, Union

import numpy as np

Tensor = Union["TensorLike", np.ndarray[Any, Any]]
"""An operand or result of an op: a `TensorLike` or an array."""


class Operator(Protocol):
    """The part of an op of the registry (`ops.registry.Op`) that its operands use."""

    name: str

    def attributes(self, attributes: dict[str, Any]) -> dict[str, Any]:
        """Return `attributes` completed with defaults."""

    def infer_types(self, types: list[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
        """Return the types of the outputs for operands of these types; None for an absent operand."""


class TensorLike(ABC):
    """An operand that decides how an op is applied to it: it records the op, or computes and tracks it."""

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
        """Return the output (a tuple for several) of `op` on `inputs`; this is the first operand of its class."""

    if TYPE_CHECKING:  # each subclass has its own operators; the rules of ops use these

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
    """A value made of several operands, such as a complex number. Its operators take precedence over theirs."""
