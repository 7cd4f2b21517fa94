"""The float network under construction: nodes in order with their Cells, and stored tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from ....converter.onnx_in.model.cells import SCOPES
from ....converter.onnx_in.model.order import topological_order
from ....runtime.lowering.graph import CELL
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


ENDINGS = ("_quant", "_MatMul", "_Add")  # suffixes that onnxruntime.quantization adds to names of nodes


class CellAssigner:
    """The nodes of a float file, by their names and outputs."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._by_output: dict[str, NodeProto] = {name: node for node in graph.node for name in node.output if name}
        self._by_name: dict[str, NodeProto] = {node.name: node for node in graph.node if node.name}
        self._places = {name: position for position, node in enumerate(graph.node) for name in node.output if name}

    def assign_cells(self, nodes: Sequence[NodeProto]) -> None:
        """Give each node without a Cell the name and metadata of the corresponding node of the float file.

        A node that computes an intermediate result that the float file lacks belongs to the node that uses it.
        """
        of_value: dict[str, NodeProto] = {}
        for node in reversed(nodes):
            counterpart = self._counterpart(node)
            if counterpart is None and not _has_cell(node):
                counterpart = next((of_value[name] for name in node.output if name in of_value), None)
            if counterpart is not None and not _has_metadata(node):
                node.name = counterpart.name
                del node.metadata_props[:]
                node.metadata_props.extend(counterpart.metadata_props)
            if counterpart is not None or _has_cell(node):
                of_value.update(dict.fromkeys(node.input, counterpart if counterpart is not None else node))

    def in_order(self, nodes: Sequence[NodeProto]) -> Sequence[NodeProto]:
        """Return nodes in the order of the float file, which a quantizer changes: a Cell's outputs are known by it.

        A node that computes an intermediate result that the float file lacks comes before the node that uses it.
        """
        after: dict[str, int] = {}
        places: list[int] = []
        for node in reversed(nodes):
            positions = [self._places[name] for name in node.output if name in self._places]
            position = min(
                positions or [after[name] for name in node.output if name in after], default=len(self._places)
            )
            after |= {name: min(position, after.get(name, position)) for name in node.input}
            places.append(position)
        numbered = sorted(zip(reversed(places), range(len(nodes)), strict=True))
        return topological_order([nodes[number] for _, number in numbered])

    def _counterpart(self, node: NodeProto) -> NodeProto | None:
        for name in node.output:
            if name in self._by_output:
                return self._by_output[name]
        name = node.name
        while name and name not in self._by_name:
            ending = next((suffix for suffix in ENDINGS if name.endswith(suffix)), "")
            name = name.removesuffix(ending) if ending else ""
        return self._by_name.get(name)


def _has_metadata(node: NodeProto) -> bool:
    return any(entry.key in (CELL, SCOPES) for entry in node.metadata_props)


def _has_cell(node: NodeProto) -> bool:
    """Whether a node's metadata or name determines its Cell."""
    return _has_metadata(node) or (node.name.startswith("/") and node.name.count("/") > 1)
