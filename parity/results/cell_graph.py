"""`CellGraph`: the program of a failing Cell as a graph to draw, with a mark where the candidate's differs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph: an op, a value that enters or leaves the Cell, or a stored tensor.

    Attributes:
        kind: "op", "input", "result of a Cell" (inside this one), "parameter", "buffer", "constant", "output", "passed
            value" (to a Cell inside this one) or "buffer update".
        name: the op; the slot of an input or output; the path of the Cell, with the slot; the qualified name of a
            parameter or buffer; the value of a constant that is a single number.
        type: dtype and shape, as `float64[2, 3]`; several for an op with several results.
        operands: positions, in the graph, of the nodes whose results it uses.
        candidate_operands: positions of those that it uses in the candidate alone.
        attributes: the attributes of an op, as a person writes them, by name.
        in_candidate_alone: whether the reference lacks it.
        difference: for a node named by a proved cause, how the candidate's differs; empty for all others.
        source: file, line and text; empty if unknown.
    """

    kind: str
    name: str
    type: str
    operands: tuple[int, ...] = ()
    candidate_operands: tuple[int, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    in_candidate_alone: bool = False
    difference: str = ""
    source: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        lists = {"operands": list(self.operands), "candidate_operands": list(self.candidate_operands)}
        return asdict(self) | lists | {"attributes": dict(self.attributes)}


@dataclass(frozen=True, slots=True)
class CellGraph:
    """The reference's program of one call of a Cell, without the Cells inside it.

    Attributes:
        nodes: operands before those that use them. There are none if the program is too large to draw and no node of it
            is known to differ.
        left_out: number of nodes that aren't among `nodes`, because they are far from those that differ.
        call: index of the call, from 0.
    """

    nodes: tuple[GraphNode, ...]
    left_out: int = 0
    call: int = 0

    @property
    def marked(self) -> list[int]:
        """The positions of the nodes that differ."""
        return [position for position, node in enumerate(self.nodes) if node.difference]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"nodes": [node.to_dict() for node in self.nodes], "left_out": self.left_out, "call": self.call}
