"""ATen fake quantization: rounding to the steps of a quantizer, with the gradient of the clamp only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import Dim
from ....runtime.ops import comparison, elementwise, rounding, shaping
from ....runtime.ops.boundary import stop_gradient
from ....runtime.ops.higher_order.own_gradient import own_gradient
from ....runtime.programs.subprograms import trace_subprogram
from ....runtime.tracing import SymbolicTensor
from .table import Context, aten, cast


@aten("aten.fake_quantize_per_tensor_affine.default")
def per_tensor(
    context: Context, self: SymbolicTensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> Any:
    """fake_quantize_per_tensor_affine(Tensor self, float scale, int zero_point, int quant_min, int quant_max) -> Tensor

    ATen keeps the scale and its inverse in float32, whatever the dtype of the tensor.
    """
    inverse = float(np.float32(1) / np.float32(scale))
    return _quantize(self, float(np.float32(scale)), inverse, zero_point, quant_min, quant_max)


@aten("aten.fake_quantize_per_tensor_affine.tensor_qparams")
def per_tensor_of_tensors(
    context: Context,
    self: SymbolicTensor,
    scale: SymbolicTensor,
    zero_point: SymbolicTensor,
    quant_min: int,
    quant_max: int,
) -> Any:
    """fake_quantize_per_tensor_affine.tensor_qparams(Tensor self, Tensor scale, Tensor zero_point, int quant_min,
    int quant_max) -> Tensor
    """
    step, zero = (shaping.reshape(cast(x, self.dtype), shape=()) for x in (scale, zero_point))
    return _quantize(self, step, elementwise.reciprocal(step), zero, quant_min, quant_max)


@aten("aten.fake_quantize_per_channel_affine.default")
def per_channel(
    context: Context,
    self: SymbolicTensor,
    scale: SymbolicTensor,
    zero_point: SymbolicTensor,
    axis: int,
    quant_min: int,
    quant_max: int,
) -> Any:
    """fake_quantize_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis, int quant_min,
    int quant_max) -> Tensor
    """
    shape: list[Dim] = [1] * self.ndim
    shape[axis] = self.shape[axis]
    step, zero = (shaping.reshape(cast(x, self.dtype), shape=tuple(shape)) for x in (scale, zero_point))
    return _quantize(self, step, elementwise.reciprocal(step), zero, quant_min, quant_max)


@aten("aten._fake_quantize_learnable_per_tensor_affine.default")
def learnable_per_tensor(
    context: Context, self: SymbolicTensor, scale: SymbolicTensor, zero_point: SymbolicTensor, quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> Any:  # fmt: skip
    """_fake_quantize_learnable_per_tensor_affine(Tensor self, Tensor scale, Tensor zero_point, int quant_min,
    int quant_max, float grad_factor=1.) -> Tensor
    """
    step, zero = (shaping.reshape(cast(x, self.dtype), shape=()) for x in (scale, zero_point))
    return _learnable(self, step, zero, quant_min, quant_max, grad_factor)


@aten("aten._fake_quantize_learnable_per_channel_affine.default")
def learnable_per_channel(
    context: Context, self: SymbolicTensor, scale: SymbolicTensor, zero_point: SymbolicTensor, axis: int,
    quant_min: int, quant_max: int,
    grad_factor: float = 1.0,
) -> Any:  # fmt: skip
    """_fake_quantize_learnable_per_channel_affine(Tensor self, Tensor scale, Tensor zero_point, int axis,
    int quant_min, int quant_max, float grad_factor=1.) -> Tensor
    """
    shape: list[Dim] = [1] * self.ndim
    shape[axis] = self.shape[axis]
    step, zero = (shaping.reshape(cast(x, self.dtype), shape=tuple(shape)) for x in (scale, zero_point))
    return _learnable(self, step, zero, quant_min, quant_max, grad_factor)


def _learnable(x: Any, scale: Any, zero_point: Any, least: int, most: int, factor: float) -> Any:
    """Fake quantization with learned step sizes.

    Within the range, the gradient of `x` is 1, and that of the scale is (rounded - x) / scale. Outside, the gradient of
    `x` is 0, that of the scale is the clamped code minus the zero point, and that of the zero point is -scale. The
    gradients of the scale and the zero point are multiplied by `factor`.
    """
    zero = stop_gradient(
        rounding.floor(elementwise.minimum(elementwise.maximum(zero_point + 0.5, float(least)), float(most)))
    )
    step = stop_gradient(scale) + (scale - stop_gradient(scale)) * factor
    moving = zero + (zero_point - stop_gradient(zero_point)) * factor
    inverse = elementwise.reciprocal(stop_gradient(scale))
    code = stop_gradient(rounding.round(x * inverse) + zero)
    clamped = elementwise.minimum(elementwise.maximum(code, float(least)), float(most))
    result = (clamped - zero) * stop_gradient(scale)
    between = x + step * stop_gradient(clamped - zero - x * inverse)
    beyond = (clamped - moving) * step
    tracked = elementwise.where(comparison.equal(code, clamped), between, beyond)
    return stop_gradient(result) + (tracked - stop_gradient(tracked))


def _quantize(x: SymbolicTensor, scale: Any, inverse: Any, zero_point: Any, least: int, most: int) -> Any:
    steps = elementwise.add(rounding.round(elementwise.mul(x, inverse)), zero_point)
    clamped = elementwise.minimum(elementwise.maximum(steps, float(least)), float(most))
    result = elementwise.mul(elementwise.sub(clamped, zero_point), scale)
    inside = comparison.equal(steps, clamped)

    def backward(x: SymbolicTensor, inside: SymbolicTensor, result: SymbolicTensor, g: SymbolicTensor) -> list[Any]:
        return [elementwise.mul(g, cast(inside, g.dtype))]

    types = [value.value.type for value in (x, inside, result, result)]
    program = trace_subprogram(backward, types, "fake_quantize.backward")
    return own_gradient(result, x, inside, outputs=1, backward=program)
