"""Tensors with a custom gradient: the source only computes them, and its docstring names their Cells."""

from __future__ import annotations

from ..text.expressions import ATOM, Expression, tuple_literal
from .table import MultiOutput, Operation, form


@form("own_gradient")
def _(op: Operation) -> Expression | MultiOutput:
    count = op["outputs"]
    if count == 1:
        return op.x(0)
    passed = tuple_literal([op.x(i).text for i in range(count)])
    return MultiOutput(Expression(passed, ATOM), (None,) * count)
