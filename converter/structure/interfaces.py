"""The inputs and outputs of each call, including those that its boundaries don't mark."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic

from ...runtime.ir.dims import SymbolicDim
from ...runtime.ir.flow import Flow
from ...runtime.ir.sizes import symbols_used
from ...runtime.ir.types import Node, Value
from .network import AnyModule, Network


@dataclass
class Interface:
    """The inputs and outputs of a generated call.

    Attributes:
        arguments: the values passed, in the caller.
        parameters: the same values inside the call.
        slots: the names of these values in the original model.
        symbols: sizes passed because no shape of an argument determines them.
        results: the values returned, inside the call.
        returned: the same returned values in the caller.
        updates: the buffers that are assigned here, with their new values.
    """

    arguments: list[Value] = field(default_factory=list)
    parameters: list[Value] = field(default_factory=list)
    slots: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    returned: list[Value] = field(default_factory=list)
    updates: list[tuple[Value, Value]] = field(default_factory=list)

    def size(self, symbol: str) -> tuple[int, int, SymbolicDim] | None:
        """The source of a size: index of the parameter, axis, and the dimension there."""
        for i, value in enumerate(self.parameters):
            for axis, dim in enumerate(value.shape):
                if isinstance(dim, SymbolicDim) and (solution := dim.solve(0)) and solution[0] == symbol:
                    return i, axis, dim
        return None


def interfaces(network: Network[AnyModule]) -> list[Interface]:
    """The interface of each call, by number."""
    return _Analysis(network).run()


class _Analysis(Generic[AnyModule]):
    def __init__(self, network: Network[AnyModule]) -> None:
        self.network = network
        self.interfaces = [Interface() for _ in network.flows]
        self.defined: dict[Value, int] = {}
        self.passed: list[set[Value]] = []  # the parameters of each call, for fast look-up
        self.returned: list[set[Value]] = []

    def _lineage(self, number: int) -> list[int]:
        lineage: list[int] = []
        parent: int | None = number
        while parent is not None:
            lineage.append(parent)
            parent = self.network.program.calls[parent].parent
        return lineage[::-1]

    def run(self) -> list[Interface]:
        for flow, interface in zip(self.network.flows, self.interfaces, strict=True):
            for entry in flow.entries:
                interface.arguments.append(_only(entry))
                interface.parameters.append(entry.outputs[0])
                interface.slots.append(entry.attributes["slot"])
            for end in flow.exits:
                interface.results.append(_only(end))
                interface.returned.append(end.outputs[0])
            self._define(flow)
        for value, slot in self._root_inputs():
            self.interfaces[0].arguments.append(value)
            self.interfaces[0].parameters.append(value)
            self.interfaces[0].slots.append(slot)
        self.passed = [set(interface.parameters) for interface in self.interfaces]
        self.returned = [set(interface.returned) for interface in self.interfaces]
        for flow in self.network.flows:
            self._carry(flow)
        for flow in self.network.flows:
            self._pass_size_sources(flow)
        program = self.network.program
        for value in program.outputs:
            self._use(value, 0)
        for name, value in program.updates.items():
            if value in self.defined:
                self._carry_update(self.network.program.buffers[name].value, value)
        for flow in reversed(self.network.flows):
            self._symbols(flow)
        return self.interfaces

    def _define(self, flow: Flow) -> None:
        parent = flow.call.parent or 0
        inside = [] if self.network.is_opaque(flow) else self.network.inner(flow)
        for node in inside:
            self.defined.update(dict.fromkeys(node.outputs, flow.number))
        for entry in flow.entries:
            self.defined[entry.outputs[0]] = flow.number
        for end in flow.exits:
            self.defined[end.outputs[0]] = parent

    def _root_inputs(self) -> Iterable[tuple[Value, str]]:
        """The program's inputs, with their names in the original."""
        slots = {
            _only(node): node.attributes["slot"]
            for node in self.network.inner(self.network.flows[0])
            if node.op == "boundary" and node.attributes["kind"] == "input"
        }
        for value in self.network.program.inputs:
            self.defined[value] = 0
            yield value, slots.get(value, value.name)

    def _carry(self, flow: Flow) -> None:
        for entry in flow.entries:
            self._use(_only(entry), flow.call.parent or 0)
        if not self.network.is_opaque(flow):
            for node in self.network.inner(flow):
                for value in node.inputs:
                    self._use(value, flow.number)
            for end in flow.exits:
                self._use(_only(end), flow.number)

    def _pass_size_sources(self, flow: Flow) -> None:
        """Pass the values that define data-dependent sizes to the calls that need the sizes."""
        if self.network.is_opaque(flow):
            return
        for node in self.network.inner(flow):
            for symbol in symbols_used(node) & self.network.size_sources.keys():
                if self.interfaces[flow.number].size(symbol) is None:
                    self._use(self.network.size_sources[symbol][0], flow.number)

    def _carry_update(self, buffer: Value, value: Value) -> None:
        """Let the innermost call that contains the computation and can reach the buffer assign the update."""
        number = self.defined[value]
        while self.network.owner(buffer, self.network.module_of(self.network.flows[number])) is None:
            number = self.network.program.calls[number].parent or 0
        self._use(value, number)
        self.interfaces[number].updates.append((buffer, value))

    def _use(self, value: Value | None, number: int) -> None:
        """Pass a value from the call that computes or holds it to the call that uses it."""
        if value is None or value in self.network.constants:
            return
        lineage = self._lineage(number)
        if value in self.network.names:
            holders = [n for n in lineage if self.network.owner(value, self.network.module_of(self.network.flows[n]))]
            source_lineage = self._lineage(holders[-1])
        else:
            source_lineage = self._lineage(self.defined[value])
        common = len([a for a, b in zip(lineage, source_lineage, strict=False) if a == b])
        for n in source_lineage[common:]:
            if value not in self.returned[n]:
                self.returned[n].add(value)
                self.interfaces[n].results.append(value)
                self.interfaces[n].returned.append(value)
        for n in lineage[common:]:
            if value not in self.passed[n]:
                self.passed[n].add(value)
                self.interfaces[n].arguments.append(value)
                self.interfaces[n].parameters.append(value)
                self.interfaces[n].slots.append(value.name.rpartition(".")[2])

    def _symbols(self, flow: Flow) -> None:
        interface = self.interfaces[flow.number]
        if self.network.is_opaque(flow):
            return
        needed = {name for node in self.network.inner(flow) for name in symbols_used(node)}
        for child in self.network.children(flow):
            needed |= set(self.interfaces[child.number].symbols)
        needed -= self.network.size_sources.keys()
        interface.symbols = sorted(name for name in needed if interface.size(name) is None)


def _only(node: Node) -> Value:
    value = node.inputs[0]
    assert value is not None, "a boundary has one operand"
    return value
