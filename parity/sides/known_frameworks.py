"""The frameworks whose Cells can be watched: the runtime's own, and MindSpore."""

from __future__ import annotations

from typing import Any

from ...runtime.nn.cell import Cell
from .eager import Eager
from .frameworks import Framework
from .jax_side import NAME as JAX
from .jax_side import JaxSide


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


def name_of_port(network: Any) -> str | None:
    """Return the name of the side of a port, a Cell or a network in JAX; None if the network is neither."""
    if isinstance(network, JaxSide):
        return JAX
    framework = framework_of(network)
    return None if framework is None else framework.name
