"""Which execution provider runs which node of a session. It is imported by the child process, and imports nothing."""

from __future__ import annotations

from typing import Any

RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""The entry of a session's configuration without which ONNX Runtime doesn't keep it."""
CPU = "CPUExecutionProvider"


def nodes_elsewhere(session: Any, ort_name: str) -> list[tuple[str, str]]:
    """Return the nodes that another provider runs: type of the operator and name.

    Args:
        session: a session that was created with `RECORD_ASSIGNMENT`, unless its provider is the CPU, which runs all.
        ort_name: ONNX Runtime's name of the provider that was asked for.
    """
    if ort_name == CPU:
        return []
    others = [subgraph for subgraph in session.get_provider_graph_assignment_info() if subgraph.ep_name != ort_name]
    return [(node.op_type, node.name) for subgraph in others for node in subgraph.get_nodes()]
