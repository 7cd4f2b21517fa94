"""What a report says about an execution provider: its arithmetic, and the nodes that it doesn't run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import onnx

from ...runtime.lowering.graph import CELL
from ...runtime.providers import find
from ...runtime.visible import visible_name

SHOWN = 6


def provider_notes(side: str, provider: str, elsewhere: Sequence[tuple[str, str]], graph: onnx.GraphProto) -> list[str]:
    """Return remarks on a side that ran on a provider; none for the CPU.

    Args:
        side: name of the side.
        provider: name of the provider.
        elsewhere: the nodes that another provider ran: type of the operator and name.
        graph: the graph of the model.
    """
    if provider == "cpu":
        return []
    arithmetic = find(provider).arithmetic or "its arithmetic is that of ONNX Runtime's defaults, and not known here"
    notes = [f"{side} ran on {provider}: {arithmetic}"]
    return notes + ([nodes_left(provider, elsewhere, graph)] if elsewhere else [])


def nodes_left(provider: str, elsewhere: Sequence[tuple[str, str]], graph: onnx.GraphProto) -> str:
    """Return a remark on the nodes that a provider leaves to another one."""
    return f"of {len(graph.node)} nodes, {provider} leaves {len(elsewhere)} to another provider: " + by_cell(
        elsewhere, graph
    )


def by_cell(nodes: Sequence[tuple[str, str]], graph: onnx.GraphProto) -> str:
    """Return the operators of nodes, given with their names, by Cells: `Attention in encoder (2), Mod in head`."""
    cells = {node.name: _cell(node) for node in graph.node}
    places = Counter(f"{visible_name(kind)} in {cells.get(name, 'an unknown Cell')}" for kind, name in nodes)
    shown = [description + (f" ({count})" if count > 1 else "") for description, count in places.most_common(SHOWN)]
    more = f" and {len(places) - SHOWN} more places" if len(places) > SHOWN else ""
    return f"{', '.join(shown)}{more}"


def _cell(node: onnx.NodeProto) -> str:
    """Return the Cell of a node: from its metadata, or from its name, which begins with a path in many files."""
    metadata = {entry.key: entry.value for entry in node.metadata_props}
    return visible_name(metadata.get(CELL) or node.name.strip("/").rpartition("/")[0] or "(root)")
