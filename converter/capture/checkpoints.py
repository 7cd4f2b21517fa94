"""`torch.utils.checkpoint`: a network that keeps fewer activations is the same network."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint


@contextlib.contextmanager
def kept_activations() -> Iterator[None]:
    """Within the context, `torch.utils.checkpoint` keeps what a backward pass needs, and runs nothing anew.

    That is the same function and the same gradient. What it runs anew would run in the backward pass: out of reach of
    what traces the forward pass, of the modes that are active there, and of the hooks that feed Cells.
    """
    module: Any = torch.utils.checkpoint
    before = module.CheckpointFunction, module._checkpoint_without_reentrant_generator
    module.CheckpointFunction, module._checkpoint_without_reentrant_generator = _Called, _within_forward_context
    try:
        yield
    finally:
        module.CheckpointFunction, module._checkpoint_without_reentrant_generator = before


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
