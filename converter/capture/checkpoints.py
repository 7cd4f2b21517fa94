"""`torch.utils.checkpoint`: activation checkpointing doesn't change what a network computes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils.checkpoint

from ..torch_version import has_change
from .libraries import replace_attribute


@contextlib.contextmanager
def keep_activations() -> Iterator[None]:
    """Within the context, `torch.utils.checkpoint` keeps all activations and recomputes nothing.

    The function and its gradient don't change. A recomputation would run in the backward pass, where neither the
    tracing of the forward pass, nor its modes, nor the hooks that feed Cells are active.
    """
    replacements: dict[str, Any] = {
        "CheckpointFunction": _PlainCall,
        "_checkpoint_without_reentrant_generator": _forward_context_generator,
    }
    if has_change("split checkpoint"):
        replacements["_checkpoint_without_reentrant_generator_impl"] = _forward_context_generator_impl
    with contextlib.ExitStack() as stack:
        for name, function in replacements.items():
            stack.enter_context(replace_attribute(torch.utils.checkpoint, name, function))
        yield


class _PlainCall:
    """Replaces the autograd function that the reentrant form applies."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        """Call the function and return its result."""
        return function(*args)


def _forward_context_generator(
    function: Callable[..., Any],
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = torch.utils.checkpoint.noop_context_fn,
    *args: Any,
    **kwargs: Any,
) -> Iterator[None]:
    """Replaces the generator around a non-reentrant checkpoint: yields once, within the caller's forward context."""
    with context_fn()[0]:
        yield


def _forward_context_generator_impl(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    context_fn: Callable[[], tuple[Any, Any]] = torch.utils.checkpoint.noop_context_fn,
    **options: Any,
) -> Iterator[None]:
    """`_forward_context_generator`, with the parameters of torch 2.14 and newer."""
    return _forward_context_generator(function, True, context_fn)
