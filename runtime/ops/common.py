"""Helpers that several op families share: broadcasting, axes, and the gradient of broadcasting."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..ir.dims import Dim
from ..ir.types import FLOAT32, is_half
from ..tensor_like import Tensor
from .registry import Rule, Type, get, require  # ops are looked up by name, since their modules import this one

LAST = np.iinfo(np.int64).max
"""The end of an ONNX Slice that goes to the end of the axis."""


def broadcast_shapes(*shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Return the shape to which `shapes` broadcast by NumPy's rules; `ShapeError` if they don't."""
    if len(set(shapes)) == 1:
        return shapes[0]
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = {shape[axis] for shape in shapes if -axis <= len(shape)} - {1}
        if len(sizes) > 1:
            listed = ", ".join(map(str, shapes))
            raise ShapeError(f"shapes {listed} don't broadcast: sizes {sizes} along axis {axis}")
        result.append(sizes.pop() if sizes else 1)
    return tuple(result)


def require_same_dtype(*types: Type) -> None:
    """Raise `ShapeError` unless all operands have the same dtype (casts are separate nodes)."""
    if any(t.dtype != types[0].dtype for t in types):
        listed = ", ".join(t.dtype.name for t in types)
        raise ShapeError(f"needed operands of one dtype, given {listed}; cast first")


def normalize_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front; `ShapeError` if out of range. Rank 0 accepts 0 and -1, as in torch."""
    limit = max(rank, 1)
    require(-limit <= axis < limit, f"axis {axis} is out of range for {rank} dimensions")
    return axis % limit


def normalize_axes(axes: Iterable[int] | None, rank: int) -> tuple[int, ...]:
    """Return the axes counted from the front and sorted; all axes for None."""
    if axes is None:
        return tuple(range(rank))
    normalized = sorted(normalize_axis(axis, rank) for axis in axes) if rank else []
    require(len(set(normalized)) == len(normalized), f"axes {tuple(axes)} name one dimension twice")
    return tuple(normalized)


def unbroadcast(g: Tensor, like: Any) -> Tensor:
    """Sum `g` over the axes along which `like` was broadcast, to the shape of `like`."""
    target: tuple[Dim, ...] = tuple(like.shape)
    if tuple(g.shape) == target:
        return g
    lead = len(g.shape) - len(target)
    axes = tuple(range(lead)) + tuple(lead + i for i, size in enumerate(target) if size == 1 and g.shape[lead + i] != 1)
    summed = get("reduce_sum")(g, axes=axes, keepdims=True) if axes else g
    return get("reshape")(summed, shape=target) if lead else summed


def add_cotangents(a: Any, b: Any) -> Any:
    """Return the sum of two cotangents; None stands for zero."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def in_float32(rule: Rule) -> Rule:
    """Make a `vjp` rule of many steps compute in float32 for half-precision operands and round once at the end."""

    @functools.wraps(rule)
    def wrapper(g: Any, y: Any, *inputs: Tensor | None, **attributes: Any) -> Any:
        if not any(x is not None and is_half(x.dtype) for x in inputs):
            return rule(g, y, *inputs, **attributes)
        gradients = rule(_to_float32(g), _to_float32(y), *(_to_float32(x) for x in inputs), **attributes)
        if not isinstance(gradients, tuple):
            return _cast_like(gradients, inputs[0])
        return tuple(_cast_like(gradient, x) for gradient, x in zip(gradients, inputs, strict=True))

    return wrapper


def _cast_like(gradient: Any, x: Any) -> Any:
    """Cast a cotangent, or the result of a function that returns one, to the dtype of `x`."""
    if gradient is None or x is None:
        return gradient
    if callable(gradient):
        return lambda: get("cast")(gradient(), dtype=x.dtype)
    return get("cast")(gradient, dtype=x.dtype)


def _to_float32(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(_to_float32(item) for item in x)
    return get("cast")(x, dtype=FLOAT32) if x is not None and is_half(x.dtype) else x
