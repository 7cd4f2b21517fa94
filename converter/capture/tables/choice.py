"""ATen operators that select elements: bounds, conditions, masks."""

from __future__ import annotations

from typing import Any

import torch

from ....runtime.ir.dims import SymbolicDim
from ....runtime.ir.types import BOOL, is_floating
from ....runtime.ops import comparison, elementwise
from ....runtime.tracing import SymbolicTensor
from ...dtypes import torch_dtype
from ...rows import Row
from ...torch_version import has_change
from .table import Context, aten, cast, operands, pass_on


def _clamp_numbers(context: Context, self: SymbolicTensor, low: Any, high: Any) -> Any:
    x = cast(self, context.dtype)
    if isinstance(low, SymbolicDim) or isinstance(high, SymbolicDim):
        return _clamp_by_tensors(context, x, low, high)
    return clamp_numbers(x, low, high)


@aten("aten.clamp.Tensor", "aten.clip.Tensor")
def clamp_tensor(context: Context, self: SymbolicTensor, min: Any = None, max: Any = None) -> Any:
    """clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"""
    return _clamp_by_tensors(context, cast(self, context.dtype), min, max)


@aten("aten.clamp_min.Tensor")
def clamp_min_tensor(context: Context, self: SymbolicTensor, min: Any) -> Any:
    """clamp_min.Tensor(Tensor self, Tensor min) -> Tensor"""
    return _clamp_by_tensors(context, cast(self, context.dtype), min, None)


@aten("aten.clamp_max.Tensor")
def clamp_max_tensor(context: Context, self: SymbolicTensor, max: Any) -> Any:
    """clamp_max.Tensor(Tensor self, Tensor max) -> Tensor"""
    return _clamp_by_tensors(context, cast(self, context.dtype), None, max)


def clamp_numbers(x: Any, low: float | None, high: float | None) -> Any:
    """`x` clamped between two numbers, with the gradient of the installed torch: 0 at a bound since 2.14."""
    return elementwise.clamp(x, minimum=low, maximum=high, inclusive=not has_change("gradient at bounds"))


def _clamp_by_tensors(context: Context, x: Any, low: Any, high: Any) -> Any:
    """Clamp with tensors as bounds: at a bound, `x` gets the whole gradient, or half of it since torch 2.14."""
    low, high = (bound if bound is None else operands(context, x.dtype, bound)[0] for bound in (low, high))
    if not has_change("gradient at bounds"):
        return _clamp_by_where(x, low, high)
    if high is None:
        return elementwise.maximum(x, low)
    if low is None:
        return elementwise.minimum(x, high)
    # only if the lower bound is below the upper one: ATen clamp_backward
    shared = elementwise.minimum(elementwise.maximum(x, low), high)
    return elementwise.where(comparison.less(low, high), shared, _clamp_by_where(x, low, high))


def _clamp_by_where(x: Any, low: Any, high: Any) -> Any:
    if low is not None:
        x = elementwise.where(comparison.less(x, low), low, x)
    if high is not None:
        x = elementwise.where(comparison.greater(x, high), high, x)
    return x


@aten("aten.where.self", "aten.where.ScalarOther", "aten.where.ScalarSelf", "aten.where.Scalar")
def where(context: Context, condition: SymbolicTensor, self: Any, other: Any) -> Any:
    """where.self(Tensor condition, Tensor self, Tensor other) -> Tensor"""
    a, b = operands(context, context.dtype, self, other)
    return elementwise.where(cast(condition, BOOL), a, b)


@aten("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(context: Context, self: SymbolicTensor, mask: SymbolicTensor, value: Any) -> Any:
    """masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor"""
    x, value = operands(context, context.dtype, self, value)
    return elementwise.where(mask, value, x)


@aten("aten.nan_to_num.default")
def nan_to_num(
    context: Context,
    self: SymbolicTensor,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor"""
    if not is_floating(self.dtype):
        return self
    limits = torch.finfo(torch_dtype(self.dtype))
    for condition, value, default in (
        (comparison.isnan(self), nan, 0.0),
        (comparison.equal(self, float("inf")), posinf, limits.max),
        (comparison.equal(self, float("-inf")), neginf, limits.min),
    ):
        (replacement,) = operands(context, self.dtype, default if value is None else value)
        self = elementwise.where(condition, replacement, self)
    return self


ROWS: dict[str, Row] = {
    "aten.clamp.default": (_clamp_numbers, "context, self, min, max"),
    "aten.clip.default": (_clamp_numbers, "context, self, min, max"),
    "aten.clamp_min.default": (_clamp_numbers, "context, self, min, None"),
    "aten.clamp_max.default": (_clamp_numbers, "context, self, None, max"),
}
pass_on(ROWS)
