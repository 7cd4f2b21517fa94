"""Losses that aren't composed of other ops, because their gradient isn't what the composition would give."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import elementwise, float64_forms
from .common import in_float32
from .declaring import floating
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

LEAST_VARIANCE = float(np.float32(1e-12))  # ATen holds it in float32, whatever the dtype


@operator
def binary_cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """`-(target * log(x) + (1 - target) * log(1 - x))`, elementwise, with logarithms held above -100.

    Its gradient stays finite where `x` is 0 or 1: it is `(x - target) / max(x * (1 - x), LEAST_VARIANCE)`.
    ATen binary_cross_entropy without weight and reduction.

    Args:
        x: probabilities, floating-point.
        target: probabilities, shaped as `x`.
    """


@binary_cross_entropy.infer
def _(x: Type, target: Type) -> Type:
    require(x == target, f"needed probabilities and targets of one dtype and shape, given {x} and {target}")
    return floating(x)


@binary_cross_entropy.kernel
def _(x: Array, target: Array) -> Array:
    loss: Array = (target - 1) * np.maximum(np.log1p(-x), -100) - target * np.maximum(np.log(x), -100)
    return loss


@binary_cross_entropy.vjp
@in_float32
def _(g: Tensor, y: Tensor, x: Tensor, target: Tensor) -> tuple[Any, Any]:
    slope = (x - target) / elementwise.clamp(x * (1.0 - x), minimum=LEAST_VARIANCE)
    return g * slope, g * (elementwise.log1p(-x) - elementwise.log(x))


@binary_cross_entropy.onnx
def _(graph: OnnxGraph, x: str, target: str) -> str:
    w = Writer(graph, graph.type(x).dtype)
    other = w("Max", float64_forms.log1p(w, w("Neg", x)), -100.0)
    same = w("Max", w("Log", x), -100.0)
    return w("Sub", w("Mul", w("Sub", target, 1.0), other), w("Mul", target, same))
