"""The frameworks whose Cells can be watched: the runtime's own, and MindSpore."""

from __future__ import annotations

from typing import Any

from ...runtime.nn.cell import Cell
from .eager import Eager
from .frameworks import Framework


def framework_of(network: Any) -> Framework | None:
    """Return the framework of a Cell; None if the network isn't a Cell."""
    if isinstance(network, Cell):
        return Eager()
    if any(
        base.__module__.partition(".")[0] == "mindspore" and base.__name__ == "Cell" for base in type(network).__mro__
    ):
        from .mindspore_cells import MindSpore

        return MindSpore()
    return None
