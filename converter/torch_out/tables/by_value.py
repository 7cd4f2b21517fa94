"""Ops that only models of ONNX have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.types import as_dtype
from ...capture.table import torch_dtype
from ..table import Context, no_torch_form, torch_form

no_torch_form("by_value", "its result has a shape that values of the run decide, by the rules of an ONNX operator")
no_torch_form("by_value_gradient", "torch differentiates by itself")


@torch_form("bitcast")
def _(context: Context, x: Any, *, dtype: np.dtype[Any]) -> Any:
    return x.view(torch_dtype(as_dtype(dtype)))
