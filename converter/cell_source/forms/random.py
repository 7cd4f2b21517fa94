"""Random ops."""

from __future__ import annotations

from ....runtime.ir.types import FLOAT32, INT64
from ..text.expressions import COMPARISON, NEGATION, PRODUCT, SUM, Expression, call, infix, method
from .table import Operation, form


@form("bernoulli")
def _(o: Operation) -> Expression:
    sampled = call("ops.rand", *(o.size(dim) for dim in o["shape"]))
    return method(
        infix("<", COMPARISON, sampled, Expression(o.literal(o["probability"], "p"))), "astype", o.dtype(o["dtype"])
    )


@form("bernoulli_each")
def _(o: Operation) -> Expression:
    sampled = call("ops.rand_like", o.x().text)
    return method(infix("<", COMPARISON, sampled, o.x()), "astype", o.dtype(o.out.dtype))


@form("uniform")
def _(o: Operation) -> Expression:
    sampled = call("ops.rand", *(o.size(dim) for dim in o["shape"]), dtype=_unless_float32(o))
    return _scale(o, sampled, o["high"] - o["low"], o["low"])


@form("normal")
def _(o: Operation) -> Expression:
    sampled = call("ops.randn", *(o.size(dim) for dim in o["shape"]), dtype=_unless_float32(o))
    return _scale(o, sampled, o["deviation"], o["mean"])


@form("exponential")
def _(o: Operation) -> Expression:
    sampled = call("ops.rand", *(o.size(dim) for dim in o["shape"]), dtype=_unless_float32(o))
    logarithm = call("ops.log1p", f"-{sampled.text}")
    return infix("/", PRODUCT, Expression(f"-{logarithm.text}", NEGATION), Expression(o.literal(o["rate"], "rate")))


@form("integers")
def _(o: Operation) -> Expression:
    low, high = o.literal(o["low"], "low"), o.literal(o["high"], "high")
    sampled = call("ops.randint", low, high, o.sizes(o["shape"]))
    return method(sampled, "astype", o.dtype(o["dtype"])) if o["dtype"] != INT64 else sampled


def _unless_float32(o: Operation) -> str | None:
    return None if o["dtype"] == FLOAT32 else o.dtype(o["dtype"])


def _scale(o: Operation, x: Expression, factor: float, offset: float) -> Expression:
    if factor != 1.0:
        x = infix("*", PRODUCT, x, Expression(o.literal(factor, "factor")))
    return x if offset == 0.0 else infix("+", SUM, x, Expression(o.literal(offset, "offset")))
