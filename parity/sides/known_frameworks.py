"""The frameworks whose Cells can be seen Cell by Cell: ours, and MindSpore."""

from __future__ import annotations

from typing import Any

from ...runtime.nn.cell import Cell
from .eager import Eager
from .frameworks import Framework


def framework_of(network: Any) -> Framework | None:
    """The framework whose Cell the network is; None if it is none."""
    if isinstance(network, Cell):
        return Eager()
    if any(
        base.__module__.partition(".")[0] == "mindspore" and base.__name__ == "Cell" for base in type(network).__mro__
    ):
        from .mindspore_cells import MindSpore

        return MindSpore()
    return None
