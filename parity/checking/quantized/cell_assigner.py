"""Assigns the nodes of a quantized file to Cells: those of the corresponding nodes of the float file."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import NodeProto

from ....converter.onnx_in.model.cells import SCOPES
from ....converter.onnx_in.model.order import topological_order
from ....runtime.lowering.graph import CELL

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
