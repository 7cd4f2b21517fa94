"""What torch's own layers and transformers decide by the values of tensors, or by whether they are traced."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def decided_without_values() -> Iterator[None]:
    """Within the context, libraries decide without looking into tensors, which can't be exported, and as if not traced.

    - Torch's transformer layers don't look into a mask to see whether it is the causal one: not causal, as far as they
      know, a mask is applied as it is. That changes only what is faster.
    - Distributions don't look into their parameters, to raise an error for a negative scale, say.
    - The models of transformers, given no mask, go without, as they do in eager mode: while they are exported they make
      one, which some of them add to scores of another shape, or as 1 where it is true.
    """
    with contextlib.ExitStack() as stack:
        layers = torch.nn.modules.transformer
        stack.enter_context(
            _replaced(layers, "_detect_is_causal_mask", lambda mask, is_causal=None, size=None: is_causal is True)
        )
        stack.enter_context(_replaced(torch.distributions.Distribution, "_validate_args", False))
        masks = sys.modules.get("transformers.masking_utils")
        if hasattr(masks, "is_torchdynamo_exporting"):
            stack.enter_context(_replaced(masks, "is_torchdynamo_exporting", lambda: False))
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
