"""Ops for losses: binary cross-entropy, whose gradient no composition of ops has, and a check of class indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..traits import Traits
from . import elementwise, float64_forms
from .common import in_float32
from .declarations import infer_floating
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Tensor, Type, operator, require

LEAST_VARIANCE = float(np.float32(1e-12))  # a float32 in ATen, whatever the dtype


@operator
def binary_cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """`-(target * log(x) + (1 - target) * log(1 - x))`, elementwise, with logarithms clipped at -100.

    Its gradient stays finite where `x` is 0 or 1: it is `(x - target) / max(x * (1 - x), LEAST_VARIANCE)`.
    ATen binary_cross_entropy without weight and reduction.

    Args:
        x: probabilities, floating-point.
        target: probabilities, of the shape of `x`.
    """


binary_cross_entropy.traits = Traits(elementwise=True, mixed_precision="float32")


@binary_cross_entropy.infer
def _(x: Type, target: Type) -> Type:
    require(x == target, f"needed probabilities and targets of one dtype and shape, given {x} and {target}")
    return infer_floating(x)


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
    log_complement = w("Max", float64_forms.log1p(w, w("Neg", x)), -100.0)
    log_x = w("Max", w("Log", x), -100.0)
    return w("Sub", w("Mul", w("Sub", target, 1.0), log_complement), w("Mul", target, log_x))


@operator
def class_index(target: Tensor, *, classes: int, ignore_index: int | None = None) -> Tensor:
    """`target` as valid indices: 0 instead of `ignore_index`, and an error for any other index that isn't a class.

    Args:
        target: int32 or int64, any shape.
        classes: number of classes.
        ignore_index: the index that means "no class".

    Raises:
        ValueError: an element is neither a class nor `ignore_index`. (In an ONNX model the lookup fails instead.)
    """


class_index.traits = Traits(elementwise=True)


@class_index.infer
def _(target: Type, *, classes: int, ignore_index: int | None) -> Type:
    require(np.issubdtype(target.dtype, np.integer), f"needed integer class indices, given {target}")
    return target


@class_index.kernel
def _(target: Array, *, classes: int, ignore_index: int | None) -> Array:
    ignored = np.zeros_like(target, bool) if ignore_index is None else target == ignore_index
    wrong = ((target < 0) | (target >= classes)) & ~ignored
    if wrong.any():
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        also = "" if ignore_index is None else f", or ignore_index {ignore_index},"
        raise ValueError(f"a class index must be in [0, {classes}){also} but got {target[index]} at position {index}")
    return np.where(ignored, 0, target) if ignored.any() else target


@class_index.vjp
def _(g: Tensor, y: Tensor, target: Tensor, *, classes: int, ignore_index: int | None) -> None:
    return None


@class_index.onnx
def _(graph: OnnxGraph, target: str, *, classes: int, ignore_index: int | None) -> str:
    dtype = graph.type(target).dtype
    zero = graph.constant(0, dtype)
    beyond = graph.cast(graph.op("Squeeze", graph.dims((classes,))), dtype)
    indices = graph.op("Where", graph.op("Less", target, zero), beyond, target)  # -1 would select the last class
    if ignore_index is not None:
        indices = graph.op("Where", graph.op("Equal", target, graph.constant(ignore_index, dtype)), zero, indices)
    return str(indices)
