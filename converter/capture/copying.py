"""A copy of a module, to run or train instead of the original."""

from __future__ import annotations

import copy

import torch

from ...runtime.errors import UsageError


def copy_module(module: torch.nn.Module) -> torch.nn.Module:
    """`copy.deepcopy` of a module, which may hold tensors computed from its parameters.

    Raises:
        UsageError: the module, or an object in its attributes, can't be copied.
    """
    # tensors computed from parameters (by the old weight_norm, by prune) are computed again when the copy is called
    computed = {
        id(held): held.detach().clone()
        for part in module.modules()
        for held in vars(part).values()
        if isinstance(held, torch.Tensor) and held.grad_fn is not None
    }
    try:
        return copy.deepcopy(module, computed)
    except Exception as error:  # an attribute's own __deepcopy__ may raise anything
        raise UsageError(
            f"a copy of the model is needed, and copy.deepcopy(model) fails: {type(error).__name__}: {error}"
        ) from error
