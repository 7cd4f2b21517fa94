"""Access to the elements of a tensor: conversions, Python protocols, NumPy. Symbolic tensors raise an error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..current_trace import TraceProtocol, current
from ..errors import UnknownSize, UnknownValue
from ..ir.dims import Dim
from ..tensor_like import TensorLike
from ..tracing import SymbolicTensor
from .dtype import dtype_name
from .placeholder import Placeholder

Array = np.ndarray[Any, Any]
Data = Any  # an array; while tracing, also a value of the program under construction

AS_OPS = "use ops or methods of the tensor (`ops.exp(x)` instead of `np.exp(x)`), or compute outside of the traced code"
AS_TENSOR = "keep it a tensor: a tensor without dimensions works like a number"
AS_NUMBER = "use a Python number, or a size (`x.shape[0]`)"
AS_MASKED = (
    "compute with all elements and a mask (`x * mask`, `ops.where(mask, x, 0)`), or select them outside of the traced "
    "code"
)
AS_STACK = "join tensors with `ops.stack`"
AS_CHOICE = (
    "choose with `ops.where(condition, a, b)`, write an `if` or `while` statement in a function whose source is in a "
    "file, or decide outside of the traced code"
)


class Elements(TensorLike):
    """The base class of `Tensor`, which holds an array or symbolic data."""

    __array_priority__ = 100  # NumPy leaves `array * tensor` to this class

    _data: Data

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Any: ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements, e.g. `float32`."""
        dtype: np.dtype[Any] = self._data.dtype
        return dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        shape: tuple[int, ...] = self._data.shape
        return shape

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        size: int = self._data.size
        return size

    @property
    def itemsize(self) -> int:
        """Size of an element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Size of all elements in bytes."""
        return self.size * self.itemsize

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    def numel(self) -> int:
        """Number of elements."""
        return self.size

    def asnumpy(self) -> Array:
        """Return a copy as a NumPy array. No gradient flows through computations on it."""
        return self._elements("asnumpy()", AS_OPS).copy()

    numpy = asnumpy

    def tolist(self) -> Any:
        """Return nested lists of Python numbers."""
        return self._elements("tolist()", AS_OPS).tolist()

    def item(self, *index: int) -> Any:
        """Return the element at `index`, or the only element, as a Python number.

        `ValueError` if there are several elements and no index.
        """
        elements = self._elements("item()", AS_TENSOR)
        if not index and self.size != 1:
            raise ValueError(f"item() needs a tensor of one element, but got shape {self.shape}: give an index")
        return elements.item(*index)

    def _elements(self, what: str, instead: str) -> Array:
        """Return the array; for a symbolic tensor, raise an error that `what` needs elements, with advice `instead`."""
        data = self._data
        if isinstance(data, SymbolicTensor):
            raise unknown_elements_error(data, what, instead)
        if isinstance(data, Placeholder):
            data.refuse(what)
        array: Array = data
        return array

    # ---- Python's protocols ----

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        elements = self._elements("a NumPy call", AS_OPS)
        return np.array(elements, dtype=dtype) if copy is not False else np.asarray(elements, dtype=dtype)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Apply a NumPy function to the arrays of tensors; it returns arrays, without a gradient."""
        what = f"np.{function.__name__}()"
        return function(*to_arrays(args, what, AS_OPS), **to_arrays(kwargs, what, AS_OPS))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        trace = current()
        if trace is not None and not isinstance(self.shape[0], int):
            raise symbolic_iteration_error(trace, self.shape[0])
        return (self[i] for i in range(self.shape[0]))

    def __bool__(self) -> bool:
        _follow_source(self._data, "a condition", sys._getframe(1))
        elements = self._elements("bool(), in an `if`, `while`, `assert`, `and`, `or` or `not`,", AS_CHOICE)
        if self.size != 1:
            raise ValueError(
                f"the truth value of a tensor with more than one element is ambiguous: needed one element, got "
                f"{self.size} (shape {self.shape}); use any() or all()"
                if self.size
                else "the truth value of an empty tensor is ambiguous: needed one element"
            )
        return bool(elements.item())

    def __int__(self) -> int:
        self._elements("int()", AS_TENSOR)
        return int(self.item())

    def __float__(self) -> float:
        self._elements("float()", AS_TENSOR)
        return float(self.item())

    def __index__(self) -> int:
        if not np.issubdtype(self.dtype, np.integer):
            raise TypeError(f"only an integer tensor can be an index, but got dtype {self.dtype}")
        _follow_source(self._data, "range", sys._getframe(1))
        self._elements("a Python int, such as a size, an axis or the bound of a range,", AS_NUMBER)
        return int(self.item())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        _follow_source(self._data, "print", sys._getframe(1))
        if isinstance(self._data, SymbolicTensor):
            return f"Tensor(shape={list(self.shape)}, dtype={dtype_name(self.dtype)}, symbolic)"
        if isinstance(self._data, Placeholder):
            return f"Tensor(shape={self._data.text}, dtype={dtype_name(self.dtype)})"
        value = np.array2string(self._data, separator=", ")
        line_break = "\n" if "\n" in value else ""  # a value of several lines starts at the margin
        return f"Tensor(shape={list(self.shape)}, dtype={dtype_name(self.dtype)}, value={line_break}{value})"

    def __str__(self) -> str:
        _follow_source(self._data, "print", sys._getframe(1))
        return repr(self) if isinstance(self._data, (SymbolicTensor, Placeholder)) else str(self._data)

    def __format__(self, spec: str) -> str:
        _follow_source(self._data, "print", sys._getframe(1))
        return format(self.item(), spec) if spec else str(self)


def _follow_source(data: Data, use: str, frame: FrameType) -> None:
    """Rewrite the code that needs the elements of symbolic data, if that can help.

    Args:
        data: the data.
        use: the use of the elements: `a condition`, or the name of a built-in function with a tensor argument.
        frame: the running frame.
    """
    trace = current()
    if trace is not None and isinstance(data, SymbolicTensor) and data.builder is trace.builder:
        trace.guard.follow_source(use, frame)


def to_arrays(value: Any, what: str, instead: str) -> Any:
    """Convert the tensors in nested lists, tuples and dicts to arrays. See `Elements._elements` for other arguments."""
    if isinstance(value, (list, tuple)):
        items = [to_arrays(item, what, instead) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: to_arrays(item, what, instead) for key, item in value.items()}
    return value._elements(what, instead) if isinstance(value, Elements) else value


def unknown_elements_error(data: SymbolicTensor, what: str, instead: str) -> Exception:
    """Return the error for an access to the elements of symbolic data by `what`, with the advice `instead`."""
    trace = current()
    if trace is None or data.builder is not trace.builder:
        return UnknownValue(
            f"a tensor of an earlier trace, {data.value.type}, was used: it was part of a program under construction. "
            "Don't store tensors that traced code computes; return them"
        )
    shape = tuple(data.shape)
    return trace.guard.refusal(
        UnknownValue,
        f"{what} needs the elements of a tensor of shape {shape} and dtype {data.dtype.name}, which are known only "
        "when the program runs",
        instead,
    )


def symbolic_iteration_error(trace: TraceProtocol, size: Dim) -> Exception:
    """Return the error for a loop over an axis of symbolic size."""
    return trace.guard.refusal(
        UnknownSize,
        f"iteration over an axis of size {size}, which is known only when the program runs",
        "compute with the whole tensor, or give that axis a fixed size",
    )
