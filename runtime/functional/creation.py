"""New tensors: constant, with sequences of numbers, from Python numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.dtype import bool_, dtype_to_pytype, float32, int32, int64, to_dtype
from ..common.tensor import Tensor, create, from_array
from ..errors import ShapeError
from ..ir.dims import SymbolicDim
from ..ops import creation, elementwise, shaping
from ..tensor_like import TensorLike
from .arguments import integer, integers, spread
from .operands import as_tensor
from .public_op import Primitive, public_op, tensor_method


def _number(value: Any, name: str, *, of: str) -> Any:
    """A Python number from one or from a tensor of one element."""
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


# ---- constant ----


@public_op(primitive="Zeros")
def zeros(size: Any, dtype: Any = None) -> Any:
    """Zeros of a shape; float32 unless `dtype` is given."""
    return _fill_tensor(size, 0, float32 if dtype is None else dtype, of="zeros")


@public_op(primitive="Ones")
def ones(shape: Any, dtype: Any = None) -> Any:
    """Ones of a shape; float32 unless `dtype` is given."""
    return _fill_tensor(shape, 1, float32 if dtype is None else dtype, of="ones")


@public_op(primitive=Primitive("FillV2", called_with=("size", "fill_value")))
def full(size: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """`fill_value` in a shape. Without `dtype`, ints give int64, floats float32, bools bool, tensors theirs."""
    if dtype is None and isinstance(fill_value, TensorLike):
        dtype = fill_value.dtype
    value = _number(fill_value, "fill_value", of="full")
    return _fill_tensor(size, value, _dtype_of(value) if dtype is None else dtype, of="full")


@public_op(primitive="Fill")
def fill(type: Any, shape: Any, value: Any) -> Any:
    """`value` in a shape, in the dtype `type`."""
    return _fill_tensor(shape, _number(value, "value", of="fill"), type, of="fill")


def _like(x: Any, value: Any, dtype: Any, *, of: str) -> Any:
    x = as_tensor(x, of=of)
    kind = x.dtype if dtype is None else to_dtype(dtype)
    return create(creation.full, shape=tuple(x.shape), value=value, dtype=kind)


@public_op(primitive="ZerosLike")
def zeros_like(input: Any, *, dtype: Any = None) -> Any:
    """Zeros of the shape of `input`, and of its dtype unless one is given."""
    return _like(input, 0, dtype, of="zeros_like")


@public_op(primitive="OnesLike")
def ones_like(input: Any, *, dtype: Any = None) -> Any:
    """Ones of the shape of `input`, and of its dtype unless one is given."""
    return _like(input, 1, dtype, of="ones_like")


@public_op()
def full_like(input: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """`fill_value` in the shape of `input`, and in its dtype unless one is given."""
    return _like(input, _number(fill_value, "fill_value", of="full_like"), dtype, of="full_like")


@public_op(method="fills", primitive="Fills")
def fills(x: Any, value: Any) -> Any:
    """`value` in the shape and dtype of `x`."""
    return _like(x, _number(value, "value", of="fills"), None, of="fills")


@tensor_method("fill")
def _fill(self: Any, value: Any) -> Any:
    """`value` in the shape and dtype of the tensor."""
    return fills(self, value)


@tensor_method("new_zeros")
def _new_zeros(self: Any, *size: Any, dtype: Any = None) -> Any:
    """Zeros of a shape, in the dtype of the tensor unless one is given."""
    return _fill_tensor(spread(size), 0, self.dtype if dtype is None else dtype, of="new_zeros")


@tensor_method("new_ones")
def _new_ones(self: Any, *size: Any, dtype: Any = None) -> Any:
    """Ones of a shape, in the dtype of the tensor unless one is given."""
    return _fill_tensor(spread(size), 1, self.dtype if dtype is None else dtype, of="new_ones")


@tensor_method("new_empty")
def _new_empty(self: Any, *size: Any, dtype: Any = None, device: Any = None) -> Any:
    """An uninitialized tensor of a shape, in the dtype of the tensor unless one is given."""
    return _fill_tensor(spread(size), 0, self.dtype if dtype is None else dtype, of="new_empty")


@tensor_method("new_full")
def _new_full(self: Any, size: Any, fill_value: Any, *, dtype: Any = None) -> Any:
    """`fill_value` in a shape, in the dtype of the tensor unless one is given."""
    return full(size, fill_value, dtype=self.dtype if dtype is None else dtype)


# ---- sequences ----


@public_op()
def arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Any:
    """`start`, `start + step`, ... up to before `end`; from 0 if only one number is given.

    int64 if all three are ints, float32 otherwise, unless `dtype` is given.

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


@public_op(primitive=Primitive("Range", made_with=("maxlen",)))
def range(start: Any, end: Any, step: Any = 1, maxlen: int = 1000000) -> Any:
    """`arange`; `ValueError` if there are more than `maxlen` numbers."""
    numbers = arange(start, end, step)
    if numbers.shape[0] > maxlen:
        raise ValueError(f"For 'range', there are {numbers.shape[0]} numbers, more than 'maxlen' {maxlen}")
    return numbers


@public_op(primitive="LinSpace")
def linspace(start: Any, end: Any, steps: Any) -> Any:
    """`steps` numbers at even distances from `start` to `end`, both included; float32 or the dtype of a tensor `start`.

    Raises:
        ValueError: `steps` isn't positive.
    """
    count = integer(steps, "steps", of="linspace")
    if count < 1:
        raise ValueError(f"For 'linspace', 'steps' must be positive, but got {count}")
    dtype = start.dtype if isinstance(start, TensorLike) and start.dtype.kind not in "iub" else float32
    first, last = _number(start, "start", of="linspace"), _number(end, "end", of="linspace")
    return from_array(np.linspace(first, last, count).astype(dtype))


@public_op(primitive=Primitive("LogSpace", made_with=("steps", "base"), defaults={"steps": 10}))
def logspace(start: Any, end: Any, steps: int, base: int = 10, *, dtype: Any = float32) -> Any:
    """`base` to the powers of `linspace(start, end, steps)`."""
    first, last = _number(start, "start", of="logspace"), _number(end, "end", of="logspace")
    return from_array(
        np.logspace(first, last, integer(steps, "steps", of="logspace"), base=base).astype(to_dtype(dtype))
    )


@public_op(primitive="Eye")
def eye(n: int, m: int | None = None, dtype: Any = None) -> Any:
    """Ones on the diagonal of zeros (n, m); m defaults to n, the dtype to float32."""
    rows = integer(n, "n", of="eye")
    columns = rows if m is None else integer(m, "m", of="eye")
    if rows < 0 or columns < 0:
        raise ValueError(f"For 'eye', 'n' and 'm' must not be negative, but got {rows} and {columns}")
    full_matrix = ones((rows, columns), dtype)
    return shaping.triangle(shaping.triangle(full_matrix, upper=True), upper=False)


@public_op(primitive=Primitive("TrilIndices", made_with=("row", "col", "offset", "dtype"), defaults={"dtype": int32}))
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Any:
    """Coordinates of the elements of a (row, col) matrix up to its `offset`-th diagonal: (2, count)."""
    return from_array(np.stack(np.tril_indices(row, offset, col)).astype(to_dtype(dtype)))


@public_op(primitive=Primitive("TriuIndices", made_with=("row", "col", "offset", "dtype"), defaults={"dtype": int32}))
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = int64) -> Any:
    """Coordinates of the elements of a (row, col) matrix from its `offset`-th diagonal on: (2, count)."""
    return from_array(np.stack(np.triu_indices(row, offset, col)).astype(to_dtype(dtype)))


# ---- from Python numbers ----


@public_op(primitive="ScalarToTensor")
def scalar_to_tensor(input_x: Any, dtype: Any = float32) -> Any:
    """A number as a 0-d tensor; `TypeError` for anything but a number."""
    if not isinstance(input_x, (bool, int, float)):
        raise TypeError(f"For 'scalar_to_tensor', 'input_x' must be a number, but got {type(input_x).__name__}")
    return Tensor(input_x, dtype)


@public_op(primitive="ScalarCast")
def scalar_cast(input_x: Any, input_y: Any) -> Any:
    """A Python number as the Python number of a dtype: a float cut to an int, for instance."""
    return dtype_to_pytype(input_y)(input_x)


@public_op(primitive="ScalarToArray")
def scalar_to_array(input_x: Any) -> Any:
    """A number as a 0-d tensor: an int as int64, a float as float32."""
    return scalar_to_tensor(input_x, _dtype_of(input_x))


@public_op(primitive="TupleToArray")
def tuple_to_array(input_x: Any) -> Any:
    """A tuple of numbers as a vector: int32, or float32 if there are floats."""
    if not isinstance(input_x, tuple):
        raise TypeError(f"For 'tuple_to_array', 'input_x' must be a tuple, but got {type(input_x).__name__}")
    return Tensor(list(input_x), float32 if _dtype_of(*input_x) == float32 else int32)


@public_op(method="clone")
def clone(input: Any) -> Any:
    """The same elements in a new tensor; gradients flow to `input`."""
    x = as_tensor(input, of="clone")
    return elementwise.cast(x, dtype=x.dtype)
