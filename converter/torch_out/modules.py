"""The modules that `to_torch` creates for Cells: they walk a graph, and keep their contents when copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from .code import code
from .walk import Graph

OWN = "_cell"
"""The attribute in which a module keeps its `CellContents`."""


def state_of(module: nn.Module) -> dict[str, Any]:
    """The containers of a module's parameters, buffers and submodules; modules may share them."""
    names = ("_parameters", "_buffers", "_non_persistent_buffers_set", "_modules")
    return {name: vars(module)[name] for name in names}


@dataclass
class CellContents:
    """The contents of a Cell that torch's modules don't have.

    Attributes:
        graph: the graph of the Cell.
        bodies: sub-programs of branches and loops, by their names in the graph.
        elsewhere: called modules that belong to other modules, by their names in the graph.
    """

    graph: Graph
    bodies: dict[str, nn.Module] = field(default_factory=dict)
    elsewhere: dict[str, nn.Module] = field(default_factory=dict)


class ProgramModule(nn.Module):
    """A Cell that walks a graph. `code` shows the graph as text, which is never run.

    Each Cell has its own class, with the original class name, for the signature of `forward`.
    """

    def __getattr__(self, name: str) -> Any:
        if name == "code" and not any(name in vars(self)[kind] for kind in ("_parameters", "_buffers", "_modules")):
            return code(vars(self)[OWN].graph)
        return super().__getattr__(name)

    def __reduce__(self) -> Any:
        return _empty_module, (type(self).__name__, vars(self)[OWN].graph), vars(self)


class VaryingCell(nn.Module):
    """A Cell whose calls compute different things. It has a graph for each variant; they share one state.

    Args:
        variants: the modules with the graphs, which share one state.
    """

    def __init__(self, variants: Sequence[ProgramModule]) -> None:
        super().__init__()
        self.__dict__.update(state_of(variants[0]))
        self.variants = list(variants)  # in a list, so that they aren't submodules

    def forward(self, *inputs: Any, variant: int, **sizes: int) -> Any:
        """Run the variant with that index."""
        return self.variants[variant].forward(*inputs, **sizes)


def create_module(class_name: str, state: dict[str, Any], contents: CellContents) -> ProgramModule:
    """Create a Cell.

    Args:
        class_name: an identifier.
        state: the containers that `state_of` returns.
        contents: the graph, and the modules that it calls.
    """
    module = _empty_module(class_name, contents.graph)
    module.__dict__.update(state)
    module.__dict__[OWN] = contents
    return module


def _empty_module(class_name: str, graph: Graph) -> ProgramModule:
    def forward(self: ProgramModule, *args: Any, **kwargs: Any) -> Any:
        return graph.run(self, graph.arguments(args, kwargs))

    forward.__signature__ = graph.signature  # type: ignore[attr-defined]
    cls: type[ProgramModule] = type(class_name, (ProgramModule,), {"forward": forward, "__module__": __name__})
    return cls()
