"""Tensors with a custom gradient: the source computes them, and its docstring names the Cells."""

from __future__ import annotations

from ..text.expressions import ATOM, Expression, several
from .table import MultiOutput, Operation, form


@form("own_gradient")
def _(op: Operation) -> Expression | MultiOutput:
    count = op["outputs"]
    if count == 1:
        return op.x(0)
    passed = several([op.x(i).text for i in range(count)])
    return MultiOutput(Expression(passed, ATOM), (None,) * count)
