"""What the faults of all kinds of network are written with."""

from __future__ import annotations

from typing import Any

from fixtures.planted_faults.port_edits import PortFault, fault

BOTH = ("structure", "attribute")
ANY_KIND = ("weight", "structure", "attribute", "layout")


def weight(
    network: str, label: str, cells: str, old: str, new: str, words: str | tuple[str, ...], **more: Any
) -> PortFault:
    """Return a fault in how a port gets its weights."""
    return fault(network, label, cells, old, new, label, words, kind=more.pop("kind", ANY_KIND), **more)
