"""What `to_torch` makes of a Cell: a graph module that keeps all that it holds when it is copied or pickled."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import fx, nn

_OF_THE_GRAPH = ("_graph", "_code", "_lineno_map", "_prologue_start")


def held(module: nn.Module) -> dict[str, Any]:
    """The parameters, buffers and modules that a module holds; who shares these containers has them in common."""
    names = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")
    return {name: vars(module)[name] for name in names}


class _Reference(NamedTuple):
    """A node among the arguments of another, in a pickled graph."""

    name: str


class GraphCell(fx.GraphModule):
    """A Cell as a graph, `code` being its text.

    Unlike `torch.fx.GraphModule` it keeps, when it is copied or pickled, the parameters and modules that its graph
    doesn't use, which buffers are not in the state dict, and modules that it calls but others hold.

    Args:
        state: attributes that it is to have: what `held` gives, and more.
        graph: what it computes.
        class_name: of the module that the Cell was.
    """

    def __init__(self, state: dict[str, Any], graph: fx.Graph, class_name: str) -> None:
        super().__init__(nn.Module(), fx.Graph(), class_name)
        self.__dict__.update(state)
        self.graph = graph

    def _recompile_submodules(self) -> list[Any]:
        return []  # each is compiled already

    def _state(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OF_THE_GRAPH}

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphCell:
        copied = GraphCell.__new__(GraphCell)
        memo[id(self)] = copied
        GraphCell.__init__(copied, copy.deepcopy(self._state(), memo), copy.deepcopy(self.graph), type(self).__name__)
        return copied

    def __reduce__(self) -> Any:
        return _graph_cell, (self._state(), _records(self.graph), type(self).__name__)


class VaryingCell(nn.Module):
    """A Cell whose calls do different things: a graph for each, all on what the Cell holds; calls say which.

    Args:
        variants: the graphs, with one state.
    """

    def __init__(self, variants: Sequence[GraphCell]) -> None:
        super().__init__()
        self.__dict__.update(held(variants[0]))
        self.variants = list(variants)  # in a list, not as modules of their own

    def forward(self, *inputs: Any, variant: int, **sizes: int) -> Any:
        """Compute the variant of that number."""
        return self.variants[variant].forward(*inputs, **sizes)


def _graph_cell(state: dict[str, Any], records: list[tuple[Any, ...]], class_name: str) -> GraphCell:
    graph = fx.Graph()
    nodes: dict[str, fx.Node] = {}

    def found(argument: Any) -> Any:
        if isinstance(argument, _Reference):
            return nodes[argument.name]
        if isinstance(argument, (tuple, list)):
            return type(argument)(found(item) for item in argument)
        if isinstance(argument, dict):
            return {key: found(item) for key, item in argument.items()}
        if isinstance(argument, slice):
            return slice(found(argument.start), found(argument.stop), found(argument.step))
        return argument

    for name, op, target, args, kwargs in records:
        nodes[name] = graph.create_node(op, target, found(args), found(kwargs), name)
    return GraphCell(state, graph, class_name)


def _records(graph: fx.Graph) -> list[tuple[Any, ...]]:
    """The nodes in order. (A pickled `Graph` is nested as deep as it is long.)"""

    def named(argument: Any) -> Any:
        return fx.node.map_arg(argument, lambda node: _Reference(node.name))

    return [(n.name, n.op, n.target, _plain(named(n.args)), _plain(named(n.kwargs))) for n in graph.nodes]


def _plain(argument: Any) -> Any:
    """Containers of fx (immutable lists and dicts) as those of Python."""
    if isinstance(argument, _Reference):
        return argument
    if isinstance(argument, (tuple, list)):
        items = [_plain(item) for item in argument]
        return tuple(items) if isinstance(argument, tuple) else items
    if isinstance(argument, dict):
        return {key: _plain(item) for key, item in argument.items()}
    if isinstance(argument, slice):
        return slice(_plain(argument.start), _plain(argument.stop), _plain(argument.step))
    return argument


def as_tensor(array: Any) -> torch.Tensor:
    """A tensor with a copy of an array's data, bfloat16 too."""
    if array.dtype.name == "bfloat16":
        import numpy as np

        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array.copy())
