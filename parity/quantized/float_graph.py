"""The float network while it is written: nodes in order, and tensors that are stored with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper, numpy_helper

from .places import Places
from .stored import Stored


class FloatGraph:
    """Nodes on numbers, and what they take.

    Attributes:
        nodes: in order.
        added: stored tensors by name, in place of codes.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.added: dict[str, TensorProto] = {}

    def emit(self, operator: str, inputs: Sequence[str], output: str, like: NodeProto, **attributes: Any) -> NodeProto:
        """A node in the place of another one."""
        made = helper.make_node(operator, inputs, [output], like.name, **attributes)
        made.metadata_props.extend(like.metadata_props)
        self.nodes.append(made)
        return made

    def number(self, value: float) -> str:
        """The name of a constant."""
        name = f"constant {len(self.nodes)}"
        tensor = numpy_helper.from_array(np.array(value, np.float32), name)
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def identity(self, source: str, output: str, like: NodeProto) -> None:
        """Let `output` be `source`."""
        if source != output:
            self.emit("Identity", [source], output, like)

    def finished(self, model: onnx.ModelProto, stored: Stored, places: Places) -> onnx.ModelProto:
        """The network in place of that of the quantized model."""
        places.place(self.nodes)
        used = {name for node in self.nodes for graph in (node, *inner_nodes(node)) for name in graph.input}
        found = onnx.ModelProto()
        found.ir_version = model.ir_version
        found.opset_import.extend(model.opset_import)
        found.metadata_props.extend(model.metadata_props)
        found.functions.extend(model.functions)
        found.graph.name = model.graph.name
        found.graph.input.extend(value for value in model.graph.input)
        found.graph.output.extend(model.graph.output)
        kept = {
            name: numpy_helper.from_array(stored.array(name), name)  # with data that lie in another file
            for name in stored.initializers
            if name in used and name not in self.added
        }
        found.graph.initializer.extend((kept | self.added).values())
        found.graph.node.extend(self.nodes)
        return found


def inner_nodes(node: NodeProto) -> list[NodeProto]:
    """The nodes of the sub-graphs of a node."""
    found = []
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            for inner in graph.node:
                found += [inner, *inner_nodes(inner)]
    return found
