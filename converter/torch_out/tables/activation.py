"""Activation functions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from .table import Context, torch_form, torch_function

FUNCTIONS: dict[str, Any] = {
    "relu": F.relu,
    "prelu": F.prelu,
    "selu": F.selu,
    "silu": F.silu,
    "mish": F.mish,
    "log_sigmoid": F.logsigmoid,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
}
for _op, _function in FUNCTIONS.items():
    torch_function(_op, _function)


@torch_form("leaky_relu")
def _(context: Context, x: Any, *, negative_slope: float) -> Any:
    return context.call(F.leaky_relu, x, negative_slope)


@torch_form("elu")
def _(context: Context, x: Any, *, alpha: float, scale: float, input_scale: float) -> Any:
    if scale == input_scale == 1.0:
        return context.call(F.elu, x, alpha)
    return context.call(torch.ops.aten.elu.default, x, alpha, scale, input_scale)


@torch_form("softplus")
def _(context: Context, x: Any, *, beta: float, threshold: float) -> Any:
    return context.call(F.softplus, x, beta, threshold)


@torch_form("gelu")
def _(context: Context, x: Any, *, approximate: str) -> Any:
    return context.call(F.gelu, x, approximate=approximate)


@torch_form("mish_with_gate")
def _(context: Context, x: Any) -> Any:
    gate = context.call(F.softplus, x).tanh()
    return x * gate, gate


@torch_form("softmax")
def _(context: Context, x: Any, *, axis: int) -> Any:
    return context.call(F.softmax, x, dim=axis)


@torch_form("log_softmax")
def _(context: Context, x: Any, *, axis: int) -> Any:
    return context.call(F.log_softmax, x, dim=axis)
