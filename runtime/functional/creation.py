"""Creation of tensors: constants, sequences of numbers, and tensors from Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.dtype import bool_, dtype_to_pytype, float32, int32, int64, to_dtype
from ..common.tensor import Tensor, create, from_array
from ..errors import ShapeError
from ..ir.dims import SymbolicDim
from ..ops import creation, elementwise, shaping
from ..tensor_like import TensorLike
from .arguments import integer, integers, unpack_varargs
from .operands import as_tensor
from .public_op import Primitive, public_op, tensor_method


def _number(value: Any, name: str, *, of: str) -> Any:
    """Convert a number or a tensor of one element to a Python number."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return value.item()
    if isinstance(value, (bool, int, float, SymbolicDim)):
        return value
    raise TypeError(f"For '{of}', '{name}' must be a number, but got {type(value).__name__}: {value!r}")


def _dtype_of(*numbers: Any) -> np.dtype[Any]:
    """The dtype of Python numbers as tensors: int64, float32 or bool."""
    if all(isinstance(n, bool) for n in numbers):
        return bool_
    return float32 if any(isinstance(n, float) for n in numbers) else int64


def _fill_tensor(size: Any, value: Any, dtype: Any, *, of: str) -> Tensor:
    sizes = integers(size, "size", of=of)
    if any(isinstance(s, int) and s < 0 for s in sizes):
        raise ShapeError(f"For '{of}', sizes must not be negative, but got {size}")
    return create(creation.full, shape=sizes, value=value, dtype=to_dtype(dtype))


# ---- constants ----


@public_op(primitive="Zeros")
def zeros(size: Any, dtype: Any = None) -> Any:
    """A tensor of zeros of shape `size`; float32 unless `dtype` is given."""
    return _fill_tensor(size, 0, float32 if dtype is None else dtype, of="zeros")


@public_op(primitive="Ones")
def ones(shape: Any, dtype: Any = None) -> Any:
    """A tensor of ones of shape `shape`; float32 unless `dtype` is given."""
    return _fill_tensor(shape, 1, float32 if dtype is None else dtype, of="ones")


@public_op(primitive=Primitive("FillV2", call_args=("size", "fill_value")))
def full(size: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """A tensor of shape `size`, filled with `fill_value`.

    Without `dtype`, an int gives int64, a float float32, a bool bool, and a tensor its own dtype.
    """
    if dtype is None and isinstance(fill_value, TensorLike):
        dtype = fill_value.dtype
    value = _number(fill_value, "fill_value", of="full")
    return _fill_tensor(size, value, _dtype_of(value) if dtype is None else dtype, of="full")


@public_op(primitive="Fill")
def fill(type: Any, shape: Any, value: Any) -> Any:
    """A tensor of shape `shape` and dtype `type`, filled with `value`."""
    return _fill_tensor(shape, _number(value, "value", of="fill"), type, of="fill")


def _like(x: Any, value: Any, dtype: Any, *, of: str) -> Any:
    x = as_tensor(x, of=of)
    kind = x.dtype if dtype is None else to_dtype(dtype)
    return create(creation.full, shape=tuple(x.shape), value=value, dtype=kind)


@public_op(primitive="ZerosLike")
def zeros_like(input: Any, *, dtype: Any = None) -> Any:
    """A tensor of zeros with the shape of `input`, and its dtype unless `dtype` is given."""
    return _like(input, 0, dtype, of="zeros_like")


@public_op(primitive="OnesLike")
def ones_like(input: Any, *, dtype: Any = None) -> Any:
    """A tensor of ones with the shape of `input`, and its dtype unless `dtype` is given."""
    return _like(input, 1, dtype, of="ones_like")


@public_op()
def full_like(input: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """A tensor with the shape of `input`, and its dtype unless `dtype` is given, filled with `fill_value`."""
    return _like(input, _number(fill_value, "fill_value", of="full_like"), dtype, of="full_like")


@public_op(method="fills", primitive="Fills")
def fills(x: Any, value: Any) -> Any:
    """A tensor with the shape and dtype of `x`, filled with `value`."""
    return _like(x, _number(value, "value", of="fills"), None, of="fills")


@tensor_method("fill")
def _fill(self: Any, value: Any) -> Any:
    """A tensor of the same shape and dtype, filled with `value`."""
    return fills(self, value)


@tensor_method("new_zeros")
def _new_zeros(self: Any, *size: Any, dtype: Any = None) -> Any:
    """A tensor of zeros of shape `size`, with the dtype of this tensor unless `dtype` is given."""
    return _fill_tensor(unpack_varargs(size), 0, self.dtype if dtype is None else dtype, of="new_zeros")


@tensor_method("new_ones")
def _new_ones(self: Any, *size: Any, dtype: Any = None) -> Any:
    """A tensor of ones of shape `size`, with the dtype of this tensor unless `dtype` is given."""
    return _fill_tensor(unpack_varargs(size), 1, self.dtype if dtype is None else dtype, of="new_ones")


@tensor_method("new_empty")
def _new_empty(self: Any, *size: Any, dtype: Any = None, device: Any = None) -> Any:
    """A tensor of shape `size` with arbitrary elements, and the dtype of this tensor unless `dtype` is given."""
    return _fill_tensor(unpack_varargs(size), 0, self.dtype if dtype is None else dtype, of="new_empty")


@tensor_method("new_full")
def _new_full(self: Any, size: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """A tensor of shape `size`, filled with `fill_value`, with the dtype of this tensor unless `dtype` is given."""
    return full(size, fill_value, dtype=self.dtype if dtype is None else dtype)


# ---- sequences ----


@public_op()
def arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """The numbers `start`, `start + step`, ..., without `end`; a single argument is `end`, and `start` is then 0.

    Unless `dtype` is given, it is int64 if all three numbers are ints, and float32 otherwise.

    Raises:
        ValueError: `step` is 0 or leads away from `end`.
    """
    if end is None:
        start, end = 0, start
    first, last, by = (_number(n, name, of="arange") for n, name in ((start, "start"), (end, "end"), (step, "step")))
    if by == 0 or (last - first) * by < 0:
        raise ValueError(f"For 'arange', 'step' must lead from 'start' to 'end', but got {first}, {last} and step {by}")
    kind = _dtype_of(first, last, by) if dtype is None else to_dtype(dtype)
    return create(creation.arange, start=first, stop=last, step=by, dtype=kind)


@public_op(primitive=Primitive("Range", init_args=("maxlen",)))
def range(start: Any, end: Any, step: Any = 1, maxlen: int = 1000000) -> Any:
    """Same as `arange`, but `ValueError` if there are more than `maxlen` numbers."""
    numbers = arange(start, end, step)
    if numbers.shape[0] > maxlen:
        raise ValueError(f"For 'range', there are {numbers.shape[0]} numbers, more than 'maxlen' {maxlen}")
    return numbers


@public_op(primitive="LinSpace")
def linspace(start: Any, end: Any, steps: Any) -> Any:
    """`steps` evenly spaced numbers from `start` to `end`, inclusive; float32, or the dtype of a tensor `start`.

    Raises:
        ValueError: `steps` isn't positive.
    """
    count = integer(steps, "steps", of="linspace")
    if count < 1:
        raise ValueError(f"For 'linspace', 'steps' must be positive, but got {count}")
    dtype = start.dtype if isinstance(start, TensorLike) and start.dtype.kind not in "iub" else float32
    first, last = _number(start, "start", of="linspace"), _number(end, "end", of="linspace")
    return from_array(np.linspace(first, last, count).astype(dtype))


@public_op(primitive=Primitive("LogSpace", init_args=("steps", "base"), defaults={"steps": 10}))
def logspace(start: Any, end: Any, steps: int, base: int = 10, *, dtype: Any = float32) -> Any:
    """`base` raised to the powers `linspace(start, end, steps)`."""
    first, last = _number(start, "start", of="logspace"), _number(end, "end", of="logspace")
    return from_array(
        np.logspace(first, last, integer(steps, "steps", of="logspace"), base=base).astype(to_dtype(dtype))
    )


@public_op(primitive="Eye")
def eye(n: int, m: int | None = None, dtype: Any = None) -> Any:
    """An (n, m) matrix with ones on the diagonal and zeros elsewhere; m defaults to n, the dtype to float32."""
    rows = integer(n, "n", of="eye")
    columns = rows if m is None else integer(m, "m", of="eye")
    if rows < 0 or columns < 0:
        raise ValueError(f"For 'eye', 'n' and 'm' must not be negative, but got {rows} and {columns}")
    full_matrix = ones((rows, columns), dtype)
    return shaping.triangle(shaping.triangle(full_matrix, upper=True), upper=False)


@public_op(primitive=Primitive("TrilIndices", init_args=("row", "col", "offset", "dtype"), defaults={"dtype": int32}))
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Any:
    """Indices of the lower triangle of a (row, col) matrix, up to its `offset`-th diagonal: (2, count)."""
    return from_array(np.stack(np.tril_indices(row, offset, col)).astype(to_dtype(dtype)))


@public_op(primitive=Primitive("TriuIndices", init_args=("row", "col", "offset", "dtype"), defaults={"dtype": int32}))
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Any:
    """Indices of the upper triangle of a (row, col) matrix, from its `offset`-th diagonal on: (2, count)."""
    return from_array(np.stack(np.triu_indices(row, offset, col)).astype(to_dtype(dtype)))


# ---- from Python numbers ----


@public_op(primitive="ScalarToTensor")
def scalar_to_tensor(input_x: Any, dtype: Any = float32) -> Any:
    """Convert a number to a 0-d tensor; `TypeError` for other values."""
    if not isinstance(input_x, (bool, int, float)):
        raise TypeError(f"For 'scalar_to_tensor', 'input_x' must be a number, but got {type(input_x).__name__}")
    return Tensor(input_x, dtype)


@public_op(primitive="ScalarCast")
def scalar_cast(input_x: Any, input_y: Any) -> Any:
    """Convert a Python number to the Python type for a dtype; a float is truncated to an int."""
    return dtype_to_pytype(input_y)(input_x)


@public_op(primitive="ScalarToArray")
def scalar_to_array(input_x: Any) -> Any:
    """Convert a number to a 0-d tensor: an int to int64, a float to float32."""
    return scalar_to_tensor(input_x, _dtype_of(input_x))


@public_op(primitive="TupleToArray")
def tuple_to_array(input_x: Any) -> Any:
    """Convert a tuple of numbers to a vector: int32, or float32 if there are floats."""
    if not isinstance(input_x, tuple):
        raise TypeError(f"For 'tuple_to_array', 'input_x' must be a tuple, but got {type(input_x).__name__}")
    return Tensor(list(input_x), float32 if _dtype_of(*input_x) == float32 else int32)


@public_op(method="clone")
def clone(input: Any) -> Any:
    """A copy of `input`; gradients flow to `input`."""
    x = as_tensor(input, of="clone")
    return elementwise.cast(x, dtype=x.dtype)
