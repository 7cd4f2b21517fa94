"""Tensors that code makes from Python numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from .declared_dtypes import DeclaredDtypes

_FUNCTIONS = (torch.tensor, torch.as_tensor, torch.asarray)
_METHODS = (torch.Tensor.new_tensor, torch.Tensor.new)


def literal(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], dtypes: DeclaredDtypes) -> torch.Tensor | None:
    """Return the tensor that a torch function makes from Python numbers, in the dtype that the code gives it.

    `torch.full` and the like aren't among these functions: a program keeps all digits of their numbers.

    Args:
        func: a torch function.
        args: its arguments in a float64 run.
        kwargs: its keyword arguments.
        dtypes: the dtypes that tensors of this run have in a run in the working dtype.

    Returns:
        None if it is another function, or if its data are arrays or tensors.
    """
    if func in _FUNCTIONS:
        data = args[0] if args else kwargs.get("data", kwargs.get("obj"))
        return func(*args, **kwargs) if _is_plain(data) else None
    if func not in _METHODS:
        return None
    data = args[1] if len(args) > 1 else kwargs.get("data")
    is_size = func is torch.Tensor.new and (len(args) > 2 or not isinstance(data, (list, tuple)))
    if is_size or not _is_plain(data):
        return None
    return torch.tensor(data, **({"dtype": dtypes.of(args[0]), "device": args[0].device} | _options(kwargs)))


def _is_plain(data: Any) -> bool:
    """Whether data are Python or NumPy numbers, alone or nested in lists and tuples; the size of a tensor isn't."""
    if isinstance(data, (list, tuple)):
        return not isinstance(data, torch.Size) and all(map(_is_plain, data))
    return isinstance(data, (int, float, complex, np.generic))


def _options(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kwargs.items() if name != "data" and value is not None}
