"""Conversion between the dtypes of torch and of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..runtime.errors import ConversionError
from ..runtime.ir.types import BFLOAT16
from .unsupported import Unsupported

TORCH_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
        torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu,
    )
}  # fmt: skip
"""The torch dtypes by their NumPy names."""


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any]:
    """The NumPy dtype of a torch dtype (for a complex one, that of its parts); `Unsupported` for quantized ones."""
    if dtype == torch.bfloat16:
        return BFLOAT16
    name = str(dtype.to_real() if dtype.is_complex else dtype).removeprefix("torch.")
    try:
        result: np.dtype[Any] = np.dtype(name)
    except TypeError:
        raise Unsupported(f"dtype {dtype}") from None
    return result


def is_real(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds real floating-point numbers; 8-bit floats are codes, like integers."""
    return tensor.is_floating_point() and tensor.element_size() > 1


def is_inexact(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds real floating-point numbers or complex ones."""
    return is_real(tensor) or tensor.is_complex()


def as_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """Return a tensor with a copy of an array's data; `ConversionError` for a dtype that torch lacks."""
    if array.dtype.isbuiltin == 1:
        return torch.from_numpy(np.array(array))
    dtype = torch_dtype(array.dtype)  # bfloat16 or an 8-bit float, which torch doesn't read from NumPy
    bits = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(np.array(array).view(bits)).view(dtype)


def torch_dtype(dtype: np.dtype[Any]) -> torch.dtype:
    """The torch dtype of a NumPy dtype; `ConversionError` if there is none."""
    if dtype.name not in TORCH_DTYPES:
        raise ConversionError(f"torch has no dtype {dtype.name}")
    return TORCH_DTYPES[dtype.name]
