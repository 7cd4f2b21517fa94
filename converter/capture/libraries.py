"""Decisions of torch's layers and of transformers that depend on tensor values or on being traced."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm


@contextlib.contextmanager
def without_value_checks() -> Iterator[None]:
    """Within the context, libraries decide without reading tensors, which torch can't export, and as if not traced.

    - torch's transformer layers don't check whether a mask is the causal one: they apply it as an ordinary mask. That
      affects speed only.
    - Distributions don't validate their parameters (such as a negative scale).
    - Batch norm without a momentum, which averages its statistics over all batches so far, doesn't convert the number
      of batches to a Python number.
    - An unreduced `multilabel_margin_loss` of one sample has the right shape: torch traces it as a vector.
    - Models of transformers without a mask create none, as in eager mode: during export they create one, which some of
      them add to scores of another shape, or add as 0 and 1.
    """
    with contextlib.ExitStack() as stack:
        layers = torch.nn.modules.transformer
        stack.enter_context(
            replace_attribute(
                layers, "_detect_is_causal_mask", lambda mask, is_causal=None, size=None: is_causal is True
            )
        )
        stack.enter_context(replace_attribute(torch.distributions.Distribution, "_validate_args", False))
        stack.enter_context(
            replace_attribute(_BatchNorm, "forward", functools.partialmethod(_batch_norm_forward, _BatchNorm.forward))
        )
        margin_loss = torch._C._nn.multilabel_margin_loss
        stack.enter_context(
            replace_attribute(torch._C._nn, "multilabel_margin_loss", functools.partial(_margin_loss, margin_loss))
        )
        masks = sys.modules.get("transformers.masking_utils")
        if hasattr(masks, "is_torchdynamo_exporting"):
            stack.enter_context(replace_attribute(masks, "is_torchdynamo_exporting", lambda: False))
        yield


def _batch_norm_forward(module: _BatchNorm, forward: Callable[..., Tensor], input: Tensor) -> Tensor:
    """`forward` of a batch norm, which averages its statistics over all batches if it has no momentum."""
    if module.momentum is not None or not module.training or module.running_mean is None:
        return forward(module, input)
    module._check_input_dim(input)  # type: ignore[no-untyped-call]
    batches, averages = module.num_batches_tracked, (module.running_mean, module.running_var)
    assert batches is not None
    batches.add_(1)
    share = batches.to(module.running_mean.dtype).reciprocal()
    variance, mean = torch.var_mean(input.detach().to(share.dtype), (0, *range(2, input.ndim)))
    for average, of_batch in zip(averages, (mean, variance), strict=True):
        assert average is not None
        average.copy_(average * (1 - share) + of_batch * share)
    return F.batch_norm(input, None, None, module.weight, module.bias, True, 0.0, module.eps)


def _margin_loss(original: Callable[..., Tensor], input: Tensor, target: Tensor, reduction: int) -> Tensor:
    """`multilabel_margin_loss`, with the right shape for one sample without a reduction."""
    if reduction or input.ndim != 1:
        return original(input, target, reduction)
    return original(input[None], target[None], reduction)[0]


@contextlib.contextmanager
def replace_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Within the context, an attribute of a module or class has this value."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
