"""torch's fake quantization in float64, in which its kernels round to float32 or refuse to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def _per_tensor(input: torch.Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> torch.Tensor:
    if isinstance(scale, torch.Tensor):
        return _quantized(input, scale.reshape(()), scale.reshape(()).reciprocal(), zero_point, quant_min, quant_max)
    inverse = float(np.float32(1) / np.float32(scale))
    return _quantized(input, float(np.float32(scale)), inverse, zero_point, quant_min, quant_max)


def _per_channel(
    input: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> torch.Tensor:
    shape = [1] * input.ndim
    shape[axis] = -1
    step = scale.reshape(shape)
    return _quantized(input, step, step.reciprocal(), zero_point.reshape(shape), quant_min, quant_max)


def _quantized(
    x: torch.Tensor, scale: Any, inverse: Any, zero_point: Any, quant_min: int, quant_max: int
) -> torch.Tensor:
    steps = torch.round(x.detach() * inverse) + zero_point
    held = steps.clamp(quant_min, quant_max)
    passed = x * (steps == held)
    result: torch.Tensor = (held - zero_point) * scale + (passed - passed.detach())
    return result


FAKE_QUANTIZATIONS: dict[Any, Callable[..., torch.Tensor]] = {
    torch.fake_quantize_per_tensor_affine: _per_tensor,
    torch.fake_quantize_per_channel_affine: _per_channel,
}
"""What stands for these functions."""
