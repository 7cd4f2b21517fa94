"""What a network computes around its parts, to be judged like any other module, and a part at its own path."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ....converter.capture.replaced_method import replaced_method
from .boundaries import NetworkCall, PartCall, placed_tensors
from .division import Part

_STATE = ("_parameters", "_buffers")


@contextlib.contextmanager
def without_parts(network: torch.nn.Module, parts: Sequence[Part], call: NetworkCall) -> Iterator[None]:
    """Within the context, the network takes the results of its parts as inputs: `forward(args, kwargs, results)`.

    It returns its result, and the tensors that each call of a part received, in the order of the calls. So all that the
    modules around the parts compute is judged, forward and backward, and nothing of what the parts do. They have no
    parameters and buffers meanwhile, but those that are used outside of them.
    """
    kept = [(owner, [dict(vars(owner)[name]) for name in _STATE]) for part in parts for owner in part.module.modules()]
    try:
        for owner, state in kept:
            for name, tensors in zip(_STATE, state, strict=True):
                outside = {
                    key: tensor for key, tensor in tensors.items() if any(tensor is p for p in call.used_outside)
                }
                vars(owner)[name].clear()
                vars(owner)[name].update(outside)
        with replaced_method(network, "forward", _around_parts(network.forward, parts, call.calls)):
            yield
    finally:
        for owner, state in kept:
            for name, before in zip(_STATE, state, strict=True):
                vars(owner)[name].clear()
                vars(owner)[name].update(before)


def _around_parts(original: Callable[..., Any], parts: Sequence[Part], calls: Sequence[PartCall]) -> Callable[..., Any]:
    """Return the forward of a network that takes the results of its parts, which are called in this order.

    Tensors that a part is given here alone, such as a mask that is made for tracing, aren't returned.
    """

    def forward(args: Any, kwargs: Any, results: Any) -> Any:
        received: list[list[torch.Tensor]] = []
        remaining = list(zip(calls, results, strict=True))

        def returning(path: str) -> Callable[..., Any]:
            def part(*args: Any, **kwargs: Any) -> Any:
                called, result = remaining.pop(0)
                assert called.path == path, "parts are called in the order of the run"
                places = called.arguments.places
                received.append([x for path, x in placed_tensors((list(args), kwargs)) if path in places])
                return result

            return part

        with contextlib.ExitStack() as stack:
            for part in parts:
                stack.enter_context(replaced_method(part.module, "forward", returning(part.path)))
            return original(*args, **kwargs), received

    return forward


def loss_of(cotangents: Sequence[torch.Tensor | None]) -> Callable[[Any], torch.Tensor] | None:
    """Return a loss whose gradients at the tensors of a result are these, None counting as 0; None if all are None."""
    if all(cotangent is None for cotangent in cotangents):
        return None

    def loss(result: Any) -> torch.Tensor:
        tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        terms = [
            (tensor * cotangent.to(tensor.dtype)).sum()
            for tensor, cotangent in zip(tensors, cotangents, strict=True)
            if cotangent is not None and tensor.requires_grad
        ]
        return torch.stack(terms).sum() if terms else torch.zeros((), requires_grad=True)  # of integers alone

    return loss


class Around(torch.nn.Module):
    """Modules that hold a part where the network does, so that Cells and parameters have the network's names."""

    def __init__(self, path: str, part: torch.nn.Module) -> None:
        super().__init__()
        *outer, last = path.split(".")
        parent: torch.nn.Module = self
        for name in outer:
            inner = torch.nn.Module()
            inner.training = part.training
            parent.add_module(name, inner)
            parent = inner
        parent.add_module(last, part)
        self.training = part.training
        self._path = path

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the part."""
        return self.get_submodule(self._path)(*args, **kwargs)
