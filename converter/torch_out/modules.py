"""What `to_torch` makes of a Cell: a module that walks a graph, and keeps all that it holds when it is copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ...runtime.errors import ConversionError
from .code import code
from .walk import Graph

OWN = "_cell"
"""The attribute of a module under which everything is that torch's modules haven't."""


def held(module: nn.Module) -> dict[str, Any]:
    """The parameters, buffers and modules that a module holds; who shares these containers has them in common."""
    names = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")
    return {name: vars(module)[name] for name in names}


@dataclass
class Own:
    """What a Cell has beside that.

    Attributes:
        graph: what it computes.
        bodies: sub-programs of branches and loops, by the names that the graph has for them.
        elsewhere: modules that it calls and others hold, likewise.
    """

    graph: Graph
    bodies: dict[str, nn.Module] = field(default_factory=dict)
    elsewhere: dict[str, nn.Module] = field(default_factory=dict)


class GraphModule(nn.Module):
    """A Cell that walks a graph. `code` is its text, for people: it is never run.

    Each Cell has a class of its own, by the name that its class had, for the signature of `forward`.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "code" and not any(name in vars(self)[kind] for kind in ("_parameters", "_buffers", "_modules")):
            return code(vars(self)[OWN].graph)
        return super().__getattr__(name)

    def __reduce__(self) -> Any:
        return _empty_cell, (type(self).__name__, vars(self)[OWN].graph), vars(self)


class VaryingCell(nn.Module):
    """A Cell whose calls do different things: a graph for each, all on what the Cell holds; calls say which.

    Args:
        variants: the graphs, with one state.
    """

    def __init__(self, variants: Sequence[GraphModule]) -> None:
        super().__init__()
        self.__dict__.update(held(variants[0]))
        self.variants = list(variants)  # in a list, not as modules of their own

    def forward(self, *inputs: Any, variant: int, **sizes: int) -> Any:
        """Compute the variant of that number."""
        return self.variants[variant].forward(*inputs, **sizes)


def graph_cell(class_name: str, state: dict[str, Any], own: Own) -> GraphModule:
    """A Cell.

    Args:
        class_name: an identifier.
        state: what `held` gives.
        own: what it computes, and with what.
    """
    made = _empty_cell(class_name, own.graph)
    made.__dict__.update(state)
    made.__dict__[OWN] = own
    return made


def _empty_cell(class_name: str, graph: Graph) -> GraphModule:
    def forward(self: GraphModule, *args: Any, **kwargs: Any) -> Any:
        return graph.run(self, graph.arguments(args, kwargs))

    forward.__signature__ = graph.signature  # type: ignore[attr-defined]
    made: type[GraphModule] = type(class_name, (GraphModule,), {"forward": forward, "__module__": __name__})
    return made()


def as_tensor(array: Any) -> torch.Tensor:
    """A tensor with a copy of an array's data, bfloat16 too; `ConversionError` for a dtype that torch hasn't."""
    if array.dtype.name == "bfloat16":
        import numpy as np

        return torch.from_numpy(np.array(array).view(np.int16)).view(torch.bfloat16)
    if array.dtype.isbuiltin != 1:
        raise ConversionError(f"torch doesn't compute with {array.dtype.name}")
    return torch.from_numpy(array.copy())
