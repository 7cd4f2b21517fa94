"""Recurrent ops that aren't a known layer: helper functions in the source that loop over time."""

from __future__ import annotations

from ..text.expressions import call
from .table import MultiOutput, Operation, form


@form("lstm", "gru", "rnn")
def _(o: Operation) -> MultiOutput:
    op = o.node.op
    o.scope.use(op)
    weights = 3 if op == "lstm" else 2
    names = ["bias_ih", "bias_hh", *(["weight_hr"] if op == "lstm" else []), "lengths"]
    result = call(
        op,
        *(o.x(i).text for i in range(weights + 2)),
        **{name: o.optional(weights + 2 + i) for i, name in enumerate(names)},
        reverse="True" if o["reverse"] else None,
        relu="True" if op == "rnn" and o["nonlinearity"] == "relu" else None,
    )
    return MultiOutput(result, (None,) * len(o.node.outputs))
