"""Backward passes written by hand: of a `torch.autograd.Function`, `torch.export` follows the forward only."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from ...runtime.errors import ConversionWarning


@contextlib.contextmanager
def dropped_backward_told() -> Iterator[None]:
    """Within the context, the `torch.autograd.Function`s that are applied are noted; a `ConversionWarning` names them.

    A straight-through estimator or a reversed gradient is lost in what is captured: its gradient is the derivative of
    its forward. torch's own functions (of checkpoints, say) are derivatives themselves.
    """
    applied: dict[str, None] = {}

    def note(context: Any) -> None:
        function = type(context)._forward_cls
        if function.__module__.partition(".")[0] != "torch":
            applied[function.__qualname__] = None

    # what `apply` makes for each call, however the function is called
    made: Any = torch.autograd.function.BackwardCFunction
    made.__init__ = note
    try:
        yield
    finally:
        del made.__init__
    if applied:
        warnings.warn(
            f"the backward of {', '.join(applied)} (torch.autograd.Function) isn't captured: "
            "the program's gradient is the derivative of its forward",
            ConversionWarning,
            stacklevel=4,
        )
