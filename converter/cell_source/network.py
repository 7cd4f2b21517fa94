"""A program as the modules that it was captured from: a tree by path, each with its calls, parameters and buffers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...runtime.interpreter import plan
from ...runtime.ir.flow import Flow, flows
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from .expressions import Literals, attribute_of, free_name, identifier
from .idioms import with_idioms

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Layer:
    """A module that is a known layer.

    Attributes:
        text: the expression that makes it.
        names: for each Parameter of the layer, the module's attribute that it holds.
        takes: how its inputs are passed, `{0}` the first.
        gives: how its outputs are returned; a pattern likewise.
        unit_axes: whether its kernels have an axis of size 1 before the last (convolutions along one axis).
    """

    text: str
    names: dict[str, str] = field(default_factory=dict)
    takes: str = "{0}"
    gives: str = "{0}"
    unit_axes: bool = False

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
        state: qualified names of its own parameters and buffers, by attribute.
        constants: tensors fixed in the program that its calls use, by the attributes that hold them.
        borrowed: modules elsewhere that it calls, and the attributes under which it knows them.
        layer: what layer it is, None if it is written out.
        varies: whether its calls do different things: each is told which variant it is.
    """

    path: str
    class_name: str = ""
    parent: Module | None = None
    children: dict[str, Module] = field(default_factory=dict)
    calls: list[Flow] = field(default_factory=list)
    state: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    borrowed: dict[Module, str] = field(default_factory=dict)
    layer: Layer | None = None
    varies: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]

    def all(self) -> Iterator[Module]:
        """The module and those below, from the outside in."""
        yield self
        for child in self.children.values():
            yield from child.all()

    def lineage(self) -> list[Module]:
        """The modules that lead to it, from the root to itself."""
        return [*(self.parent.lineage() if self.parent else ()), self]

    def written_name(self, attribute: str) -> str:
        """What the written layer calls a parameter or buffer."""
        if self.layer is None:
            return attribute
        return next(name for name, own in self.layer.names.items() if own == attribute)

    def path_from(self, above: Module) -> str:
        """The module from the `self` of one above, or of itself."""
        if self is above:
            return "self"
        assert self.parent is not None, f"{self.path} is not below {above.path}"
        path = self.parent.path_from(above)
        return f"{path}[{self.name}]" if self.parent.is_numbered else attribute_of(path, self.name)

    @property
    def is_numbered(self) -> bool:
        """Whether its children are numbered from 0, as those of a list are."""
        return bool(self.children) and list(self.children) == [str(i) for i in range(len(self.children))]


class Network:
    """The modules of a program.

    Attributes:
        target: the framework that the source is for.
        flows: what each call does, by number, with idioms of several ops as one.
        modules: by path.
        uses: how often each value is an operand or an output, not counting idioms.
        constants: data of the constants.
        names: qualified names of parameters and buffers.
        literals: those of the source that is to be written.
    """

    def __init__(self, program: Program, target: str) -> None:
        self.program = program
        self.target = target
        self.literals = Literals()
        nodes = [
            step.node for step in plan(program, (*program.outputs, *program.updates.values()), every_boundary=True)
        ]
        self.constants: dict[Value, Array] = {c.value: np.asarray(c.data) for c in program.constants}
        self.flows = flows(program, nodes)
        uses = Counter(value for node in nodes for value in node.inputs)
        for flow in self.flows:
            flow.body[:] = with_idioms(flow.body, uses, self.scalar)
        self.names = {item.value: name for name, item in program.parameters.items()}
        self.names |= {item.value: name for name, item in program.buffers.items()}
        self.uses = uses + Counter(program.outputs)
        self.root = Module("", program.calls[0].class_name)
        self.modules: dict[str, Module] = {"": self.root}
        self._owners: dict[Value, list[tuple[Module, str]]] = {}
        self._grow()

    def _grow(self) -> None:
        for flow in self.flows:
            module = self._module(flow.call.path)
            module.class_name = flow.call.class_name
            module.calls.append(flow)
        for name, parameter in self.program.parameters.items():
            self._hold(name, name, parameter.value)
            for alias in parameter.aliases:
                if alias.rpartition(".")[0] in self.modules:
                    self._hold(alias, name, parameter.value)
        for name, buffer in self.program.buffers.items():
            if self.uses[buffer.value] or buffer.update is not None:
                self._hold(name, name, buffer.value)
        for module in self.modules.values():
            if module.children and all(name.isdigit() for name in module.children):
                module.children = dict(sorted(module.children.items(), key=lambda item: int(item[0])))
        for flow in self.flows[1:]:
            self._borrow(self.of(self.flows[flow.call.parent or 0]), self.of(flow))

    def _borrow(self, caller: Module, called: Module) -> None:
        """Note a call of a module that isn't below the caller; the branch that holds it comes first."""
        if caller in called.lineage() or called in caller.borrowed:
            return
        caller.borrowed[called] = free_name(called.name, [*caller.children, *caller.state, *caller.borrowed.values()])
        around, (branch, *_) = common(caller, called), called.lineage()[len(common(caller, called).lineage()) :]
        if not around.is_numbered:
            around.children = {branch.name: branch, **around.children}

    def _hold(self, qualified: str, name: str, value: Value) -> None:
        path, _, attribute = qualified.rpartition(".")
        module = self._module(path)
        module.state[attribute] = name
        self._owners.setdefault(value, []).append((module, attribute))

    def _module(self, path: str) -> Module:
        """The module at a path; it and those that lead there are made where there are none."""
        if path not in self.modules:
            above, _, name = path.rpartition(".")
            parent = self._module(above)
            class_name = "".join(part.capitalize() for part in identifier(name, "part").split("_"))
            self.modules[path] = parent.children[name] = Module(path, class_name, parent)
        return self.modules[path]

    def of(self, flow: Flow) -> Module:
        """The module that a call is one of."""
        return self.modules[flow.call.path]

    def owners(self, value: Value) -> list[tuple[Module, str]]:
        """Who holds a parameter or buffer, and as what; several if it is shared."""
        return self._owners.get(value, [])

    def owner(self, value: Value, below: Module) -> tuple[Module, str] | None:
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


def common(*modules: Module) -> Module:
    """The innermost module around all of several, or the one of them that is."""
    first, *others = [module.lineage() for module in modules]
    return [module for module in first if all(module in lineage for lineage in others)][-1]
