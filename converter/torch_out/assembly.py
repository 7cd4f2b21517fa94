"""Assembly of the torch module of a program: a graph for each Cell call, and the modules that walk the graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from ...runtime.errors import ConversionError, require_supported
from ...runtime.ir.flow import Flow
from ...runtime.ir.types import Value, is_floating
from ..dtypes import as_tensor
from ..structure.depth import raise_recursion_limit
from ..structure.interfaces import interfaces
from ..structure.naming import identifier
from ..structure.program_names import NAMES
from .graphs import GraphWriter, Missing, ModuleExtras
from .modules import OWN, CellContents, VaryingCell, create_module, state_of
from .network import TorchModule, TorchNetwork
from .walk import Graph


class Assembly:
    """Creates the graphs, callees before callers, and then the modules."""

    def __init__(self, network: TorchNetwork) -> None:
        self.network = network
        self.interfaces = interfaces(network)
        self.extras = {module: ModuleExtras(module) for module in network.modules.values()}
        self.graphs: dict[TorchModule, list[Graph]] = {}
        self.variant_of: dict[int, int] = {}
        self.missing: Missing = []
        self._ordered: set[TorchModule] = set()

    def module(self) -> nn.Module:
        """The whole module."""
        raise_recursion_limit(max(module.path.count(".") + 1 for module in self.network.modules.values()))
        for module in self._callees_first():
            self._write_graphs(module)
        require_supported(self.missing, "the program can't be written in torch: {} of ops without a form")
        tensors = self._tensors()
        modules: dict[TorchModule, nn.Module] = {}
        for module in list(self.network.root.all())[::-1]:
            modules[module] = self._build(module, modules, tensors)
        for module, extras in self.extras.items():
            # references only: these modules are children of other modules
            elsewhere = {name: modules[path] for name, path in extras.elsewhere.items()}
            for cell in _variants(modules[module]) if elsewhere else ():
                vars(cell)[OWN].elsewhere.update(elsewhere)
        for part in modules.values():
            part.training = self.network.program.train
        root = modules[self.network.root]
        vars(root)[NAMES] = self.network.program_names()
        return root

    def _callees_first(self) -> list[TorchModule]:
        """The modules that are called, each after its callees."""
        order: list[TorchModule] = []
        running: dict[TorchModule, Iterator[TorchModule]] = {self.network.root: self._callees(self.network.root)}
        while running:
            module, callees = next(reversed(running.items()))
            callee = next((other for other in callees if other not in self._ordered), None)
            if callee is None:
                del running[module]
                order.append(module)
                self._ordered.add(module)
            elif callee in running:
                raise ConversionError(f"Cell {callee.path or '(root)'} calls itself, which a torch graph can't")
            else:
                running[callee] = self._callees(callee)
        return order

    def _callees(self, module: TorchModule) -> Iterator[TorchModule]:
        for flow in module.calls:
            for child in self.network.children(flow):
                yield self.network.module_of(child)

    def _write_graphs(self, module: TorchModule) -> None:
        """Create the graphs of a module's calls, one for each set of equal calls."""
        graphs: dict[Any, Graph] = {}
        for flow in module.calls:
            graph = self._graph(module, flow)
            graphs.setdefault(graph.key, graph)
            self.variant_of[flow.number] = list(graphs).index(graph.key)
        self.graphs[module] = list(graphs.values())

    def _graph(self, module: TorchModule, flow: Flow) -> Graph:
        return GraphWriter(
            self.network, flow, self.interfaces, self.extras[module], self._variant, self.missing
        ).write()

    def _variant(self, number: int) -> int | None:
        graphs = self.graphs[self.network.module_of(self.network.flows[number])]
        return self.variant_of[number] if len(graphs) > 1 else None

    def _tensors(self) -> dict[Value, nn.Parameter | nn.Buffer]:
        program = self.network.program
        tensors: dict[Value, nn.Parameter | nn.Buffer] = {}
        for parameter in program.parameters.values():
            data = as_tensor(program.constant_data[parameter.value])
            tensors[parameter.value] = nn.Parameter(data, parameter.trainable and is_floating(parameter.value.dtype))
        for buffer in program.buffers.values():
            tensors[buffer.value] = nn.Buffer(as_tensor(program.constant_data[buffer.value]))
        return tensors

    def _build(
        self, module: TorchModule, modules: dict[TorchModule, nn.Module], tensors: dict[Value, nn.Parameter | nn.Buffer]
    ) -> nn.Module:
        holder = nn.Module()
        for name, value in module.values.items():
            setattr(holder, module.attributes[name], tensors[value])
        for name, (value, data) in self.extras[module].constants.items():
            holder.register_buffer(name, as_tensor(data.astype(value.dtype, copy=False)), persistent=False)
        for child in module.children.values():
            holder.add_module(child.attribute, modules[child])
        graphs = self.graphs.get(module, [])
        if not graphs:
            return holder
        state = state_of(holder)
        bodies: dict[str, nn.Module] = {}  # inner bodies come first; none of them is a submodule
        for name, graph in self.extras[module].bodies.items():
            bodies[name] = create_module("Body", state, CellContents(graph, bodies))
        class_name = identifier(module.class_name, "Module")
        cells = [create_module(class_name, state, CellContents(graph, bodies)) for graph in graphs]
        return cells[0] if len(cells) == 1 else VaryingCell(cells)


def _variants(cell: nn.Module) -> list[nn.Module]:
    return [*cell.variants] if isinstance(cell, VaryingCell) else [cell]
