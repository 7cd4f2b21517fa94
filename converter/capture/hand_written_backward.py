"""Backward passes written by hand, as functions or as hooks: `torch.export` follows the forward only."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from ...runtime.errors import ConversionWarning


@contextlib.contextmanager
def dropped_backward_told(module: torch.nn.Module) -> Iterator[None]:
    """A `ConversionWarning` names the backward hooks, and the `torch.autograd.Function`s applied within the context.

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
    lost = {
        "the backward of {} (torch.autograd.Function) isn't captured": list(applied),
        "backward hooks aren't captured, those of {}": list(_with_backward_hooks(module)),
    }
    for what, names in lost.items():
        if names:
            message = f"{what.format(', '.join(names))}: the program's gradient is the derivative of its forward"
            warnings.warn(message, ConversionWarning, stacklevel=5)


def _with_backward_hooks(module: torch.nn.Module) -> Iterator[str]:
    """Paths of the modules, and names of the parameters, whose gradients a hook may change."""
    for path, inner in module.named_modules():
        if inner._backward_hooks or inner._backward_pre_hooks:
            yield path or "(root)"
    for name, parameter in module.named_parameters():
        if parameter._backward_hooks:
            yield name
