"""`Lowering`: from a program to one ONNX model, step by step."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Sequence

import onnx

from ..ir.program import Program
from ..ir.types import Node, Type, Value
from ..visible import encodable_name
from . import opsets, passes
from .deferred import Array, Deferred
from .emitted import live, node_proto
from .nodes import ProgramGraph, lower
from .precomputed import Precomputed

Named = Sequence[tuple[str, Value]]
Shape = Callable[[str, Type], Sequence[int | str]]
"""The shape of a tensor of the model as it is written, by the tensor's name and type."""


def symbolic_shape(name: str, type: Type) -> list[int | str]:
    """Sizes, and the texts of symbolic dimensions."""
    return [dim if isinstance(dim, int) else str(dim) for dim in type.shape]


class Lowering:
    """One program on its way: which tensor each value is, and what the tensors are called in the end.

    Args:
        program: what is lowered.
        opset: version of the operator set.
        inputs: what the model takes: inputs of the program, and those of its parameters and buffers that are to be
            handed in at each run; the others are in the model.
        results: what the model gives.
        ceiling: up to which opset operators are kept whole where that takes a newer one; see `lower_program`.

    Attributes:
        graph: what is emitted so far.
        tensors: the tensor that each value is.
    """

    def __init__(self, program: Program, opset: int, inputs: Named, results: Named, ceiling: int | None = None) -> None:
        self.program = program
        self.graph = ProgramGraph(opset, ceiling)
        self.tensors: dict[Value, str] = {}
        handed_in = {value for _, value in inputs}
        stored = {p.value: name for name, p in program.parameters.items()}
        stored |= {b.value: name for name, b in program.buffers.items()}
        # names that others rely on are given first
        for value, name in stored.items():
            if value not in handed_in:
                self.graph.sources[self._define(value, name)] = (name,)
        for name, value in inputs:
            self.graph.sizes.bind(self._define(value, name), value.shape)
        self.inputs = [value for _, value in inputs]
        self.results = [(self.graph.unique(name), value) for name, value in results]
        for constant in program.constants:
            self._define(constant.value, constant.value.name)
        for value, data in program.constant_data.items():
            if value not in handed_in:
                self.graph.initializers[self.tensors[value]] = data

    def _define(self, value: Value, name: str) -> str:
        tensor = self.tensors[value] = self.graph.define(name, value.type)
        return tensor

    def lower(self, nodes: Sequence[Node]) -> None:
        """Emit the nodes by the `onnx` rules of their ops; what has none and depends on no input is computed."""
        lower(self.graph, self.program, nodes, self.tensors, Precomputed(self.program, self.inputs))

    def optimize(self) -> None:
        """Make the graph smaller and leave its numbers as they are."""
        passes.optimize(self.graph, [self.tensors[value] for _, value in self.results])

    def initializers(self) -> dict[str, Array | Deferred]:
        """The tensors that are in the model, by name: those that nodes take."""
        used = {name for node in self.graph.nodes for name in node.taken()}
        return {name: array for name, array in self.graph.initializers.items() if name in used}

    def computed_parameters(self) -> dict[str, tuple[str, ...]]:
        """The initializers that are computed of parameters and buffers, and of which."""
        sources = self.graph.sources
        return {name: sources[name] for name in self.graph.initializers if name in sources and sources[name] != (name,)}

    def model(
        self, shape: Shape = symbolic_shape, metadata: Iterable[onnx.StringStringEntryProto] = ()
    ) -> onnx.ModelProto:
        """The model without its initializers."""
        self.tensors = {value: self.graph.current(tensor) for value, tensor in self.tensors.items()}
        computed = {tensor for node in self.graph.nodes for tensor in node.outputs}
        names: dict[str, str] = {}
        for name, value in self.results:
            tensor = self.tensors[value]
            if tensor in names or tensor not in computed:  # handed out twice; an input or constant handed through
                with self.graph.at_root():
                    tensor = self.graph.op("Identity", tensor)
            names[tensor] = name
        nodes = self.graph.nodes = live(self.graph.nodes, set(names))
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
    """Parsing the package's metadata takes longer than writing a small model."""
    return importlib.metadata.version("cellbridge")


def lower_program(
    program: Program, nodes: Sequence[Node], choice: opsets.Choice, inputs: Named, results: Named
) -> tuple[Lowering, opsets.Choice]:
    """The nodes of a program, emitted in the opset that was asked for, or in the lowest that holds them; and that.

    Raises:
        UnsupportedOperators: ops of inputs that have no ONNX form.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes, or in that opset.
    """
    while True:
        lowering = Lowering(program, choice.opset, inputs, results, choice.ceiling)
        try:
            lowering.lower(nodes)
        except opsets.NewerOpset as newer:
            choice = choice.risen(newer)
        else:
            return lowering, choice


def _value_info(name: str, type: Type, shape: Shape) -> onnx.ValueInfoProto:
    element = onnx.helper.np_dtype_to_tensor_dtype(type.dtype)
    return onnx.helper.make_tensor_value_info(name, element, shape(name, type))
