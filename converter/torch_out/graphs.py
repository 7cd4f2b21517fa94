"""The conversion of one Cell call to a graph of torch functions and calls of other Cells."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from ...runtime.ir.flow import Flow
from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Source, Value
from ...runtime.namespace import Namespace
from ..dtypes import torch_dtype
from ..structure.interfaces import Interface, interfaces
from ..structure.naming import identifier
from ..structure.network import Array
from ..unsupported import Unsupported
from .calls import functions
from .network import TorchModule, TorchNetwork
from .recording import to_graph
from .signature import result_of, root_inputs
from .sizes import Sizes
from .tables.table import FORMS, NO_FORM, TAKE_NUMBERS, Context
from .walk import ForwardParameter, Graph

Missing = list[tuple[str, str, str]]


class ModuleExtras:
    """What a module holds besides its parameters, buffers and children.

    Attributes:
        constants: constants of the program, by attribute, each with its data.
        elsewhere: called modules that aren't below this one, by name.
        bodies: graphs of sub-programs (of branches and loops), by name.
    """

    def __init__(self, module: TorchModule) -> None:
        self._names = module.names
        self.constants: dict[str, tuple[Value, Array]] = {}
        self.elsewhere: dict[str, TorchModule] = {}
        self.bodies: dict[str, Graph] = {}
        self._names_by_key: dict[Any, str] = {}

    def constant(self, value: Value, data: Array) -> str:
        """The attribute of a constant; equal constants share one."""
        key = value.dtype, data.dtype, data.shape, hashlib.sha256(data.tobytes()).digest()
        if key not in self._names_by_key:
            self._names_by_key[key] = self._names.unique(identifier(value.name.replace(".", "_")))
            self.constants[self._names_by_key[key]] = value, data
        return self._names_by_key[key]

    def borrow(self, module: TorchModule) -> str:
        """The name for a module that isn't below this one."""
        if module not in self._names_by_key:
            self._names_by_key[module] = self._names.unique(identifier(module.name))
            self.elsewhere[self._names_by_key[module]] = module
        return self._names_by_key[module]

    def body(self, name: str, graph: Graph) -> str:
        """The name for the graph of a sub-program; equal graphs share one."""
        if graph.key not in self._names_by_key:
            self._names_by_key[graph.key] = self._names.unique(identifier(name))
            self.bodies[self._names_by_key[graph.key]] = graph
        return self._names_by_key[graph.key]


class GraphWriter:
    """Creates the graph of one call.

    Args:
        network: the modules of the program.
        flow: the data flow of the call.
        call_interfaces: the interface of each call, by number.
        extras: the extras of the call's module, to which constants and sub-programs are added.
        variants: returns the index of a call among the variants of its module; None if there is only one.
        missing: collects the ops without a form, as (op, Cell, source line).
    """

    def __init__(
        self,
        network: TorchNetwork,
        flow: Flow,
        call_interfaces: Sequence[Interface],
        extras: ModuleExtras,
        variants: Callable[[int], int | None],
        missing: Missing,
    ) -> None:
        self.network = network
        self.program = network.program
        self.flow = flow
        self.module = network.module_of(flow)
        self.interface = call_interfaces[flow.number]
        self.call_interfaces = call_interfaces
        self.extras = extras
        self.variants = variants
        self.missing = missing
        self.recorded = fx.Graph()
        self.recorded._graph_namespace.create_name("self", None)  # reserves the name
        self.tracer: Any = fx.proxy.GraphAppendingTracer(self.recorded)
        self.arguments: list[ForwardParameter] = []
        self.sizes = Sizes(self.tracer, self._symbol)
        self.proxies: dict[Value, Any] = {}
        self.symbols: dict[str, Any] = {}
        self._device: dict[str, Any] | None = None

    def write(self) -> Graph:
        """The graph of the call."""
        marked = self._root() if self.flow.number == 0 else self._parameters()
        self._like = next((self.proxies[value] for value in marked), None)
        for part in self.flow.body:
            if isinstance(part, int):
                self._call(part)
            else:
                self._node(part)
        for buffer, value in self.interface.updates:
            self._attribute(self._path_of(buffer)).copy_(self.value(value).detach())
        self._return()
        return to_graph(self.recorded, self.arguments, self.extras.bodies, self.extras.elsewhere)

    # ---- inputs and outputs ----

    def _root(self) -> Sequence[Value]:
        inputs = self.interface.parameters
        order = [
            node.inputs[0]
            for node in self.network.inner(self.flow)
            if node.op == "boundary" and node.attributes["kind"] == "input" and node.attributes["call"] == 0
        ]
        values, slots = [v for v in order if v is not None], self.interface.slots
        self.proxies |= root_inputs(self.program, slots, values, self._placeholder, self.tracer)
        return inputs

    def _parameters(self) -> Sequence[Value]:
        """Add placeholders for the tensors of the original module, the extra tensors, and sizes."""
        count = len(self.flow.entries)
        names = Namespace(["self"])
        for value, slot in zip(self.interface.parameters[:count], self.interface.slots, strict=False):
            self.proxies[value] = self._placeholder(names.unique(identifier(slot)), slot)
        carried = self.interface.parameters[count:]
        if carried:
            bundle: Any = self._placeholder(names.unique("carried"))
            self.proxies.update((value, bundle[i]) for i, value in enumerate(carried))
        for symbol in self.interface.symbols:
            self.symbols[symbol] = self._placeholder(names.unique(identifier(symbol)))
        return [*self.interface.parameters[:count], *carried]

    def _placeholder(self, name: str, key: str = "", default: tuple[Any, ...] = ()) -> fx.Proxy:
        self.arguments.append(ForwardParameter(name, key or name, default))
        proxy: fx.Proxy = self.tracer.create_proxy("placeholder", name, (), {})
        return proxy

    def _return(self) -> None:
        if self.flow.number == 0:
            outputs = [self.value(value) for value in self.program.outputs]
            self._set_remaining_buffers()
            result = result_of(self.program, outputs, self.tracer)
        else:
            count = len(self.flow.exits)
            items = [self.value(value) for value in self.interface.results[:count]]
            carried = [self.value(value) for value in self.interface.results[count:]]
            if carried:
                items.append(self.tracer.create_proxy("call_function", functions.ExtraTensors, tuple(carried), {}))
            result = items[0] if _is_bare(self.flow, len(items)) else tuple(items) or None
        self.tracer.create_proxy("output", "output", (result,), {})

    def _set_remaining_buffers(self) -> None:
        """Set the buffers whose new value no call computes, because it is a constant or another stored tensor."""
        stored = {*self.network.constants, *self.network.names}
        for name, value in self.program.updates.items():
            if value in stored and value is not self.program.buffers[name].value:
                buffer = self._attribute(self._path_of(self.program.buffers[name].value))
                buffer.copy_(self.value(value).detach())

    # ---- values ----

    def value(self, value: Value) -> Any:
        """The proxy of a value."""
        if value not in self.proxies:
            if value in self.network.names:
                proxy = self._attribute(self._path_of(value))
                buffer = self.program.buffers.get(self.network.names[value])
                # a buffer that is set at the end of the call is read with its old value
                self.proxies[value] = proxy if buffer is None or buffer.update is None else proxy.clone()
            else:
                self.proxies[value] = self._constant(value)
        return self.proxies[value]

    def _constant(self, value: Value) -> Any:
        number = self.network.scalar(value)
        if number is None:
            return self._attribute(self.extras.constant(value, self.network.constants[value]))
        options = {"dtype": torch_dtype(value.dtype), **self.placement()}
        return self.tracer.create_proxy("call_function", torch.full, ((), _number(number)), options)

    def _attribute(self, path: str) -> fx.Proxy:
        proxy: fx.Proxy = self.tracer.create_proxy("get_attr", path, (), {})
        return proxy

    def _path_of(self, value: Value) -> str:
        owner = self.network.owner(value, self.module)
        assert owner is not None, f"{value} is needed in a module that neither holds it nor contains its owner"
        module, attribute = owner
        return ".".join([*module.path_from(self.module), module.attributes[attribute]])

    def _symbol(self, name: str) -> Any:
        if name not in self.symbols:
            self.symbols[name] = self._read(name)
        return self.symbols[name]

    def _read(self, name: str) -> Any:
        solution = self.interface.size(name)
        if solution is not None:
            position, axis, dim = solution
            return self.sizes.solve(self.value(self.interface.parameters[position]), axis, dim)
        value, reading = self.network.size_sources[name]
        proxy = self.value(value)
        if reading.axis is not None and reading.dim is not None:
            return self.sizes.solve(proxy, reading.axis, reading.dim)
        return (proxy[reading.element] if value.shape else proxy).item()

    def placement(self) -> dict[str, Any]:
        """The device of new tensors: that of the first input tensor."""
        if self._device is None:
            self._device = {} if self._like is None else {"device": self._like.device}
        return self._device

    # ---- steps ----

    def _call(self, number: int) -> None:
        called, interface = self.network.flows[number], self.call_interfaces[number]
        count = len(called.entries)
        arguments = [self.value(value) for value in interface.arguments[:count]]
        carried = [self.value(value) for value in interface.arguments[count:]]
        if carried:
            arguments.append(self.tracer.create_proxy("call_function", functions.ExtraTensors, tuple(carried), {}))
        arguments += [self._symbol(symbol) for symbol in interface.symbols]
        variant = self.variants(number)
        options = {} if variant is None else {"variant": variant}
        module = self.network.module_of(called)
        below = self.module in module.lineage() and module is not self.module
        target = ".".join(module.path_from(self.module)) if below else self.extras.borrow(module)
        result = self.tracer.create_proxy("call_module", target, tuple(arguments), options)
        marked, rest = interface.returned[: len(called.exits)], interface.returned[len(called.exits) :]
        items = len(marked) + bool(rest)
        if _is_bare(called, items):
            self.proxies[marked[0]] = result
            return
        self.proxies.update((value, result[i]) for i, value in enumerate(marked))
        if rest:
            bundle = result[len(marked)]
            self.proxies.update((value, bundle[i]) for i, value in enumerate(rest))

    def _node(self, node: Node) -> None:
        form = FORMS.get(node.op)
        try:
            if form is None:
                raise Unsupported(NO_FORM.get(node.op, ""))
            numbers = self._numbers(node)
            operands = [None if v is None else numbers[v] if v in numbers else self.value(v) for v in node.inputs]
            attributes = {
                name: self._body(name, attribute) if isinstance(attribute, Program) else self.sizes.resolve(attribute)
                for name, attribute in node.attributes.items()
            }
            result = form(self._context(node), *operands, **attributes)
        except Unsupported as reason:
            label = f"{node.op}{f' ({reason})' if str(reason) else ''}"
            self.missing.append((label, str(self.program.calls[node.cell]), _line(node.source)))
            result = (self._like,) * len(node.outputs)
        results = result if isinstance(result, tuple) else (result,)
        self.proxies.update(zip(node.outputs, results, strict=True))

    def _body(self, name: str, program: Program) -> fx.Proxy:
        """The module of a sub-program, which shares the state of the enclosing module."""
        flat = program.replace(nodes=tuple(replace(n, cell=0) for n in program.nodes), calls=program.calls[:1])
        network = TorchNetwork(flat)
        call_interfaces = interfaces(network)
        writer = GraphWriter(network, network.flows[0], call_interfaces, self.extras, lambda number: None, self.missing)
        return self._attribute(self.extras.body(name, writer.write()))

    def _numbers(self, node: Node) -> dict[Value, Any]:
        """The constant operands to pass as Python numbers, which keep their full precision."""
        if node.op not in TAKE_NUMBERS:
            return {}
        scalars = {v: self.network.scalar(v) for v in node.inputs if v is not None}
        tensors = [v.dtype for v, number in scalars.items() if number is None]
        return {v: _number(number) for v, number in scalars.items() if number is not None and v.dtype in tensors}

    def _context(self, node: Node) -> Context:
        fixed = self.network.fixed
        return Context(
            self.tracer,
            tuple(None if value is None else value.type for value in node.inputs),
            tuple(value.type for value in node.outputs),
            tuple(value in self.network.used_values for value in node.outputs),
            tuple(value in fixed for value in node.inputs),
            self.sizes,
            self.placement,
        )


def _is_bare(flow: Flow, items: int) -> bool:
    """Whether a call returns a tensor, not a tuple of them."""
    return items == 1 and len(flow.exits) == 1 and not flow.exits[0].attributes["slot"].startswith("[")


def _number(number: Any) -> Any:
    """A NumPy scalar as a Python number, bfloat16 too."""
    return float(number) if number.dtype.name == "bfloat16" else number.item()


def _line(source: Source | None) -> str:
    return "" if source is None else str(source)
