"""Which Cell the nodes of a quantized file belong to: that of the node of the float file whose work they do."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import NodeProto

from ...converter.onnx_in.model.cells import SCOPES
from ...runtime.lowering.graph import CELL

ENDINGS = ("_quant", "_MatMul", "_Add")  # that onnxruntime.quantization gives to names of nodes


class Places:
    """The nodes of a float file, by their names and by what they make."""

    def __init__(self, graph: onnx.GraphProto) -> None:
        self._by_output: dict[str, NodeProto] = {name: node for node in graph.node for name in node.output if name}
        self._by_name: dict[str, NodeProto] = {node.name: node for node in graph.node if node.name}

    def place(self, nodes: Sequence[NodeProto]) -> None:
        """Give each node that doesn't tell its Cell the name and metadata of the node that does its work there.

        What makes an intermediate result, which the float file hasn't, belongs to what it is made for.
        """
        of_value: dict[str, NodeProto] = {}
        for node in reversed(nodes):
            found = self._counterpart(node)
            if found is None and not _tells(node):
                found = next((of_value[name] for name in node.output if name in of_value), None)
            if found is not None and not _has_metadata(node):
                node.name = found.name
                del node.metadata_props[:]
                node.metadata_props.extend(found.metadata_props)
            if found is not None or _tells(node):
                of_value.update(dict.fromkeys(node.input, found if found is not None else node))

    def _counterpart(self, node: NodeProto) -> NodeProto | None:
        for name in node.output:
            if name in self._by_output:
                return self._by_output[name]
        name = node.name
        while name and name not in self._by_name:
            ending = next((each for each in ENDINGS if name.endswith(each)), "")
            name = name.removesuffix(ending) if ending else ""
        return self._by_name.get(name)


def _has_metadata(node: NodeProto) -> bool:
    return any(entry.key in (CELL, SCOPES) for entry in node.metadata_props)


def _tells(node: NodeProto) -> bool:
    """Whether a node tells its Cell."""
    return _has_metadata(node) or (node.name.startswith("/") and node.name.count("/") > 1)
