"""Activation functions."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from ...rows import Row
from .table import Context, pass_on, torch_form, torch_function

torch_function("log_sigmoid", F.logsigmoid)


@torch_form("elu")
def _(context: Context, x: Any, *, alpha: float, scale: float, input_scale: float) -> Any:
    if scale == input_scale == 1.0:
        return context.call(F.elu, x, alpha)
    return context.call(torch.ops.aten.elu.default, x, alpha, scale, input_scale)


@torch_form("mish_with_gate")
def _(context: Context, x: Any) -> Any:
    gate = context.call(F.softplus, x).tanh()
    return x * gate, gate


ROWS: dict[str, Row] = {
    "softmax": (F.softmax, "x, dim=axis"),
    "log_softmax": (F.log_softmax, "x, dim=axis"),
}
pass_on(ROWS)
