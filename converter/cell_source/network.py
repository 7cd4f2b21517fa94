"""A program as the modules that it was captured from: a tree by path, each with its calls, parameters and buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...runtime.interpreter import plan
from ...runtime.ir.flow import Flow, flows
from ...runtime.ir.program import Program
from ...runtime.ir.types import Buffer, Node, Parameter, Value
from .expressions import Literals, identifier


@dataclass(frozen=True)
class Layer:
    """A module that is a known layer.

    Attributes:
        text: the expression that makes it.
        kind: its class, e.g. `nn.BatchNorm2d`.
        names: paths of its Parameters, by the names that they have in the module.
        base: for a layer with a construct of its own: the arguments of the base class `kind`, and the lines.
    """

    text: str
    names: dict[str, str] = field(default_factory=dict)
    lines: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The class of the layer."""
        return self.text[: self.text.index("(")]

    @property
    def arguments(self) -> str:
        """What the class is given."""
        return self.text[self.text.index("(") + 1 : -1]


@dataclass(eq=False)
class Module:
    """One module: where it is, what it holds, its calls in order.

    Attributes:
        state: names of its own parameters and buffers, by attribute.
        layer: what layer it is, None if it is written out.
    """

    path: str
    class_name: str = ""
    parent: Module | None = None
    children: dict[str, Module] = field(default_factory=dict)
    calls: list[Flow] = field(default_factory=list)
    state: dict[str, str] = field(default_factory=dict)
    layer: Layer | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def all(self) -> Iterator[Module]:
        """The module and those below, from the inside out."""
        for child in self.children.values():
            yield from child.all()
        yield self

    def holds(self, other: Module) -> bool:
        """Whether `other` is the module or below it."""
        while other is not self and other.parent is not None:
            other = other.parent
        return other is self

    @property
    def is_numbered(self) -> bool:
        """Whether its children are numbered, as those of a list are."""
        return bool(self.children) and all(name.isdigit() for name in self.children)

    @property
    def is_container(self) -> bool:
        """Whether it does nothing but hold other modules."""
        return not self.calls and not self.state and bool(self.children)


class Network:
    """The modules of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.literals = Literals()
        steps = plan(program, (*program.outputs, *program.updates.values()), every_boundary=True)
        self.nodes: list[Node] = [step.node for step in steps]
        self.flows = flows(program, self.nodes)
        self.root = Module("", program.calls[0].class_name)
        self.modules: dict[str, Module] = {"": self.root}
        self.owners: dict[Value, list[tuple[Module, str]]] = {}
        self.constants = {c.value: np.asarray(c.data) for c in program.constants}
        self._grow()

    def _grow(self) -> None:
        for flow in self.flows:
            module = self.module(flow.call.path)
            module.class_name = flow.call.class_name
            module.calls.append(flow)
        stored: dict[str, Parameter | Buffer] = {**self.program.parameters, **self.program.buffers}
        for name, item in stored.items():
            self._hold(name, name, item.value)
        for name, parameter in self.program.parameters.items():
            for alias in parameter.aliases:
                if alias.rpartition(".")[0] in self.modules:
                    self._hold(alias, name, parameter.value)
        for module in self.modules.values():
            if module.is_numbered:
                module.children = dict(sorted(module.children.items(), key=lambda item: int(item[0])))

    def _hold(self, qualified: str, name: str, value: Value) -> None:
        path, _, attribute = qualified.rpartition(".")
        module = self.module(path)
        module.state[attribute] = name
        self.owners.setdefault(value, []).append((module, attribute))

    def module(self, path: str) -> Module:
        """The module at a path; it and those that lead there are made where there are none."""
        if path not in self.modules:
            above, _, name = path.rpartition(".")
            parent = self.module(above)
            self.modules[path] = parent.children[name] = Module(path, identifier(name, "Part").capitalize(), parent)
        return self.modules[path]

    def owner(self, value: Value, below: Module) -> tuple[Module, str] | None:
        """Who holds a parameter or buffer, and as what, at or below a module; None if nobody does."""
        return next((found for found in self.owners.get(value, ()) if below.holds(found[0])), None)

    def scalar(self, value: Value) -> Any:
        """The number that a constant is; None for what isn't a constant number."""
        data = self.constants.get(value)
        return None if data is None or data.ndim else data[()]

    def within(self, flow: Flow) -> Iterator[Flow]:
        """A call and all calls that it leads to."""
        yield flow
        for part in flow.body:
            if isinstance(part, int):
                yield from self.within(self.flows[part])

    def visible(self, flow: Flow) -> Iterable[Node]:
        """The nodes of a call that are written: its boundaries, and unless it is a layer, what it does."""
        is_layer = self.module(flow.call.path).layer is not None
        inside = [] if is_layer else [part for part in flow.body if isinstance(part, Node)]
        return [*flow.entries, *inside, *flow.exits]
