"""What a model computes with torch of Python numbers alone is a number, and stays known while it is traced."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

_ARITHMETIC = frozenset(
    (torch.add, torch.sub, torch.mul, torch.div, torch.true_divide, torch.floor_divide, torch.remainder, torch.fmod)
)


class KnownNumbers(TorchFunctionMode):  # type: ignore[no-untyped-call]
    """Within the context, `torch.div(8, 4)` and its like are computed at once.

    Traced, they would be tensors of unknown value, and a size taken from one (`int(torch.div(length, window))`) would
    look as if it depended on the data.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _ARITHMETIC or not all(isinstance(x, (int, float)) for x in args):
            return func(*args, **kwargs or {})
        with _disable_current_modes():
            known = func(*args, **kwargs or {})
        return torch.tensor(known.item(), dtype=known.dtype)
