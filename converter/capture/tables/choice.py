"""ATen operators that choose between elements: bounds, conditions, masks."""

from __future__ import annotations

from typing import Any

import torch

from ....runtime.ir.dims import SymbolicDim
from ....runtime.ir.types import BOOL, is_floating
from ....runtime.ops import comparison, elementwise
from ....runtime.tracing import Traced
from ...dtypes import torch_dtype
from .table import Context, aten, cast, operands


@aten("aten.clamp.default", "aten.clip.default")
def clamp(context: Context, self: Traced, min: Any = None, max: Any = None) -> Any:
    """clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor"""
    return _clamped(context, self, min, max)


@aten("aten.clamp_min.default")
def clamp_min(context: Context, self: Traced, min: Any) -> Any:
    """clamp_min(Tensor self, Scalar min) -> Tensor"""
    return _clamped(context, self, min, None)


@aten("aten.clamp_max.default")
def clamp_max(context: Context, self: Traced, max: Any) -> Any:
    """clamp_max(Tensor self, Scalar max) -> Tensor"""
    return _clamped(context, self, None, max)


def _clamped(context: Context, self: Traced, low: Any, high: Any) -> Any:
    x = cast(self, context.dtype)
    if isinstance(low, SymbolicDim) or isinstance(high, SymbolicDim):
        return _between(context, x, low, high)
    return elementwise.clamp(x, minimum=low, maximum=high)


@aten("aten.clamp.Tensor", "aten.clip.Tensor")
def clamp_tensor(context: Context, self: Traced, min: Any = None, max: Any = None) -> Any:
    """clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    return _between(context, cast(self, context.dtype), min, max)


@aten("aten.clamp_min.Tensor")
def clamp_min_tensor(context: Context, self: Traced, min: Any) -> Any:
    """clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"""
    return _between(context, cast(self, context.dtype), min, None)


@aten("aten.clamp_max.Tensor")
def clamp_max_tensor(context: Context, self: Traced, max: Any) -> Any:
    """clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"""
    return _between(context, cast(self, context.dtype), None, max)


def _between(context: Context, x: Any, low: Any, high: Any) -> Any:
    """Bounds that are tensors. Unlike `maximum`, a tie gives the whole gradient to `x`."""
    if low is not None:
        (low,) = operands(context, x.dtype, low)
        x = elementwise.where(comparison.less(x, low), low, x)
    if high is not None:
        (high,) = operands(context, x.dtype, high)
        x = elementwise.where(comparison.greater(x, high), high, x)
    return x


@aten("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(context: Context, condition: Traced, self: Any, other: Any) -> Any:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    a, b = operands(context, context.dtype, self, other)
    return elementwise.where(cast(condition, BOOL), a, b)


@aten("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(context: Context, self: Traced, mask: Traced, value: Any) -> Any:
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    x, value = operands(context, context.dtype, self, value)
    return elementwise.where(mask, value, x)


@aten("aten.nan_to_num.default")
def nan_to_num(
    context: Context, self: Traced, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not is_floating(self.dtype):
        return self
    limits = torch.finfo(torch_dtype(self.dtype))
    for found, value, default in (
        (comparison.isnan(self), nan, 0.0),
        (comparison.equal(self, float("inf")), posinf, limits.max),
        (comparison.equal(self, float("-inf")), neginf, limits.min),
    ):
        (replacement,) = operands(context, self.dtype, default if value is None else value)
        self = elementwise.where(found, replacement, self)
    return self
