"""`torch.utils.checkpoint`: a network that keeps fewer activations is the same network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint

from ..torch_version import has_change


@contextlib.contextmanager
def kept_activations() -> Iterator[None]:
    """Within the context, `torch.utils.checkpoint` keeps what a backward pass needs, and runs nothing anew.

    That is the same function and the same gradient. What it runs anew would run in the backward pass: out of reach of
    what traces the forward pass, of the modes that are active there, and of the hooks that feed Cells.
    """
    replaced: dict[str, Any] = {
        "CheckpointFunction": _Called,
        "_checkpoint_without_reentrant_generator": _within_forward_context,
    }
    if has_change("split checkpoint"):
        replaced["_checkpoint_without_reentrant_generator_impl"] = _within_forward_context_of
    with contextlib.ExitStack() as stack:
        for name, function in replaced.items():
            stack.enter_context(_replaced(name, function))
        yield


@contextlib.contextmanager
def _replaced(name: str, function: Any) -> Iterator[None]:
    """Within the context, torch's checkpoints use another function of that name."""
    original = getattr(torch.utils.checkpoint, name)
    setattr(torch.utils.checkpoint, name, function)
    try:
        yield
    finally:
        setattr(torch.utils.checkpoint, name, original)


class _Called:
    """Takes the place of the autograd function that the reentrant form applies."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """What the function returns."""
        return function(*args)


def _within_forward_context(
    function: Callable[..., Any],
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = torch.utils.checkpoint.noop_context_fn,
    *args: Any,
    **kwargs: Any,
) -> Iterator[None]:
    """Takes the place of what surrounds the call in the other form: stops once, within the caller's context."""
    with context_fn()[0]:
        yield


def _within_forward_context_of(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    context_fn: Callable[[], tuple[Any, Any]] = torch.utils.checkpoint.noop_context_fn,
    **options: Any,
) -> Iterator[None]:
    """The same, with the parameters that it has since torch 2.14."""
    return _within_forward_context(function, True, context_fn)
