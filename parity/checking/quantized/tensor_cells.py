"""`TensorCells`: the Cells that compute and use the tensors of a float network."""

from __future__ import annotations

import onnx

from ....converter.onnx_in.model.cells import CellPaths
from ....converter.onnx_in.model.origin import read_origin


class TensorCells:
    """The Cells of a float network's tensors."""

    def __init__(self, model: onnx.ModelProto) -> None:
        origin = read_origin(model)
        self._paths = CellPaths(model.graph.name, origin.calls if origin else None)
        self._producers = {name: node for node in model.graph.node for name in node.output}
        self._consumers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._consumers.setdefault(name, []).append(node)

    def of_node(self, node: onnx.NodeProto) -> str:
        """Return the Cell of a node."""
        return self._paths.path(self._paths.call_of(node, 0))

    def cell_using(self, tensor: str) -> str:
        """Return the Cell of the first node that uses a tensor."""
        for _ in range(len(self._producers)):
            consumers = self._consumers.get(tensor, [])
            if not consumers:
                return ""
            if consumers[0].op_type not in ("Identity", "Transpose"):
                return self.of_node(consumers[0])
            tensor = consumers[0].output[0]
        return ""

    def cell_computing(self, tensor: str) -> str:
        """Return the Cell that computes a tensor, or, for an input, the one that uses it."""
        node = self._producers.get(tensor)
        return self.cell_using(tensor) if node is None or node.op_type == "Identity" else self.of_node(node)
