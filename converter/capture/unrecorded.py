"""Changes in place that torch doesn't record, in `torch.no_grad()` or through `x.detach()`.

The tensor keeps its history there: its gradient passes as if it hadn't been changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.nn.functional import gaussian_nll_loss
from torch.overrides import TorchFunctionMode

from ...runtime.errors import ConversionError
from .places import calling_line

_ATEN = torch.ops.aten
DETACH = _ATEN.detach.default
_DATA: Any = torch.Tensor.data


class VarianceClampedInSight(TorchFunctionMode):
    """While a module is exported, `gaussian_nll_loss` is given a variance that is clamped already.

    It clamps it in place in `torch.no_grad()`, of which the exported graph has no sign within a function such as this.
    What it clamps by there is below any variance, so that the clamp has the gradient of the identity.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func is not gaussian_nll_loss or not isinstance(args[2], torch.Tensor):
            return func(*args, **keywords)
        predicted, target, variance = args
        history = torch.nan_to_num(variance - variance.detach())  # zeros
        clamped = variance.detach().clamp(min=keywords["eps"]) + history
        return func(predicted, target, clamped, **keywords | {"eps": -math.inf})


class DataInSight(TorchFunctionMode):
    """While a module is exported, `x.data` is `x.detach()`, and `x.data = y` a copy into that: torch.export sees these.

    Raises:
        ConversionError: `y` is of another shape or dtype.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func == _DATA.__get__:
            return args[0].detach()
        if func != _DATA.__set__:
            return func(*args, **(kwargs or {}))
        x, y = args
        if x.shape != y.shape or x.dtype != y.dtype:
            raise ConversionError(
                f"the model sets the data of a tensor {_described(x)} to one {_described(y)}\n  at {calling_line()}\n"
                "  what to do: give what is computed a name of its own, and use that"
            )
        return x.detach().copy_(y.detach())


def _described(x: torch.Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


def pass_on_gradients(graph: fx.Graph, owners: Iterable[fx.Node] = ()) -> set[fx.Node]:
    """Let the gradients of what is changed so pass.

    After the change, the tensor is made the sum of its new value, detached, and of a zero that has the gradient of the
    old one.

    Args:
        graph: changed in place.
        owners: nodes whose changes aren't recorded; those of `x.detach()` in the graph aren't in any case.

    Returns:
        The nodes that are these tensors themselves, with their history: they, and what a change of them gives.
    """
    themselves = set(owners)
    names = {node: node for node in themselves}  # of the owners and of their views, by whose memory they have
    for node in list(graph.nodes):
        of = node.args[0] if node.args else None
        if not isinstance(of, fx.Node) or not isinstance(node.target, torch._ops.OpOverload):
            continue
        if of in names and node.target.is_view:
            names[node] = names[of]
        elif of in names and node.target._schema.is_mutable:
            names[node] = names[of]
            if of in themselves:
                themselves.add(node)
            _keep_history(graph, node, names[of])
        elif node.target is DETACH and has_history(of):
            names[node] = of
    return themselves


def has_history(node: fx.Node) -> bool:
    """Whether a gradient may go on from a tensor to what it was computed of."""
    value = node.meta.get("val")
    return node.op != "placeholder" and isinstance(value, torch.Tensor) and value.is_floating_point()


def _keep_history(graph: fx.Graph, change: fx.Node, owner: fx.Node) -> None:
    with graph.inserting_before(change):
        difference = _call(graph, _ATEN.sub.Tensor, owner, _value_of(graph, owner))
        zero = _call(graph, _ATEN.nan_to_num.default, difference)  # of infinities, say
    following = change.next
    with graph.inserting_before(following):
        _call(graph, _ATEN.copy_.default, owner, _call(graph, _ATEN.add.Tensor, _value_of(graph, owner), zero))


def _value_of(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """What a tensor holds there, without a gradient."""
    return _call(graph, DETACH, _call(graph, _ATEN.clone.default, node))


def _call(graph: fx.Graph, operator: Any, *operands: fx.Node) -> fx.Node:
    node = graph.call_function(operator, operands)
    kept = ("nn_module_stack", "stack_trace", "val")
    node.meta = {key: operands[0].meta[key] for key in kept if key in operands[0].meta}
    return node
