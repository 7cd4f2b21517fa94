"""Operators whose result shape depends on values, for the graphs of `to_torch`.

Each is converted to a torch module at run time, when the sizes are known, so this module is above the tables.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...runtime.ir.types import Type
from ...runtime.onnx_functions.registry import get_onnx_function
from ...runtime.ops.higher_order.runtime_shaped import contents
from ...runtime.programs.subprograms import trace_subprogram
from ..dtypes import numpy_dtype, torch_dtype
from . import tables  # noqa: F401  (fills the table)
from .assembly import Assembly
from .network import TorchNetwork
from .tables.table import Context, no_torch_form, torch_form

Options = tuple[tuple[str, Any], ...]


def runtime_shaped(operator: str, options: Options, *operands: Tensor | None) -> Any:
    """Apply an ONNX operator, converted to torch for the actual sizes and contents of its operands.

    Args:
        operator: name of its function.
        options: its attributes; dtypes are torch's.
        *operands: the operands; None for an absent one.

    Returns:
        The output, or a tuple of them.
    """
    structural = get_onnx_function(operator).flags(len(operands))
    pairs = list(zip(operands, structural, strict=True))
    values = tuple(contents(x) if fixed else None for x, fixed in pairs)
    tensors = [x for x, fixed in pairs if x is not None and not fixed]
    # a run in which numbers are wider than their dtype says makes constants of that width
    wide = torch.zeros(()).element_size() == torch.float64.itemsize
    attributes = tuple((key, _numpy_dtype(x, wide=wide) if isinstance(x, torch.dtype) else x) for key, x in options)
    types = tuple(None if x is None or fixed else Type(numpy_dtype(x.dtype), tuple(x.shape)) for x, fixed in pairs)
    devices = [x.device for x in operands if x is not None]
    return _convert(operator, attributes, types, values, devices[0], wide)(*tensors)


def _numpy_dtype(dtype: torch.dtype, *, wide: bool) -> np.dtype[Any]:
    return np.dtype(np.float64) if wide and dtype == torch.float32 else numpy_dtype(dtype)


@functools.lru_cache(maxsize=256)
def _convert(
    operator: str, options: Options, types: Sequence[Type | None], contents: Sequence[Any], device: torch.device,
    wide: bool,
) -> nn.Module:  # fmt: skip
    """The function as a module, for operands of these types or contents; if `wide`, its constants have float64."""

    def apply(*tensors: Any) -> Sequence[Any]:
        remaining = iter(tensors)
        operands = [fixed if type is None else next(remaining) for type, fixed in zip(types, contents, strict=True)]
        result = get_onnx_function(operator).function(*operands, **dict(options))
        return result if isinstance(result, tuple) else (result,)

    program = trace_subprogram(apply, [type for type in types if type is not None], operator)
    return Assembly(TorchNetwork(program)).module().to(device)


no_torch_form("runtime_shaped_gradient", "torch differentiates by itself")


@torch_form("runtime_shaped")
def _(context: Context, *operands: Any, operator: str, options: Any, types: Any) -> Any:
    # a graph may have torch dtypes as constants, but not NumPy dtypes
    attributes = tuple((key, torch_dtype(x) if isinstance(x, np.dtype) else x) for key, x in options)
    result = context.call(runtime_shaped, operator, attributes, *operands)
    return result if len(types) == 1 else tuple(result[i] for i in range(len(types)))
