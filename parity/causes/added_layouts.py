"""Nodes that bring a candidate's values in the reference's layout: nobody wrote them, and no cause names them.

Two sides are paired by values in the layout of the reference. Where an expectation of it is what is wrong, one of
these nodes explains the candidate when it is changed, and what is said is what that means for the candidate.
"""

from __future__ import annotations

from ...runtime.ir.types import Node
from ..results.cause import Cause
from .differences import Comparison
from .naming import name_of_value

REARRANGING = ("reshape", "transpose", "take")
WRITTEN = frozenset(
    {
        "view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "permute", "transpose", "t",
        "index", "index_select", "take", "gather", "embedding", "flip", "roll",
    }
)  # fmt: skip
"""ATen's operators that are these nodes where somebody wrote them."""


def cause_of_layout(changed: Comparison) -> Cause | None:
    """Return the cause of a change in a candidate to nodes that nobody wrote; None if it has others or changes others.

    Args:
        changed: the candidate's Cell as it is, and as it computes what the reference does.
    """
    nodes: list[Node] = []
    for difference in changed.differences:
        if difference.kind == "nodes":
            nodes += difference.nodes
        elif difference.kind == "attribute" and difference.pair[0] is not None:
            nodes.append(changed.reference.program.nodes[difference.pair[0]])
        elif difference.kind != "operand":
            return None
    if not nodes or not all(map(_is_added, nodes)):
        return None
    producers = changed.reference.program.producers
    value = nodes[0].inputs[0]
    while value is not None and value in producers and _is_added(producers[value]):
        value = producers[value].inputs[0]
    if value is None:
        return None
    what = "order" if all(node.op == "take" for node in nodes) else "layout"
    summary = f"the candidate has {name_of_value(changed.reference, value)} in another {what}"
    return Cause("layout", summary, f"bring it in the reference's {what}, or permute the weights that meet it")


def _is_added(node: Node) -> bool:
    """Whether a node rearranges a value in a line in which nobody rearranges it."""
    operator = "" if node.source is None else node.source.operator
    return node.op in REARRANGING and operator.startswith("aten.") and operator.split(".")[1] not in WRITTEN
