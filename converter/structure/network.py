"""A program as a tree of the modules that it was captured from, each with its calls, parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np

from ...runtime.ir.flow import Flow, flows
from ...runtime.ir.program import Program
from ...runtime.ir.sizes import Reading
from ...runtime.ir.types import Node, Value
from ...runtime.programs.plan import plan
from .depth import require_depth

Array = np.ndarray[Any, Any]


@dataclass(eq=False)
class Module:
    """One module: its path, its contents, and its calls in order.

    Attributes:
        state: qualified names of its own parameters and buffers, by attribute.
    """

    path: str
    class_name: str = ""
    parent: Self | None = None
    children: dict[str, Self] = field(default_factory=dict)
    calls: list[Flow] = field(default_factory=list)
    state: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def all(self) -> Iterator[Self]:
        """Yield the module and its submodules, parents first."""
        waiting = [self]
        while waiting:
            module = waiting.pop()
            yield module
            waiting += reversed(module.children.values())

    def lineage(self) -> list[Self]:
        """The modules on the path from the root to the module itself."""
        lineage = [self]
        while (parent := lineage[-1].parent) is not None:
            lineage.append(parent)
        return lineage[::-1]


AnyModule = TypeVar("AnyModule", bound=Module)


class Network(Generic[AnyModule]):
    """The modules of a program.

    Attributes:
        nodes: the nodes that the outputs, the buffer updates and the boundaries need.
        flows: the data flow of each call, by number.
        modules: modules by path.
        constants: data of the constants.
        names: qualified names of parameters and buffers.
        size_sources: for each symbol of a data-dependent size, the value that defines it and how to compute the size.
    """

    def __init__(self, program: Program, kind: type[AnyModule]) -> None:
        self.program = program
        self.nodes = [
            step.node for step in plan(program, (*program.outputs, *program.updates.values()), every_boundary=True)
        ]
        self.constants: dict[Value, Array] = {c.value: np.asarray(c.data) for c in program.constants}
        self.flows = flows(program, self.nodes)
        self.names = {item.value: name for name, item in program.parameters.items()}
        self.names |= {item.value: name for name, item in program.buffers.items()}
        self.size_sources: dict[str, tuple[Value, Reading]] = {
            reading.symbol: (node.outputs[reading.output], reading)
            for node in self.nodes
            for reading in program.symbol_readings.get(node, ())
        }
        self.root = kind("", program.calls[0].class_name)
        self.modules: dict[str, AnyModule] = {"": self.root}
        self._kind = kind
        self._owners: dict[Value, list[tuple[AnyModule, str]]] = {}

    def add_calls(self) -> None:
        """Create the modules that are called, and add their calls."""
        for flow in self.flows:
            module = self.module(flow.call.path)
            module.class_name = flow.call.class_name
            module.calls.append(flow)

    def add_state(self, qualified: str, name: str, value: Value) -> tuple[AnyModule, str]:
        """Add a parameter or buffer, `name` in the program, to the module at the path of its qualified name.

        Returns:
            The module and the attribute.
        """
        require_depth(qualified.count("."))
        path, _, attribute = self._separate(qualified).rpartition(".")
        module = self.module(path)
        while attribute in module.state:  # a parameter and a buffer of one name
            attribute += "_"
        module.state[attribute] = name
        self._owners.setdefault(value, []).append((module, attribute))
        return module, attribute

    @cached_property
    def _all_names(self) -> set[str]:
        """All names of parameters and buffers, with the results of `_separate`."""
        program = self.program
        return {*program.parameters, *program.buffers, *(a for p in program.parameters.values() for a in p.aliases)}

    def _separate(self, qualified: str) -> str:
        """A qualified name with no parameter or buffer as a parent: `w_transpose` for `w.transpose` beside `w`."""
        parts = qualified.split(".")
        name = above = parts[0]
        for part in parts[1:]:
            name += ("_" if above in self._all_names else ".") + part
            above += f".{part}"
        if name != qualified:
            while name in self._all_names:
                name += "_"
            self._all_names.add(name)
        return name

    def module(self, path: str) -> AnyModule:
        """The module at a path, created with its parents if missing."""
        require_depth(path.count("."))
        missing: list[str] = []
        above = path
        while above not in self.modules:
            missing.append(above)
            above = above.rpartition(".")[0]
        for inner in reversed(missing):
            above, _, name = inner.rpartition(".")
            parent = self.modules[above]
            self.modules[inner] = parent.children[name] = self._kind(inner, "", parent)
        return self.modules[path]

    def module_of(self, flow: Flow) -> AnyModule:
        """The module of a call."""
        return self.modules[flow.call.path]

    def is_opaque(self, flow: Flow) -> bool:
        """Whether the nodes of a call aren't generated, because its module is a known layer."""
        return False

    def owners(self, value: Value) -> list[tuple[AnyModule, str]]:
        """The modules that hold a parameter or buffer, with its attribute; several if it is shared."""
        return self._owners.get(value, [])

    def owner(self, value: Value, below: AnyModule) -> tuple[AnyModule, str] | None:
        """The module at or below `below` that holds a parameter or buffer, with its attribute; None if none does."""
        return next((owner for owner in self.owners(value) if below in owner[0].lineage()), None)

    def scalar(self, value: Value) -> Any:
        """The number in a constant; None for other values."""
        data = self.constants.get(value)
        return None if data is None or data.ndim else data[()]

    def inner(self, flow: Flow) -> list[Node]:
        """The nodes that belong to a call itself, without those of inner calls."""
        return [part for part in flow.body if isinstance(part, Node)]

    def children(self, flow: Flow) -> list[Flow]:
        """The calls directly within a call."""
        return [self.flows[part] for part in flow.body if isinstance(part, int)]


def common(*modules: AnyModule) -> AnyModule:
    """The innermost module that contains all the modules; it may be one of them."""
    first, *others = [module.lineage() for module in modules]
    return [module for module in first if all(module in lineage for lineage in others)][-1]
