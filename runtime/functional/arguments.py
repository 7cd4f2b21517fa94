"""Arguments of operators that aren't operands: shapes, axes and other integers."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ..common.elements import AS_MASKED
from ..common.tensor import Tensor
from ..current_trace import current
from ..errors import TracingError
from ..ir.dims import Dim, SymbolicDim, product, symbol
from ..ops import data_dependent, elementwise, shaping
from ..tensor_like import TensorLike
from ..tracing import SymbolicTensor


def integer(value: Any, name: str, *, of: str) -> Any:
    """Convert an int, a NumPy integer or an integer tensor of one element to an int; symbolic sizes pass unchanged.

    Raises:
        TypeError: `value` is none of these; bools don't count as integers.
    """
    if isinstance(value, SymbolicDim):
        return value
    try:
        if not isinstance(value, (bool, np.bool_)):
            return operator.index(value)
    except TracingError:
        raise
    except (TypeError, ValueError):
        pass
    raise TypeError(f"For '{of}', '{name}' must be an int, but got {type(value).__name__}: {value!r}")


def integers(value: Any, name: str, *, of: str) -> tuple[Any, ...]:
    """Convert an int, or a tuple, list, array or tensor of ints, to a tuple of ints; `TypeError` for other values."""
    if isinstance(value, (Tensor, np.ndarray)) and value.ndim:
        if value.dtype.kind not in "iu":
            raise TypeError(f"For '{of}', '{name}' must hold ints, but got dtype {value.dtype}")
        value = value.tolist()
    if isinstance(value, (tuple, list)):
        return tuple(integer(item, name, of=of) for item in value)
    return (integer(value, name, of=of),)


def unpack_varargs(args: tuple[Any, ...]) -> Any:
    """Return variadic arguments, or the only one if it is a tuple, list or tensor: `x.view(2, 3)`, `x.view((2, 3))`."""
    is_sequence = len(args) == 1 and (
        isinstance(args[0], (tuple, list)) or (isinstance(args[0], Tensor) and args[0].ndim)
    )
    return args[0] if is_sequence else args


def require_operands(operands: Any, name: str, *, of: str) -> tuple[Any, ...]:
    """Return a non-empty tuple or list of tensors as a tuple; `TypeError` or `ValueError` for other values."""
    if not isinstance(operands, (tuple, list)):
        raise TypeError(f"For '{of}', '{name}' must be a tuple or list of Tensors, but got {type(operands).__name__}")
    if not operands:
        raise ValueError(f"For '{of}', '{name}' must hold at least one Tensor, but got {operands!r}")
    for item in operands:
        if not isinstance(item, TensorLike):
            raise TypeError(f"For '{of}', '{name}' must hold Tensors, but got {type(item).__name__}: {item!r}")
    return tuple(operands)


def require_integers(indices: Any, name: str, *, of: str) -> Any:
    """Return `indices` if it is a tensor of integers; else raise `TypeError`."""
    if not isinstance(indices, TensorLike):
        raise TypeError(f"For '{of}', '{name}' must be a Tensor, but got {type(indices).__name__}: {indices!r}")
    if indices.dtype.kind not in "iu":
        raise TypeError(f"For '{of}', '{name}' must be a Tensor of integers, but got dtype {indices.dtype}")
    return indices


def known_size(size: Dim, what: str) -> int:
    """Return a size that must be a number; `ValueError` if it is symbolic."""
    if isinstance(size, SymbolicDim):
        raise ValueError(f"{what} must be known, but it is {size}")
    return size


def is_symbolic(x: Any) -> bool:
    """Whether a value is a tensor whose elements are known only when a program runs."""
    return isinstance(x, Tensor) and isinstance(x._data, SymbolicTensor)


def symbolic_nonzero(x: Any) -> Any:
    """Return the coordinates of the nonzero elements of a symbolic tensor: int64 (count, axes).

    Their count is a symbolic size, which is the same for every call with the same tensor.
    """
    trace = current()
    assert trace is not None, "there are symbolic tensors while Python is traced"
    return trace.once("nonzero", x, lambda: data_dependent.nonzero(x, symbols=(trace.builder.new_symbol(),)))


def to_symbolic_size(x: Any, name: str, *, of: str) -> Any:
    """Convert a symbolic integer tensor of one element to a symbolic size."""
    if x.dtype.kind not in "iu" or product(x.shape) != 1:
        raise TypeError(f"For '{of}', '{name}' must be an int, but got a Tensor of {x.dtype} {tuple(x.shape)}")
    trace = current()
    assert trace is not None, "there are symbolic tensors while Python is traced"

    def read() -> Any:
        size = trace.builder.new_symbol("size")
        number = shaping.reshape(elementwise.cast(x, dtype=np.dtype(np.int64)), shape=())
        data_dependent.read_sizes(number, symbols=(size,))
        return symbol(size)

    return trace.once("size", x, read)


def known_elements(x: Any, what: str) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor that determine the shape of a result; raise an error if they are unknown."""
    if not isinstance(x, Tensor):
        raise TypeError(f"the elements of {what} must be known, as the shape of the result depends on them: {x!r}")
    return x._elements(f"{what}, on which the shape of the result depends,", AS_MASKED)
