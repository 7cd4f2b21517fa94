"""A copy of a module, to run or to train in its stead."""

from __future__ import annotations

import copy

import torch

from ...runtime.errors import UsageError


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """`copy.deepcopy` of a module, which may hold tensors that it computed of its parameters.

    Raises:
        UsageError: what the module holds can't be copied.
    """
    # what a module computes of its parameters and keeps (the old weight_norm does, and prune), it computes anew
    computed = {
        id(held): held.detach().clone()
        for part in module.modules()
        for held in vars(part).values()
        if isinstance(held, torch.Tensor) and held.grad_fn is not None
    }
    try:
        return copy.deepcopy(module, computed)
    except Exception as error:  # what a module holds may refuse in any way
        raise UsageError(
            f"a copy of the model is needed, and copy.deepcopy(model) fails: {type(error).__name__}: {error}"
        ) from error
