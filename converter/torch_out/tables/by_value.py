"""Ops that only models of ONNX have."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.types import as_dtype
from ...capture.table import torch_dtype
from ..by_value import by_value
from ..table import Context, no_torch_form, torch_form

no_torch_form("by_value_gradient", "torch differentiates by itself")


@torch_form("by_value")
def _(context: Context, *operands: Any, operator: str, options: Any, types: Any) -> Any:
    # a graph can hold dtypes of torch alone
    written = tuple((key, torch_dtype(x) if isinstance(x, np.dtype) else x) for key, x in options)
    result = context.call(by_value, operator, written, *operands)
    return result if len(types) == 1 else tuple(result[i] for i in range(len(types)))


@torch_form("bitcast")
def _(context: Context, x: Any, *, dtype: np.dtype[Any]) -> Any:
    return x.view(torch_dtype(as_dtype(dtype)))
