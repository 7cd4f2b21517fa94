"""The names of values within one call: the scope in which ops are written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.ir.dims import Dim, SymbolicDim
from ...runtime.ir.flow import Flow
from ...runtime.ir.types import Node, Value
from ...runtime.namespace import unique_name
from ..structure.interfaces import Interface
from .forms.table import dtype_name
from .layers.network import Array, CellModule, CellNetwork
from .text.dimensions import dimension
from .text.expressions import Expression, attribute_of, call, number
from .text.statements import ValueMarks


class CallScope:
    """The scope of one call.

    Attributes:
        marks: marks of the values that get names.
        inlined: expressions that replace values while a statement is built.
        sizes: names of the sizes that the call uses and that it must compute from its arguments.
        helpers: requested helper functions.
    """

    def __init__(self, network: CellNetwork, flow: Flow, interfaces: Sequence[Interface]) -> None:
        self.network = network
        self.literals = network.literals
        self.target = network.target
        self.module: CellModule = network.module_of(flow)
        self.interface = interfaces[flow.number]
        self.marks = ValueMarks()
        self.inlined: dict[Value, Expression] = {}
        self.sizes: set[str] = set()
        self.helpers: set[str] = set()
        self._producers = {value: node for node in network.inner(flow) for value in node.outputs}

    def tensor(self, value: Value) -> Expression:
        """The expression of a value."""
        value = self.resolve(value)
        if value in self.inlined:
            return self.inlined[value]
        if value in self.network.names and value not in self.interface.parameters:
            return Expression(self.access(value))
        if value in self.network.constants:
            return self._constant(value)
        return Expression(self.marks.mark(value))

    def scalar(self, value: Value) -> Any:
        """The number in a constant."""
        return self.network.scalar(value)

    def constant(self, value: Value) -> Array | None:
        """The data of a constant."""
        return self.network.constants.get(value)

    def producer(self, value: Value) -> Node | None:
        """The node of this call that computes a value."""
        return self._producers.get(value)

    def size(self, dim: Dim) -> str:
        """A dimension in terms of the sizes of the arguments."""
        if isinstance(dim, SymbolicDim):
            self.sizes |= dim.symbols() - set(self.interface.symbols)
        return dimension(dim, self.network.size_names).text

    def use(self, helper: str) -> None:
        """Request a helper function."""
        self.helpers.add(helper)

    def resolve(self, value: Value) -> Value:
        """The value that boundaries of the root pass on."""
        node = self._producers.get(value)
        while node is not None and node.op == "boundary" and node.inputs[0] is not None:
            value = node.inputs[0]
            node = self._producers.get(value)
        return value

    def access(self, value: Value) -> str:
        """The expression of a value's Parameter, starting from `self`."""
        owner = self.network.owner(value, self.module)
        assert owner is not None, f"{value} is passed where no module below holds it"
        module, attribute = owner
        return attribute_of(self.path(module), module.layer_name(attribute))

    def path(self, module: CellModule) -> str:
        """The expression, starting from `self`, of this module, a submodule or a borrowed module."""
        if module in self.module.borrowed:
            return attribute_of("self", self.module.borrowed[module])
        return module.path_from(self.module)

    def _constant(self, value: Value) -> Expression:
        data = self.network.constants[value]
        if data.ndim == 0:
            return call("Tensor", self.literals.hole(number(data[()]), "value"), dtype_name(value.dtype))
        constant_names = {constant: name for name, constant in self.module.constants.items()}
        if value not in constant_names:
            name = unique_name("constant", (*self.module.constants, *self.module.state, *self.module.children))
            self.module.constants[name] = value
            return Expression(f"self.{name}")
        return Expression(f"self.{constant_names[value]}")
