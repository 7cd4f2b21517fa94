"""`TraceBuilder`: records the nodes of a traced program with their source lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..ir.types import Source, Type
from ..tensor_like import Operator
from ..tracing import Builder
from .sources import running_line


class TraceBuilder(Builder):
    """A builder that gives each node the running line of the user's code as its source.

    Attributes:
        fallback_source: the source of nodes that are recorded outside of the user's code, as in a backward pass.
        fixed_source: a tuple with the source of all nodes; None to use the running line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fallback_source: Source | None = None
        self.fixed_source: tuple[Source | None] | None = None

    @contextlib.contextmanager
    def copying(self, cell: int, source: Source | None) -> Iterator[None]:
        """Within the context, nodes belong to Cell call `cell` and come from `source`, whatever line runs."""
        before = self.cell, self.fixed_source
        self.cell, self.fixed_source = cell, (source,)
        try:
            yield
        finally:
            self.cell, self.fixed_source = before

    def append(
        self,
        op: Operator,
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        types: tuple[Type, ...] | None = None,
    ) -> Any:
        """Append a node."""
        if self.fixed_source is not None:
            self.source = self.fixed_source[0]
        else:
            self.source = running_line(op.name) or self.fallback_source
        return super().append(op, inputs, attributes, types)

    def create(self, op: Operator, **attributes: Any) -> Any:
        """Append a node of an op without operands."""
        return self.append(op, (), op.attributes(attributes))
