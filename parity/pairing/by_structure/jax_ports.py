"""A network in JAX with other weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from ....runtime.ir.program import Program
from ...sides.jax.cells import shapes_of, with_tensors
from ...sides.jax.network import JaxNetwork
from ...sides.jax_side import JaxSide
from ...sides.records import Array

STATISTICS = "batch_stats."
"""The prefix of what Flax's norms have beside parameters."""


class JaxPort:
    """A network in JAX; its tensors have the names of their paths in the pytree."""

    def __init__(self, side: JaxSide) -> None:
        self.side = side
        self.shapes = shapes_of(side)
        self.parameters = [name for name in self.shapes if not name.startswith(STATISTICS)]
        self.tied: dict[str, list[str]] = {}

    def capture(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Program:
        """Return its program in float32, which takes torch's arguments."""
        return JaxNetwork(self.side, args, kwargs).program

    @contextlib.contextmanager
    def given(self, arrays: Mapping[str, Array]) -> Iterator[JaxSide]:
        """Within the context, there is a network with these tensors; the given one isn't changed."""
        yield with_tensors(self.side, arrays)
