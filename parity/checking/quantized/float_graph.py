"""The float network under construction: nodes in order, and stored tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from .cell_assigner import CellAssigner
from .stored import StoredTensors


class FloatGraph:
    """Floating-point nodes and their stored tensors.

    Attributes:
        nodes: nodes in order.
        added: stored tensors by name, which replace codes.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.added: dict[str, TensorProto] = {}

    def emit(self, operator: str, inputs: Sequence[str], output: str, like: NodeProto, **attributes: Any) -> NodeProto:
        """Add a node that replaces another one."""
        result = helper.make_node(operator, inputs, [output], like.name, **attributes)
        result.metadata_props.extend(like.metadata_props)
        self.nodes.append(result)
        return result

    def number(self, value: float) -> str:
        """Add a constant, and return its name."""
        name = f"constant {len(self.nodes)}"
        tensor = numpy_helper.from_array(np.array(value, np.float32), name)
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def identity(self, source: str, output: str, like: NodeProto) -> None:
        """Make `output` equal to `source`."""
        if source != output:
            self.emit("Identity", [source], output, like)

    def to_model(self, model: onnx.ModelProto, stored: StoredTensors, cell_assigner: CellAssigner) -> onnx.ModelProto:
        """Return the network as a model, with the quantized model's interface."""
        cell_assigner.assign_cells(self.nodes)
        input_names = {name for node in self.nodes for graph in (node, *inner_nodes(node)) for name in graph.input}
        result = onnx.ModelProto()
        result.ir_version = model.ir_version
        result.opset_import.extend(model.opset_import)
        result.metadata_props.extend(model.metadata_props)
        result.functions.extend(model.functions)
        result.graph.name = model.graph.name
        result.graph.input.extend(value for value in model.graph.input)
        result.graph.output.extend(model.graph.output)
        stored_tensors = {
            name: numpy_helper.from_array(stored.array(name), name)  # including external data
            for name in stored.initializers
            if name in input_names and name not in self.added
        }
        result.graph.initializer.extend((stored_tensors | self.added).values())
        result.graph.node.extend(cell_assigner.in_order(self.nodes))
        return result


def inner_nodes(node: NodeProto) -> list[NodeProto]:
    """Return the nodes of a node's subgraphs."""
    result = []
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                result += [inner, *inner_nodes(inner)]
    return result
