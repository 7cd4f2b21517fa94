"""Ops without operands: `full` and `arange`. `Builder.create` adds them to a program under construction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.dims import Dim, SymbolicDim
from ..tracing import SymbolicTensor
from ..traits import Traits
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

Number = bool | int | float | SymbolicDim


@operator
def full(*, shape: tuple[Dim, ...], value: Number, dtype: np.dtype[Any]) -> Tensor:
    """A tensor of `shape` filled with `value` (a number or a symbolic size): ATen `full`, ONNX Expand-13."""


full.traits = Traits(exact=True, bfloat16_kernel=False)


@full.infer
def _(*, shape: tuple[Dim, ...], value: Number, dtype: np.dtype[Any]) -> Type:
    return Type(dtype, tuple(shape))


@full.native_kernel
def _(*, shape: tuple[int, ...], value: bool | int | float, dtype: np.dtype[Any]) -> Array:
    return np.broadcast_to(np.asarray(value).astype(dtype), shape)


full.no_vjp("it has no operands")


@full.onnx
def _(graph: OnnxGraph, *, shape: tuple[Dim, ...], value: Number, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, SymbolicDim):
        scalar = graph.op("Squeeze", graph.cast(graph.dims((value,)), dtype))
    else:
        scalar = graph.constant(value, dtype)
    return graph.op("Expand", scalar, graph.dims(shape)) if shape else scalar


@operator
def arange(*, start: Number = 0, stop: Number, step: int | float = 1, dtype: np.dtype[Any]) -> Tensor:
    """`start`, `start + step`, ... up to `stop`, exclusive: ATen `arange`, ONNX Range-11.

    It is computed in float64 (integers in int64) and rounded once. With symbolic bounds, bounds and step are integers,
    the step is positive and `stop` is at least `start`.
    """


arange.traits = Traits(exact=True)


@arange.infer
def _(*, start: Number, stop: Number, step: int | float, dtype: np.dtype[Any]) -> Type:
    return Type(dtype, (_length(start, stop, step),))


@arange.native_kernel
def _(*, start: int | float, stop: int | float, step: int | float, dtype: np.dtype[Any]) -> Array:
    length = _length(start, stop, step)
    assert isinstance(length, int)
    return (start + np.arange(length) * step).astype(dtype)


arange.no_vjp("it has no operands")


@arange.onnx
def _(graph: OnnxGraph, *, start: Number, stop: Number, step: int | float, dtype: np.dtype[Any]) -> Any:
    if isinstance(start, SymbolicDim) or isinstance(stop, SymbolicDim):
        assert not isinstance(start, float), "infer rejects float bounds beside symbolic ones"
        assert not isinstance(stop, float), "infer rejects float bounds beside symbolic ones"
        bounds = [graph.op("Squeeze", graph.dims((bound,))) for bound in (start, stop)]
        return graph.cast(graph.op("Range", *bounds, graph.constant(step, np.int64)), dtype)
    return graph.constant(arange(start=start, stop=stop, step=step, dtype=dtype), dtype)


def full_like(x: Tensor, value: Number, shape: tuple[Dim, ...] | None = None) -> Any:
    """Return a tensor of the dtype and shape of `x` (or of `shape`) filled with `value`, symbolic if `x` is."""
    attributes = {"shape": tuple(x.shape) if shape is None else shape, "value": value, "dtype": x.dtype}
    return x.builder.create(full, **attributes) if isinstance(x, SymbolicTensor) else full(**attributes)


def _length(start: Number, stop: Number, step: int | float) -> Dim:
    require(step != 0, "needed a step other than 0")
    if isinstance(start, SymbolicDim) or isinstance(stop, SymbolicDim):
        if isinstance(start, float) or isinstance(stop, float) or isinstance(step, float) or step < 0:
            raise ShapeError(
                f"with symbolic bounds, needed integers and a positive step, given {start}, {stop}, {step}"
            )
        return (stop - start + (step - 1)) // step
    if isinstance(start, int) and isinstance(stop, int) and isinstance(step, int):
        return max(0, -((start - stop) // step))
    return max(0, math.ceil((stop - start) / step))
