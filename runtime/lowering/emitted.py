"""ONNX nodes and subgraphs as the lowering emits them, and as ONNX writes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from ..errors import ConversionError
from ..ir.dims import SymbolicDim
from ..ir.types import Type

# operators whose outputs may be left out, after the first: ONNX Runtime is faster without the indices of a max pool
OPTIONAL_OUTPUTS = frozenset({"MaxPool", "LSTM", "GRU", "RNN"})


@dataclass(frozen=True, slots=True)
class Emitted:
    """One ONNX node. Its tensors may still be renamed."""

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]
    metadata: dict[str, str]

    def taken(self) -> set[str]:
        """The tensors that the node takes, those that its subgraphs take from around them too."""
        names = set(filter(None, self.inputs))
        for item in self.attributes.values():
            if isinstance(item, Subgraph):
                names |= item.taken()
        return names

    def with_inputs(self, names: Mapping[str, str]) -> Emitted:
        """The node with other inputs, where `names` has one for them; in its subgraphs too."""
        if not any(name in names for name in self.taken()):
            return self
        attributes = {
            key: item.with_inputs(names) if isinstance(item, Subgraph) else item
            for key, item in self.attributes.items()
        }
        return replace(self, inputs=tuple(names.get(name, name) for name in self.inputs), attributes=attributes)

    def replaced(self, op_type: str, inputs: tuple[str, ...], attributes: dict[str, Any]) -> Emitted:
        """Another node in the place of this one: of the same Cell, with the same outputs."""
        return replace(self, op_type=op_type, inputs=inputs, attributes=attributes)


@dataclass(frozen=True, slots=True)
class Subgraph:
    """A graph that is an attribute of a node; it may use the tensors of the graphs around it.

    Attributes:
        name: of the graph.
        inputs: name and type of what the node hands it.
        outputs: likewise of what it gives.
        nodes: in order of computation.
    """

    name: str
    inputs: tuple[tuple[str, Type], ...]
    outputs: tuple[tuple[str, Type], ...]
    nodes: tuple[Emitted, ...]

    def taken(self) -> set[str]:
        """The tensors that it takes from the graphs around it."""
        used = {name for name, _ in self.outputs}.union(*(node.taken() for node in self.nodes))
        return used.difference((name for name, _ in self.inputs), *(node.outputs for node in self.nodes))

    def with_inputs(self, names: Mapping[str, str]) -> Subgraph:
        """The graph with other tensors for those that it takes from around it, where `names` has one for them."""
        return replace(self, nodes=tuple(node.with_inputs(names) for node in self.nodes))


def live(nodes: list[Emitted], wanted: set[str]) -> list[Emitted]:
    """The nodes that the tensors `wanted` depend on, without the optional outputs that nothing uses."""
    used = set(wanted)
    kept: list[Emitted] = []
    for node in reversed(nodes):
        if not used.intersection(node.outputs):
            continue
        count = len(node.outputs)
        while node.op_type in OPTIONAL_OUTPUTS and count > 1 and node.outputs[count - 1] not in used:
            count -= 1
        kept.append(node if count == len(node.outputs) else replace(node, outputs=node.outputs[:count]))
        used |= node.taken()
    return kept[::-1]


def node_proto(node: Emitted, names: Mapping[str, str]) -> onnx.NodeProto:
    """The node as ONNX writes it, its tensors renamed as `names` says."""
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
    """A subgraph as ONNX writes it; what it takes from around it is renamed as `names` says."""
    return onnx.GraphProto(
        name=graph.name,
        node=[node_proto(node, names) for node in live(list(graph.nodes), {name for name, _ in graph.outputs})],
        input=[value_info(name, type) for name, type in graph.inputs],
        output=[value_info(name, type) for name, type in graph.outputs],
    )


def value_info(name: str, type: Type) -> onnx.ValueInfoProto:
    """Name, dtype and shape of a tensor; symbolic dimensions by their text."""
    shape = [dim if isinstance(dim, int) else str(dim) for dim in type.shape]
    return onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(type.dtype), shape)


def _attribute(node: Emitted, key: str, value: Any, names: Mapping[str, str]) -> onnx.AttributeProto:
    if isinstance(value, Subgraph):
        return onnx.helper.make_attribute(key, graph_proto(value, names))
    items = value if isinstance(value, (list, tuple)) else [value]
    if any(isinstance(item, SymbolicDim) for item in items):
        raise ConversionError(f"attribute {key}={value} of ONNX {node.op_type} must be known when it is exported")
    if isinstance(value, np.dtype):
        value = onnx.helper.np_dtype_to_tensor_dtype(value)
    elif isinstance(value, np.ndarray):
        value = onnx.numpy_helper.from_array(value)
    return onnx.helper.make_attribute(key, value, attr_type=None if len(items) else onnx.AttributeProto.INTS)
