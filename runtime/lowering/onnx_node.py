"""ONNX nodes and subgraphs as the lowering emits them, and their conversion to protobuf messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from ..errors import ConversionError
from ..ir.dims import SymbolicDim
from ..ir.types import Type

# operators whose outputs after the first are optional: ONNX Runtime is faster without the indices of a max pool
OPTIONAL_OUTPUTS = frozenset({"MaxPool", "LSTM", "GRU", "RNN"})


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """One ONNX node. Its tensors may still be renamed."""

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    metadata: dict[str, str]

    def used_tensors(self) -> set[str]:
        """Return the tensors that the node uses, including those that its subgraphs use from outside."""
        names = set(filter(None, self.inputs))
        for item in self.attributes.values():
            if isinstance(item, Subgraph):
                names |= item.used_tensors()
        return names

    def with_inputs(self, names: Mapping[str, str]) -> OnnxNode:
        """Return the node with its inputs replaced as `names` says, including in its subgraphs."""
        if not any(name in names for name in self.used_tensors()):
            return self
        attributes = {
            key: item.with_inputs(names) if isinstance(item, Subgraph) else item
            for key, item in self.attributes.items()
        }
        return replace(self, inputs=tuple(names.get(name, name) for name in self.inputs), attributes=attributes)

    def with_operator(self, op_type: str, inputs: tuple[str, ...], attributes: dict[str, Any]) -> OnnxNode:
        """Return another node in place of this one: of the same Cell, with the same outputs."""
        return replace(self, op_type=op_type, inputs=inputs, attributes=attributes)


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph that is an attribute of a node; it may use tensors of the enclosing graphs.

    Attributes:
        name: name of the graph.
        inputs: names and types of the inputs that the node passes to it.
        outputs: names and types of its outputs.
        nodes: in order of computation.
    """

    name: str
    inputs: tuple[tuple[str, Type], ...]
    outputs: tuple[tuple[str, Type], ...]
    nodes: tuple[OnnxNode, ...]

    def used_tensors(self) -> set[str]:
        """Return the tensors of enclosing graphs that it uses."""
        used_names = {name for name, _ in self.outputs}.union(*(node.used_tensors() for node in self.nodes))
        return used_names.difference((name for name, _ in self.inputs), *(node.outputs for node in self.nodes))

    def with_inputs(self, names: Mapping[str, str]) -> Subgraph:
        """Return the graph with tensors of enclosing graphs replaced as `names` says."""
        return replace(self, nodes=tuple(node.with_inputs(names) for node in self.nodes))


def live_nodes(nodes: list[OnnxNode], results: set[str]) -> list[OnnxNode]:
    """Return the nodes that the tensors `results` depend on, without optional outputs that nothing uses."""
    used_names = set(results)
    kept: list[OnnxNode] = []
    for node in reversed(nodes):
        if not used_names.intersection(node.outputs):
            continue
        count = len(node.outputs)
        while node.op_type in OPTIONAL_OUTPUTS and count > 1 and node.outputs[count - 1] not in used_names:
            count -= 1
        kept.append(node if count == len(node.outputs) else replace(node, outputs=node.outputs[:count]))
        used_names |= node.used_tensors()
    return kept[::-1]


def node_proto(node: OnnxNode, names: Mapping[str, str]) -> onnx.NodeProto:
    """Return the node as a protobuf message, with its tensors renamed as `names` says."""
    proto = onnx.NodeProto(
        op_type=node.op_type,
        name=node.name,
        input=[names.get(name, name) for name in node.inputs],
        output=[names.get(name, name) for name in node.outputs],
        attribute=[_attribute(node, key, value, names) for key, value in node.attributes.items()],
    )
    for key, text in node.metadata.items():
        proto.metadata_props.add(key=key, value=text)
    return proto


def graph_proto(graph: Subgraph, names: Mapping[str, str]) -> onnx.GraphProto:
    """Return a subgraph as a protobuf message, with tensors of enclosing graphs renamed as `names` says."""
    return onnx.GraphProto(
        name=graph.name,
        node=[node_proto(node, names) for node in live_nodes(list(graph.nodes), {name for name, _ in graph.outputs})],
        input=[value_info(name, type) for name, type in graph.inputs],
        output=[value_info(name, type) for name, type in graph.outputs],
    )


def value_info(name: str, type: Type) -> onnx.ValueInfoProto:
    """Return name, dtype and shape of a tensor as a protobuf message; symbolic dimensions as text."""
    shape = [dim if isinstance(dim, int) else str(dim) for dim in type.shape]
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(type.dtype), shape)


def _attribute(node: OnnxNode, key: str, value: Any, names: Mapping[str, str]) -> onnx.AttributeProto:
    if isinstance(value, Subgraph):
        return onnx.helper.make_attribute(key, graph_proto(value, names))
    items = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, SymbolicDim) for item in items):
        raise ConversionError(f"attribute {key}={value} of ONNX {node.op_type} must be known at export")
    if isinstance(value, np.dtype):
        value = onnx.helper.np_dtype_to_tensor_dtype(value)
    elif isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    return onnx.helper.make_attribute(key, value, attr_type=None if len(items) else onnx.AttributeProto.INTS)
