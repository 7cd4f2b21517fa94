"""Inputs with other numbers, to detect results that depend on more than the inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from ...runtime.ir.types import is_floating
from ..dtypes import is_real

Array = np.ndarray[Any, Any]


def other_numbers(array: Array) -> Array:
    """The array with each floating-point number multiplied by a factor in [1/2, 1): zeros, signs and bounds hold.

    The factor depends on the index of the number only, and varies from one to the next.
    """
    if not is_floating(array.dtype):
        return array
    golden = 0.6180339887498949
    factors = 0.5 + 0.5 * ((np.arange(array.size) + 1) * golden % 1.0)
    return (array.astype(np.float64) * factors.reshape(array.shape)).astype(array.dtype)


def with_other_numbers(arguments: Any) -> Any:
    """The arguments of a call with other numbers in their tensors."""

    def change(x: torch.Tensor) -> torch.Tensor:
        if not (is_real(x) or x.is_complex()):
            return x
        whole = x.detach().resolve_conj()
        real = torch.view_as_real(whole) if x.is_complex() else whole
        result = torch.from_numpy(np.asarray(other_numbers(real.double().cpu().numpy()))).to(real)
        return torch.view_as_complex(result) if x.is_complex() else result

    return pytree.tree_map_only(torch.Tensor, change, arguments)
