"""Backward passes that run with the modes on.

torch turns the mode that sees `torch.autograd.grad` off until that returns, so that it wouldn't see the code of a
backward written by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge


def backward_call(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Callable[[], Any] | None:
    """Return a call of torch's backward pass that no mode sees, to be made with the modes on.

    Args:
        func: a torch function.
        args: its arguments.
        kwargs: its keyword arguments.

    Returns:
        None if the function is another one, or computes several gradients at once, which torch does by `vmap`.
    """
    if func is torch.Tensor.backward:
        names = ("gradient", "retain_graph", "create_graph", "inputs")
        arguments = dict(zip(names, args[1:], strict=False)) | dict(kwargs)
        return lambda: torch.autograd.backward(args[0], arguments.pop("gradient", None), **arguments)
    if func is not torch.autograd.grad or kwargs["is_grads_batched"]:
        return None
    outputs, inputs = args  # a tuple each, and everything else is given by name
    if not all(tensor.requires_grad for tensor in (*outputs, *inputs) if isinstance(tensor, torch.Tensor)):
        return None  # torch says so
    edges = [_edge(tensor) for tensor in outputs], [_edge(tensor) for tensor in inputs]
    arguments = dict(kwargs) | {"grad_outputs": _gradients(outputs, kwargs["grad_outputs"])}
    materialized = arguments.pop("materialize_grads")
    if materialized:
        arguments["allow_unused"] = True

    def call() -> tuple[torch.Tensor | None, ...]:
        results = torch.autograd.grad(*edges, **arguments)
        if not materialized:
            return results
        return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(inputs, results, strict=True))

    return call


def _edge(tensor: Any) -> Any:
    return get_gradient_edge(tensor) if isinstance(tensor, torch.Tensor) else tensor


def _gradients(outputs: Sequence[Any], gradients: Any) -> Any:
    """The gradients of the outputs; of a scalar, 1 if it isn't given."""
    if isinstance(gradients, torch.Tensor):
        return (gradients,)
    per_output = (None,) * len(outputs) if gradients is None else gradients
    is_scalar = [isinstance(y, torch.Tensor) and y.numel() == 1 for y in outputs]
    return [
        torch.ones_like(y) if g is None and scalar else g
        for y, g, scalar in zip(outputs, per_output, is_scalar, strict=False)
    ]
