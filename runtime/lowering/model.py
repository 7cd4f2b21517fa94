"""`Lowering`: the lowering of one program to an ONNX model."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import onnx

from ..ir.program import Program
from ..ir.types import Node, Type, Value
from ..providers import find
from ..visible import encodable_name
from . import opsets, passes
from .deferred import Array, DeferredTensor
from .nodes import ProgramGraph, lower
from .onnx_node import live_nodes, node_proto
from .precomputed import Precomputed

Named = Sequence[tuple[str, Value]]
Shape = Callable[[str, Type], Sequence[int | str]]
"""Returns the shape to write for a tensor of the model, given its name and type."""


def symbolic_shape(name: str, type: Type) -> list[int | str]:
    """Return the sizes of a shape, with text for symbolic dimensions."""
    return [dim if isinstance(dim, int) else str(dim) for dim in type.shape]


class Lowering:
    """The state of lowering one program: the tensor of each value, and the final names of the tensors.

    Args:
        program: the program to lower.
        opset: version of the operator set.
        inputs: the inputs of the model: inputs of the program, and those of its parameters and buffers that are passed
            in each run; the others are stored in the model.
        results: the outputs of the model.
        ceiling: the newest opset that may be chosen to keep operators whole; see `lower_program`.

    Attributes:
        graph: the nodes and tensors emitted so far.
        tensors: the name of the tensor of each value.
    """

    def __init__(self, program: Program, opset: int, inputs: Named, results: Named, ceiling: int | None = None) -> None:
        self.program = program
        self.graph = ProgramGraph(opset, ceiling)
        self.tensors: dict[Value, str] = {}
        extra_inputs = {value for _, value in inputs}
        stored = {p.value: name for name, p in program.parameters.items()}
        stored |= {b.value: name for name, b in program.buffers.items()}
        # parameters and buffers first, so that they get their own names
        for value, name in stored.items():
            if value not in extra_inputs:
                self.graph.sources[self._define(value, name)] = (name,)
        for name, value in inputs:
            self.graph.sizes.bind(self._define(value, name), value.shape)
        self.inputs = [value for _, value in inputs]
        self.results = [(self.graph.unique(name), value) for name, value in results]
        for constant in program.constants:
            self._define(constant.value, constant.value.name)
        stored_data = program.constant_data
        tensor: Array | DeferredTensor
        for value in stored_data:
            if value in extra_inputs:
                continue
            if stored_data.is_read_when_used(value):
                tensor = DeferredTensor(value.type, partial(stored_data.read, value), in_file=True)
            else:
                tensor = stored_data[value]
            self.graph.initializers[self.tensors[value]] = tensor

    def _define(self, value: Value, name: str) -> str:
        tensor = self.tensors[value] = self.graph.define(name, value.type)
        return tensor

    def lower(self, nodes: Sequence[Node]) -> None:
        """Emit the nodes by the `onnx` rules of their ops; nodes without one are computed if they use no input."""
        lower(self.graph, self.program, nodes, self.tensors, Precomputed(self.program, self.inputs))

    def optimize(self, provider: str = "cpu") -> None:
        """Make the graph smaller, and faster on a provider, without changing its results."""
        passes.optimize(
            self.graph, [self.tensors[value] for _, value in self.results], passes.OF_DEVICE[find(provider).device]
        )

    def initializers(self) -> dict[str, Array | DeferredTensor]:
        """Return the tensors to store in the model, by name: those that nodes use."""
        used_names = {name for node in self.graph.nodes for name in node.used_tensors()}
        return {name: array for name, array in self.graph.initializers.items() if name in used_names}

    def computed_parameters(self) -> dict[str, tuple[str, ...]]:
        """Return the initializers computed from parameters and buffers: for each name, the names of its sources."""
        sources = self.graph.sources
        return {name: sources[name] for name in self.graph.initializers if name in sources and sources[name] != (name,)}

    def model(
        self, shape: Shape = symbolic_shape, metadata: Iterable[onnx.StringStringEntryProto] = ()
    ) -> onnx.ModelProto:
        """Return the model without its initializers."""
        self.tensors = {value: self.graph.current(tensor) for value, tensor in self.tensors.items()}
        computed = {tensor for node in self.graph.nodes for tensor in node.outputs}
        names: dict[str, str] = {}
        for name, value in self.results:
            tensor = self.tensors[value]
            if tensor in names or tensor not in computed:  # returned twice, or an input or constant
                with self.graph.at_root():
                    tensor = self.graph.op("Identity", tensor)
            names[tensor] = name
        nodes = self.graph.nodes = live_nodes(self.graph.nodes, set(names))
        computed = {tensor for node in nodes for tensor in node.outputs}
        between: list[tuple[str, Value]] = []
        for value, tensor in self.tensors.items():
            if tensor in computed and tensor not in names:
                names[tensor] = self.graph.unique(value.name)
                between.append((names[tensor], value))

        def infos(named: Iterable[tuple[str, Value]]) -> list[onnx.ValueInfoProto]:
            return [_value_info(name, value.type, shape) for name, value in named]

        graph = onnx.GraphProto(
            name=encodable_name(self.program.calls[0].class_name),
            node=[node_proto(node, names) for node in nodes],
            input=infos((self.tensors[value], value) for value in self.inputs),
            output=infos(self.results),
            value_info=infos(between),
        )
        return onnx.ModelProto(
            ir_version=opsets.ir_version(self.graph.opset),
            producer_name="cellbridge",
            producer_version=_installed_version(),
            opset_import=[onnx.helper.make_opsetid("", self.graph.opset)],
            metadata_props=metadata,
            graph=graph,
        )


@functools.cache
def _installed_version() -> str:
    """Cached, since parsing the package's metadata takes longer than writing a small model."""
    return importlib.metadata.version("cellbridge")


def lower_program(
    program: Program, nodes: Sequence[Node], choice: opsets.Choice, inputs: Named, results: Named
) -> tuple[Lowering, opsets.Choice]:
    """Lower nodes of a program in the requested opset, or in the lowest that can express them; also return the choice.

    Raises:
        UnsupportedOperators: ops that depend on inputs have no ONNX form.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes, or in that opset.
    """
    while True:
        try:
            lowering = Lowering(program, choice.opset, inputs, results, choice.ceiling)
            lowering.lower(nodes)
        except opsets.NewerOpset as newer:
            choice = choice.after(newer)
        else:
            return lowering, choice


def _value_info(name: str, type: Type, shape: Shape) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(type.dtype)
    return onnx.helper.make_tensor_value_info(name, element, shape(name, type))
