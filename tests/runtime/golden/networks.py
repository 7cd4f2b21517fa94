"""What the cases build: Cells described as trees, a few small networks, optimizers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from cellbridge.runtime import Parameter, Tensor, nn, ops


class Lambda(nn.Cell):
    """Computes what a function computes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def construct(self, *args: Any) -> Any:
        return self.function(*args)


class Linear(nn.Cell):
    """A Dense layer under the name `fc`, with given weights."""

    def __init__(self, w: Tensor, b: Tensor | None = None) -> None:
        super().__init__()
        self.fc = dense(w, b)

    def construct(self, x: Any) -> Any:
        return self.fc(x)


class SeedNet(nn.Cell):
    """A Dense layer whose loss and logits are both returned."""

    def __init__(self, w: Tensor, b: Tensor | None = None, sum_outputs: bool = False) -> None:
        super().__init__()
        self.fc = dense(w, b)
        self.loss = nn.MSELoss()
        self.sum_outputs = sum_outputs

    def construct(self, x: Any, y: Any) -> Any:
        logits = ops.squeeze(self.fc(x))
        loss = self.loss(logits, y)
        return loss + logits if self.sum_outputs else (loss, logits)


def dense(w: Tensor, b: Tensor | None = None) -> nn.Dense:
    """A Dense layer with given weights."""
    return nn.Dense(
        w.shape[1], w.shape[0], weight_init=w, bias_init="zeros" if b is None else b, has_bias=b is not None
    )


def optimizer(options: dict[str, Any], parameters: Any) -> nn.Optimizer:
    """An optimizer by its type and arguments."""
    arguments = {name: value for name, value in options.items() if name != "type"}
    made: nn.Optimizer = getattr(nn, options["type"])(parameters, **arguments)
    return made


def build(tree: dict[str, Any]) -> Any:
    """The Cell (or Parameter) that a tree describes."""
    kind = tree["type"]
    if kind == "Cell":
        cell = nn.Cell(auto_prefix=tree.get("auto_prefix", True))
        _assign(cell, tree["attrs"])
        return cell
    if kind == "Parameter":
        return Parameter(Tensor(np.zeros(tree["shape"], np.float32)), tree.get("name"), tree.get("requires_grad", True))
    if "named" in tree:
        return nn.SequentialCell(OrderedDict((name, build(child)) for name, child in tree["named"]))
    if "children" in tree:
        children = [build(child) for child in tree["children"]]
        return _container(tree, children)
    args = [tuple(arg) if isinstance(arg, list) else arg for arg in tree.get("args", [])]
    return getattr(nn, kind)(*args, **_arguments(tree.get("kwargs", {})))


def _container(tree: dict[str, Any], children: list[nn.Cell]) -> nn.Cell:
    if tree.get("star"):
        return nn.SequentialCell(*children)
    if tree["type"] == "CellList":
        return nn.CellList(children, auto_prefix=tree.get("auto_prefix", True))
    return nn.SequentialCell(children)


def _assign(cell: nn.Cell, attributes: Iterable[tuple[str, dict[str, Any]]]) -> None:
    for name, tree in attributes:
        children = tree.get("children", [])
        if tree["type"] == "ref":
            setattr(cell, name, getattr(cell, tree["to"]))
        elif any(child["type"] == "ref" for child in children):
            shared = [getattr(cell, c["to"]) if c["type"] == "ref" else build(c) for c in children]
            setattr(cell, name, _container(tree, shared))
        else:
            setattr(cell, name, build(tree))


def _arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in kwargs.items()}


def layer(name: str, kwargs: dict[str, Any]) -> nn.Cell:
    """A layer by its name and keyword arguments, where lists stand for tuples."""
    made: nn.Cell = getattr(nn, name)(**_arguments(kwargs))
    return made
