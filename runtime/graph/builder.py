"""`TraceBuilder`: the nodes of a program that is traced, and where each comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..ir.types import Source, Type
from ..tensor_like import Operator
from ..tracing import Builder
from .sources import running_line


class TraceBuilder(Builder):
    """A builder whose nodes come from the line of the user's that runs.

    Attributes:
        elsewhere: the source of what is recorded by a backward pass.
        fixed: the source of all that is recorded, if it isn't to be looked for.
    """

    def __init__(self) -> None:
        super().__init__()
        self.elsewhere: Source | None = None
        self.fixed: tuple[Source | None] | None = None

    @contextlib.contextmanager
    def copying(self, cell: int, source: Source | None) -> Iterator[None]:
        """Within the context, nodes belong to Cell call `cell` and come from `source`, whatever line runs."""
        before = self.cell, self.fixed
        self.cell, self.fixed = cell, (source,)
        try:
            yield
        finally:
            self.cell, self.fixed = before

    def append(
        self,
        op: Operator,
        inputs: tuple[Any, ...],
        attributes: dict[str, Any],
        types: tuple[Type, ...] | None = None,
    ) -> Any:
        """Append a node."""
        self.source = self.fixed[0] if self.fixed else running_line(op.name) or self.elsewhere
        return super().append(op, inputs, attributes, types)

    def create(self, op: Operator, **attributes: Any) -> Any:
        """Append a node of an op that has no operands."""
        return self.append(op, (), op.attributes(attributes))
