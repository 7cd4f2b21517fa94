"""A program as the modules that it was captured from: a tree by path, each with its calls, parameters and buffers."""

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
    """One module: where it is, what it holds, its calls in order.

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
        """The module and those below, from the outside in."""
        waiting = [self]
        while waiting:
            module = waiting.pop()
            yield module
            waiting += reversed(module.children.values())

    def lineage(self) -> list[Self]:
        """The modules that lead to it, from the root to itself."""
        lineage = [self]
        while (parent := lineage[-1].parent) is not None:
            lineage.append(parent)
        return lineage[::-1]


AnyModule = TypeVar("AnyModule", bound=Module)


class Network(Generic[AnyModule]):
    """The modules of a program.

    Attributes:
        nodes: those that the outputs, the buffer updates and the boundaries need.
        flows: what each call does, by number.
        modules: by path.
        constants: data of the constants.
        names: qualified names of parameters and buffers.
        told: for each symbol whose size is found in the run, the value that tells it, and how it is read off.
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
        self.told: dict[str, tuple[Value, Reading]] = {
            reading.symbol: (node.outputs[reading.output], reading)
            for node in self.nodes
            for reading in program.symbol_readings.get(node, ())
        }
        self.root = kind("", program.calls[0].class_name)
        self.modules: dict[str, AnyModule] = {"": self.root}
        self._kind = kind
        self._owners: dict[Value, list[tuple[AnyModule, str]]] = {}

    def grow_calls(self) -> None:
        """Make the modules that are called."""
        for flow in self.flows:
            module = self.module(flow.call.path)
            module.class_name = flow.call.class_name
            module.calls.append(flow)

    def hold(self, qualified: str, name: str, value: Value) -> tuple[AnyModule, str]:
        """Let the module at its path hold a parameter or buffer, `name` being the name that the program has for it.

        Returns:
            The module, and the attribute.
        """
        require_depth(qualified.count("."))
        path, _, attribute = self._apart(qualified).rpartition(".")
        module = self.module(path)
        while attribute in module.state:  # a parameter and a buffer of one name
            attribute += "_"
        module.state[attribute] = name
        self._owners.setdefault(value, []).append((module, attribute))
        return module, attribute

    @cached_property
    def _stored(self) -> set[str]:
        """All names of parameters and buffers, and what `_apart` made of them."""
        program = self.program
        return {*program.parameters, *program.buffers, *(a for p in program.parameters.values() for a in p.aliases)}

    def _apart(self, qualified: str) -> str:
        """A qualified name without a parameter or buffer on the way: `w_transpose` for `w.transpose` beside `w`."""
        parts = qualified.split(".")
        name = above = parts[0]
        for part in parts[1:]:
            name += ("_" if above in self._stored else ".") + part
            above += f".{part}"
        if name != qualified:
            while name in self._stored:
                name += "_"
            self._stored.add(name)
        return name

    def module(self, path: str) -> AnyModule:
        """The module at a path; it and those that lead there are made where there are none."""
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

    def of(self, flow: Flow) -> AnyModule:
        """The module that a call is one of."""
        return self.modules[flow.call.path]

    def is_opaque(self, flow: Flow) -> bool:
        """Whether the nodes of a call aren't written, because its module is something known."""
        return False

    def owners(self, value: Value) -> list[tuple[AnyModule, str]]:
        """Who holds a parameter or buffer, and as what; several if it is shared."""
        return self._owners.get(value, [])

    def owner(self, value: Value, below: AnyModule) -> tuple[AnyModule, str] | None:
        """Who holds a parameter or buffer at or below a module, and as what; None if nobody does."""
        return next((found for found in self.owners(value) if below in found[0].lineage()), None)

    def scalar(self, value: Value) -> Any:
        """The number that a constant is; None for what isn't a constant number."""
        data = self.constants.get(value)
        return None if data is None or data.ndim else data[()]

    def inner(self, flow: Flow) -> list[Node]:
        """The nodes that a call computes itself."""
        return [part for part in flow.body if isinstance(part, Node)]

    def children(self, flow: Flow) -> list[Flow]:
        """The calls that a call makes."""
        return [self.flows[part] for part in flow.body if isinstance(part, int)]


def common(*modules: AnyModule) -> AnyModule:
    """The innermost module around all of several, or the one of them that is."""
    first, *others = [module.lineage() for module in modules]
    return [module for module in first if all(module in lineage for lineage in others)][-1]
