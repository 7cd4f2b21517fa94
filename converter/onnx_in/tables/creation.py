"""ONNX operators that create tensors: constants, ranges, diagonals, windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ....runtime.errors import ConversionError, ShapeError
from ....runtime.ir.dims import SymbolicDim
from ....runtime.ir.types import FLOAT32, INT64, Type, is_half
from ....runtime.ops import comparison, creation, elementwise, shaping
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from ..model import protos
from ..model.values import KnownTensor, known_tensor
from .context import Context
from .shaping import length_of, unknown_shape
from .table import cast, onnx


@onnx("Constant")
def constant(
    context: Context, *, value: Any = None, sparse_value: Any = None, value_float: float | None = None,
    value_floats: Any = None, value_int: int | None = None, value_ints: Any = None, value_string: Any = None,
    value_strings: Any = None,
) -> Any:  # fmt: skip
    """Constant-1..25() -> output"""
    where = f"Constant {context.outputs[0]!r}"
    if value is not None:
        return known_tensor(protos.array_of(value, context.folder, where))
    if sparse_value is not None:
        return known_tensor(protos.to_dense(sparse_value, context.folder, where))
    if value_string is not None or value_strings is not None:
        raise Unsupported("strings")
    for number, dtype in ((value_float, FLOAT32), (value_floats, FLOAT32), (value_int, INT64), (value_ints, INT64)):
        if number is not None:
            return known_tensor(np.asarray(number, dtype))
    raise ConversionError(f"{where} has no value")


@onnx("ConstantOfShape", values=("input",))
def constant_of_shape(context: Context, input: Any, *, value: Any = None) -> Any:
    """ConstantOfShape-9..25(input) -> output"""
    filled = np.zeros(1, np.float32) if value is None else protos.array_of(value, context.folder, "ConstantOfShape")
    if filled.size != 1:
        raise ShapeError(f"needed a value of one element, given {filled.size}")
    item, dtype = filled.reshape(-1)[0].item(), filled.dtype
    if isinstance(input, KnownTensor):
        return context.full(input.contents(), item, dtype)
    declared = context.declared()[0]
    types = () if declared else unknown_shape(context, filled, length_of(input))
    return context.runtime_shaped("ConstantOfShape", input, types=types, value=item, dtype=dtype)


@onnx("Range", values=("start", "limit", "delta"))
def range_(context: Context, start: Any, limit: Any, delta: Any, *, stash_type: int = 1) -> Any:
    """Range-11..27(start, limit, delta) -> output; half precision is computed in float32"""
    bounds = (start, limit, delta)
    dtype = start.dtype
    if is_half(dtype) and stash_type != TensorProto.FLOAT:
        raise Unsupported(f"stash_type {stash_type}")
    if all(isinstance(x, KnownTensor) for x in bounds):
        first, stop, step = (x.data.reshape(-1)[0] for x in bounds)
        first, stop, step = (x.item() if isinstance(x, np.generic) else x for x in (first, stop, step))
        if step == 0:
            raise ShapeError("needed a delta other than 0")
        if not isinstance(step, SymbolicDim):
            return context.builder.create(creation.arange, start=first, stop=stop, step=step, dtype=dtype)
    declared = context.declared()[0]
    types = () if declared else (Type(dtype, (context.new_symbol(),)),)
    return context.runtime_shaped("Range", start, limit, delta, types=types, dtype=dtype)


@onnx("EyeLike", values=("input",))
def eye_like(context: Context, input: Any, *, dtype: int | None = None, k: int = 0) -> Any:
    """EyeLike-9..22(input) -> output"""
    if len(input.shape) != 2:
        raise ShapeError(f"needed a matrix, given {input.shape}")
    kind = input.dtype if dtype is None else protos.dtype_of(dtype, "EyeLike")
    rows = context.builder.create(creation.arange, stop=input.shape[0], dtype=INT64)
    columns = context.builder.create(creation.arange, stop=input.shape[1], dtype=INT64)
    diagonal = elementwise.add(shaping.reshape(rows, shape=(input.shape[0], 1)), k)
    return cast(comparison.equal(diagonal, columns), kind)


@onnx("OneHot", values=("depth",))
def one_hot(context: Context, indices: SymbolicTensor, depth: Any, values: SymbolicTensor, *, axis: int = -1) -> Any:
    """OneHot-9..28(indices, depth, values) -> output"""
    types = () if context.declared()[0] else unknown_shape(context, values, indices.ndim + 1)
    return context.runtime_shaped("OneHot", indices, depth, values, types=types, axis=axis)


# ---- windows ----


def _register_window(name: str) -> None:
    def window(context: Context, size: Any, *, output_datatype: int = 1, periodic: int = 1) -> Any:
        dtype = protos.dtype_of(output_datatype, name)
        types = (Type(dtype, (context.new_symbol(),)),)
        return context.runtime_shaped(name, size, types=types, dtype=dtype, periodic=periodic)

    window.__doc__ = f"{name}-17(size) -> output"
    onnx(name, values=("size",))(window)


_register_window("HannWindow")
_register_window("HammingWindow")
_register_window("BlackmanWindow")


@onnx(
    "MelWeightMatrix",
    values=("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz"),
)
def mel_weight_matrix(
    context: Context, num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any,
    upper_edge_hertz: Any, *, output_datatype: int = 1,
) -> Any:  # fmt: skip
    """MelWeightMatrix-17(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz) -> output"""
    dtype = protos.dtype_of(output_datatype, "MelWeightMatrix")
    operands = (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    types = (Type(dtype, (context.new_symbol(), context.new_symbol())),)
    return context.runtime_shaped("MelWeightMatrix", *operands, types=types, dtype=dtype)
