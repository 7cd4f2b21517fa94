"""torch's fake quantization in float64, for which its own kernels round to float32 or raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def _per_tensor(input: torch.Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> torch.Tensor:
    if isinstance(scale, torch.Tensor):
        return _fake_quantize(
            input, scale.reshape(()), scale.reshape(()).reciprocal(), zero_point, quant_min, quant_max
        )
    inverse = float(np.float32(1) / np.float32(scale))
    return _fake_quantize(input, float(np.float32(scale)), inverse, zero_point, quant_min, quant_max)


def _per_channel(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> torch.Tensor:
    shape = [1] * input.ndim
    shape[axis] = -1
    step = scale.reshape(shape)
    return _fake_quantize(input, step, step.reciprocal(), zero_point.reshape(shape), quant_min, quant_max)


def _fake_quantize(
    x: torch.Tensor, scale: Any, inverse: Any, zero_point: Any, quant_min: int, quant_max: int
) -> torch.Tensor:
    steps = torch.round(x.detach() * inverse) + zero_point
    clamped = steps.clamp(quant_min, quant_max)
    passed = x * (steps == clamped)
    result: torch.Tensor = (clamped - zero_point) * scale + (passed - passed.detach())
    return result


def _learnable_per_tensor(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, quant_min: int, quant_max: int,
    factor: float = 1.0,
) -> torch.Tensor:  # fmt: skip
    return _learnable(input, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max, factor)


def _learnable_per_channel(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int,
    factor: float = 1.0,
) -> torch.Tensor:  # fmt: skip
    shape = [1] * input.ndim
    shape[axis] = -1
    return _learnable(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max, factor)


def _learnable(
    x: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, quant_min: int, quant_max: int, factor: float
) -> torch.Tensor:
    """A formula that has the gradients of ATen's kernels."""
    zero = (zero_point.detach() + 0.5).clamp(quant_min, quant_max).floor()
    step, trained_zero = (
        value + (x - x.detach()) * factor for value, x in ((scale.detach(), scale), (zero, zero_point))
    )
    inverse = scale.detach().reciprocal()
    code = torch.round(x.detach() * inverse) + zero
    clamped = code.clamp(quant_min, quant_max)
    between = x + step * (clamped - zero - x.detach() * inverse)
    differentiable = torch.where(code == clamped, between, (clamped - trained_zero) * step)
    return (clamped - zero) * scale.detach() + (differentiable - differentiable.detach())


def _fused(
    input: torch.Tensor, observer_on: torch.Tensor, fake_quant_on: torch.Tensor, running_min: torch.Tensor,
    running_max: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, averaging_const: float, quant_min: int,
    quant_max: int, ch_axis: int, per_row_fake_quant: bool = False, symmetric_quant: bool = False,
) -> torch.Tensor:  # fmt: skip
    """The fused operator with its observer off; a program can't have one with its observer on."""
    if not bool(fake_quant_on.any()):
        return input
    if per_row_fake_quant:
        return _per_channel(input, scale, zero_point, ch_axis, quant_min, quant_max)
    return _per_tensor(input, scale, zero_point, quant_min, quant_max)


FAKE_QUANTIZATIONS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.fake_quantize_per_tensor_affine: _per_tensor,
    torch.fake_quantize_per_channel_affine: _per_channel,
    torch.fused_moving_avg_obs_fake_quant: _fused,
    torch._fake_quantize_learnable_per_tensor_affine: _learnable_per_tensor,
    torch._fake_quantize_learnable_per_channel_affine: _learnable_per_channel,
}
"""Replacements for these functions."""
