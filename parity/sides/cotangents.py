"""Cotangents: the gradients of the root's outputs, from which the backward pass starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ...converter.dtypes import as_tensor, is_inexact
from ...runtime.errors import UsageError
from ...runtime.programs.call import as_array
from .records import Array


def require_gradient(loss: Any) -> None:
    """Raise `UsageError` unless a loss has a gradient."""
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        raise UsageError(
            "loss(outputs) returned no tensor with a gradient: it must be a differentiable function of the outputs"
        )


def loss_gradients(loss: Callable[[Any], torch.Tensor], result: Any, outputs: list[torch.Tensor]) -> list[Array | None]:
    """Return the gradient of a loss of the result for each of its tensors; None for those without numbers.

    Raises:
        UsageError: the loss isn't a scalar, or has no gradient.
    """
    value = loss(result)
    if not isinstance(value, torch.Tensor) or value.numel() != 1:
        description = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        raise UsageError(f"loss(outputs) must return a scalar tensor; it returned {description}")
    require_gradient(value)
    differentiable = [out for out in outputs if out.requires_grad]
    gradients: tuple[torch.Tensor | None, ...] = ()
    if differentiable:
        gradients = torch.autograd.grad(value.sum(), differentiable, retain_graph=True, allow_unused=True)
    gradient_of = dict(zip(map(id, differentiable), gradients, strict=True))
    return [
        None
        if not is_inexact(out)
        else as_array(torch.zeros_like(out)).astype(np.float64)
        if gradient_of.get(id(out)) is None
        else as_array(gradient_of[id(out)]).astype(np.float64)
        for out in outputs
    ]


def cotangents_fit(outputs: Sequence[torch.Tensor], cotangents: Sequence[Array | None]) -> bool:
    """Whether the cotangents fit these outputs in number and shape."""
    shapes = [(*out.shape, 2) if out.is_complex() else tuple(out.shape) for out in outputs]
    return len(cotangents) == len(shapes) and all(
        cotangent is None or cotangent.shape == shape for cotangent, shape in zip(cotangents, shapes, strict=True)
    )


def tensor_like(array: Array, like: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor of the dtype of `like`; pairs of reals as complex numbers if that is complex."""
    tensor = as_tensor(array)
    return (torch.view_as_complex(tensor) if like.is_complex() else tensor).to(like.dtype)
