"""Numbers that a model makes without tensors: what torch computes of them stays known, and none may be random."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from ...runtime.errors import ConversionError

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


@contextlib.contextmanager
def none_drawn() -> Iterator[None]:
    """Raise `ConversionError` if random numbers are drawn within the context that torch doesn't know of.

    Such a draw (a mask made by NumPy, a layer that Python's `random` skips) is traced as what it happened to be.
    """
    before = random.getstate(), np.random.get_state()
    yield
    drawers = {"Python's random": random.getstate() != before[0], "numpy.random": not _equal(before[1])}
    for name in (name for name, has_drawn in drawers.items() if has_drawn):
        raise ConversionError(
            f"the model draws random numbers with {name}, which would be the same in every run of the program\n"
            "  what to do: draw them with torch in forward, pass them as inputs, or switch them off in the model's options"
        )


def _equal(state: Any) -> bool:
    now = np.random.get_state()
    return all(np.array_equal(a, b) for a, b in zip(state, now, strict=True))
