"""In-place changes that torch doesn't record, in `torch.no_grad()` or through `x.detach()`.

The tensor keeps its history: its gradient passes as if it hadn't been changed.
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


class ClampVariance(TorchFunctionMode):
    """While a module is exported, clamp the variance before it is passed to `gaussian_nll_loss`.

    The function itself clamps it in place in `torch.no_grad()`, which the exported graph doesn't show.
    The bound of the clamp there is below any variance, so that the clamp has the gradient of the identity.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func is not gaussian_nll_loss or not isinstance(args[2], torch.Tensor):
            return func(*args, **keywords)
        predicted, target, variance = args
        history = torch.nan_to_num(variance - variance.detach())  # zeros
        clamped = variance.detach().clamp(min=keywords["eps"]) + history
        return func(predicted, target, clamped, **keywords | {"eps": -math.inf})


class RecordData(TorchFunctionMode):
    """While a module is exported, `x.data` is `x.detach()`, and `x.data = y` copies into it: torch.export records both.

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
                f"the model sets the data of a tensor {_describe(x)} to one {_describe(y)}\n  at {calling_line()}\n"
                "  what to do: assign the result to a new name, and use that"
            )
        return x.detach().copy_(y.detach())


def _describe(x: torch.Tensor) -> str:
    return f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


def pass_on_gradients(graph: fx.Graph, owners: Iterable[fx.Node] = ()) -> set[fx.Node]:
    """Let gradients pass through unrecorded in-place changes.

    After the change, the tensor becomes the sum of its new value, detached, and of a zero with the gradient of the old
    value.

    Args:
        graph: changed in place.
        owners: nodes whose changes aren't recorded; changes of an `x.detach()` in the graph never are.

    Returns:
        The nodes that are the owners' tensors with their history: the owners, and the results of changing them.
    """
    themselves = set(owners)
    names = {node: node for node in themselves}  # owners and their views, each with the owner of its memory
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
    """Whether a gradient may pass from a tensor to the operands that it was computed from."""
    value = node.meta.get("val")
    return node.op != "placeholder" and isinstance(value, torch.Tensor) and value.is_floating_point()


def _keep_history(graph: fx.Graph, change: fx.Node, owner: fx.Node) -> None:
    with graph.inserting_before(change):
        difference = _call(graph, _ATEN.sub.Tensor, owner, _value_of(graph, owner))
        zero = _call(graph, _ATEN.nan_to_num.default, difference)  # the difference of infinities is NaN
    following = change.next
    with graph.inserting_before(following):
        _call(graph, _ATEN.copy_.default, owner, _call(graph, _ATEN.add.Tensor, _value_of(graph, owner), zero))


def _value_of(graph: fx.Graph, node: fx.Node) -> fx.Node:
    """The current value of a tensor, without a gradient."""
    return _call(graph, DETACH, _call(graph, _ATEN.clone.default, node))


def _call(graph: fx.Graph, operator: Any, *operands: fx.Node) -> fx.Node:
    node = graph.call_function(operator, operands)
    kept = ("nn_module_stack", "stack_trace", "val")
    node.meta = {key: operands[0].meta[key] for key in kept if key in operands[0].meta}
    return node
