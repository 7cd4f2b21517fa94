"""`to_torch`: a program becomes a torch module."""

from __future__ import annotations

from torch import fx, nn

from ...runtime.errors import ConversionError, require_supported
from ...runtime.ir.flow import Flow
from ...runtime.ir.program import Program, require_program
from ...runtime.ir.types import Value, is_floating
from ..structure.interfaces import interfaces
from . import tables  # noqa: F401  (fills the table)
from .graphs import GraphWriter, Holdings, Missing
from .modules import GraphCell, VaryingCell, as_tensor, held
from .network import Module, TorchNetwork


def to_torch(program: Program) -> nn.Module:
    """Make a torch module of a program.

    Its modules are nested as those of the captured module were, under the same names, and each is called where that one
    was, so that hooks see the same tensors. Each is a `torch.fx.GraphModule`: `code` shows what it computes. One whose
    calls compute different things has a graph for each.

    Args:
        program: what `from_torch`, `from_onnx` or `runtime.load` gives.

    Returns:
        The module, with a copy of the parameters (those that aren't trainable don't require gradients; shared ones are
        shared) and buffers. It takes and returns what the program does, with tensors; symbolic sizes stay so. Batch
        norm and dropout do what they did when the program was captured, whatever `train()` says; random ops draw from
        torch's generator.

    Raises:
        UnsupportedOperators: ops, or uses of them, that torch has no expression for; all are listed.
        UsageError: it isn't a program.
        ConversionError: a Cell calls itself, or an argument that isn't a tensor can't be a default.
    """
    require_program(program)
    return _Assembly(TorchNetwork(program)).module()


class _Assembly:
    """Writes the graphs, from those that are called to those that call, and then makes the modules."""

    def __init__(self, network: TorchNetwork) -> None:
        self.network = network
        self.found = interfaces(network)
        self.holdings = {module: Holdings(module) for module in network.modules.values()}
        self.graphs: dict[Module, list[fx.Graph]] = {}
        self.variant_of: dict[int, int] = {}
        self.missing: Missing = []

    def module(self) -> nn.Module:
        """The whole module."""
        self._write(self.network.root, ())
        require_supported(self.missing, "the program can't be written in torch: {} of ops without a form")
        tensors = self._tensors()
        made: dict[Module, nn.Module] = {}
        for module in list(self.network.root.all())[::-1]:
            made[module] = self._made(module, made, tensors)
        for module, holdings in self.holdings.items():
            cell = made[module]
            for graph_cell in cell.variants if isinstance(cell, VaryingCell) else [cell]:
                # known, not held: these have their places elsewhere
                vars(graph_cell).update((name, made[borrowed]) for name, borrowed in holdings.borrowed.items())
        root = made[self.network.root]
        for part in root.modules():
            part.training = self.network.program.train
        return root

    def _write(self, module: Module, callers: tuple[Module, ...]) -> None:
        """The graphs of a module's calls, after those of the modules that they call."""
        if module in callers:
            raise ConversionError(f"Cell {module.path or '(root)'} calls itself, which a torch graph can't")
        if module in self.graphs:
            return
        for flow in module.calls:
            for child in self.network.children(flow):
                self._write(self.network.of(child), (*callers, module))
        graphs: dict[str, fx.Graph] = {}
        for flow in module.calls:
            graph = self._graph(module, flow)
            text = graph.python_code("self").src
            graphs.setdefault(text, graph)
            self.variant_of[flow.number] = list(graphs).index(text)
        self.graphs[module] = list(graphs.values())

    def _graph(self, module: Module, flow: Flow) -> fx.Graph:
        return GraphWriter(self.network, flow, self.found, self.holdings[module], self._variant, self.missing).write()

    def _variant(self, number: int) -> int | None:
        graphs = self.graphs[self.network.of(self.network.flows[number])]
        return self.variant_of[number] if len(graphs) > 1 else None

    def _tensors(self) -> dict[Value, nn.Parameter | nn.Buffer]:
        program = self.network.program
        found: dict[Value, nn.Parameter | nn.Buffer] = {}
        for parameter in program.parameters.values():
            data = as_tensor(program.constant_data[parameter.value])
            found[parameter.value] = nn.Parameter(data, parameter.trainable and is_floating(parameter.value.dtype))
        for buffer in program.buffers.values():
            found[buffer.value] = nn.Buffer(as_tensor(program.constant_data[buffer.value]))
        return found

    def _made(
        self, module: Module, made: dict[Module, nn.Module], tensors: dict[Value, nn.Parameter | nn.Buffer]
    ) -> nn.Module:
        program = self.network.program
        holder = nn.Module()
        for attribute, name in module.state.items():
            stored = program.parameters.get(name) or program.buffers[name]
            setattr(holder, attribute, tensors[stored.value])
        for name, (value, data) in self.holdings[module].constants.items():
            holder.register_buffer(name, as_tensor(data.astype(value.dtype, copy=False)), persistent=False)
        for name, child in module.children.items():
            holder.add_module(name, made[child])
        graphs = self.graphs.get(module, [])
        if not graphs:
            return holder
        state = held(holder)
        bodies: dict[str, nn.Module] = {}  # inner ones come first; none is a module of its own
        for name, graph in self.holdings[module].bodies.items():
            bodies[name] = GraphCell(state | bodies, graph, "Body")
        cells = [GraphCell(state | bodies, graph, module.class_name or "Module") for graph in graphs]
        return cells[0] if len(cells) == 1 else VaryingCell(cells)
