"""`to_onnx`: from a program to one ONNX model of standard operators."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from os import PathLike

import onnx

from ...runtime.errors import UsageError
from ...runtime.interpreter import plan
from ...runtime.ir.program import Program
from ...runtime.ir.types import BFLOAT16, Node, Value
from ...runtime.ops.random import RANDOM_OPS
from .graph import Graph, live, node_proto, value_info
from .lowering import lower
from .metadata import program_metadata
from .naming import input_names, output_names
from .writing import add_initializers, write

OPSETS = range(18, 24)
DEFAULT_OPSET = 20  # the first with Gelu, and one for which ONNX Runtime has all its optimizations
BFLOAT16_OPSET = 22  # the first in which convolution, pooling and their like take bfloat16
METADATA_IR_VERSION = 10  # the first ONNX IR whose nodes have metadata

Named = list[tuple[str, Value]]


def to_onnx(
    program: Program,
    path: str | PathLike[str] | None = None,
    *,
    opset: int | None = None,
    observe: Sequence[Value] = (),
    draws_as_inputs: bool = False,
) -> onnx.ModelProto:
    """Write a program as an ONNX model of standard operators.

    Inputs have the name of the keyword argument that they were captured from (`input_ids`), or else that of their
    value; outputs the keys under which they stand in the result (`logits`), `output_0`, ... where it is a sequence,
    `output` where it is one tensor. After them come the new contents of the buffers that the program changes, as
    `update.<buffer>`. Initializers have the qualified names of parameters and buffers, symbolic dimensions their own.
    The name of a node starts with the path of its Cell; its metadata hold the call of the Cell (`cellbridge.cell`)
    and the line it comes from (`cellbridge.source`).

    Args:
        program: what to write. Nodes, parameters and constants that no output depends on are left out.
        path: the file to write, whole or not at all. Above 2 GB the tensors go to `<path>.data` beside it.
        opset: version of the operator set, 18 to 23; by default 20, or 22 for a program with bfloat16 values.
        observe: more values of the program to hand out, after the outputs, under the names of the values.
        draws_as_inputs: take what random ops would draw as inputs, after the program's own, under the names of the
            values, so that recorded draws can be replayed.

    Returns:
        The model. Where tensors are in the file beside it, the model refers to them.

    Raises:
        UnsupportedOperators: ops that have no ONNX form: all of them, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes, or the model is above 2 GB and
            there is no path to write it to.
        UsageError: the opset isn't supported, or the path can't be written.
    """
    if opset is not None and opset not in OPSETS:
        raise UsageError(f"opset must be {OPSETS.start} to {OPSETS.stop - 1}, given {opset}")
    results: Named = list(zip(output_names(program), program.outputs, strict=True))
    results += [(f"update.{name}", value) for name, value in program.updates.items()]
    results += [(value.name, value) for value in observe]
    nodes = [step.node for step in plan(program, list(dict.fromkeys(value for _, value in results)))]
    drawn = [node for node in nodes if draws_as_inputs and node.op in RANDOM_OPS]
    inputs: Named = list(zip(input_names(program), program.inputs, strict=True))
    inputs += [(node.outputs[0].name, node.outputs[0]) for node in drawn]

    lowering = _Lowering(program, opset or _default_opset(program), inputs, results)
    lowering.lower([node for node in nodes if node not in drawn])
    model = lowering.model()
    used = lowering.taken()
    initializers = {name: array for name, array in lowering.graph.initializers.items() if name in used}
    if path is None:
        add_initializers(model, initializers)
    else:
        write(model, initializers, path)
    return model


def _default_opset(program: Program) -> int:
    values = (*program.inputs, *program.constant_data, *program.producers)
    return BFLOAT16_OPSET if any(value.dtype == BFLOAT16 for value in values) else DEFAULT_OPSET


class _Lowering:
    """One program on its way: which tensor each value is, and what the tensors are called in the end."""

    def __init__(self, program: Program, opset: int, inputs: Named, results: Named) -> None:
        self.program = program
        self.graph = Graph(opset)
        self.tensors: dict[Value, str] = {}
        stored = {p.value: name for name, p in program.parameters.items()}
        stored |= {b.value: name for name, b in program.buffers.items()}
        # names that others rely on are given first
        for value, name in stored.items():
            self._define(value, name)
        for name, value in inputs:
            self.graph.sizes.bind(self._define(value, name), value.shape)
        self.inputs = [value for _, value in inputs]
        self.results = [(self.graph.unique(name), value) for name, value in results]
        for constant in program.constants:
            self._define(constant.value, constant.value.name)
        for value, data in program.constant_data.items():
            self.graph.initializers[self.tensors[value]] = data

    def _define(self, value: Value, name: str) -> str:
        tensor = self.tensors[value] = self.graph.define(name, value.type)
        return tensor

    def lower(self, nodes: list[Node]) -> None:
        """Emit the nodes by the `onnx` rules of their ops."""
        lower(self.graph, self.program, nodes, self.tensors)

    def taken(self) -> set[str]:
        """The tensors that the nodes take."""
        return {name for node in self.graph.nodes for name in node.taken()}

    def model(self) -> onnx.ModelProto:
        """The model without its initializers."""
        computed = {tensor for node in self.graph.nodes for tensor in node.outputs}
        names: dict[str, str] = {}
        for name, value in self.results:
            tensor = self.tensors[value]
            if tensor in names or tensor not in computed:  # handed out twice; an input or constant handed through
                with self.graph.at_root():
                    tensor = self.graph.op("Identity", tensor)
            names[tensor] = name
        nodes = live(self.graph.nodes, set(names))
        computed = {tensor for node in nodes for tensor in node.outputs}
        between: Named = []
        for value, tensor in self.tensors.items():
            if tensor in computed and tensor not in names:
                names[tensor] = self.graph.unique(value.name)
                between.append((names[tensor], value))
        graph = onnx.GraphProto(
            name=self.program.calls[0].class_name,
            node=[node_proto(node, names) for node in nodes],
            input=[value_info(self.tensors[value], value.type) for value in self.inputs],
            output=[value_info(name, value.type) for name, value in self.results],
            value_info=[value_info(name, value.type) for name, value in between],
        )
        operators = onnx.helper.make_opsetid("", self.graph.opset)
        return onnx.ModelProto(
            ir_version=max(METADATA_IR_VERSION, onnx.helper.find_min_ir_version_for([operators])),
            producer_name="cellbridge",
            producer_version=importlib.metadata.version("cellbridge"),
            opset_import=[operators],
            metadata_props=program_metadata(self.program),
            graph=graph,
        )
