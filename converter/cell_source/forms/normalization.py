"""Normalization that isn't a known layer."""

from __future__ import annotations

from ..text.expressions import PRODUCT, SUM, Expression, call, infix, method
from .table import MultiOutput, Operation, form


@form("layer_norm")
def _(o: Operation) -> Expression:
    if o.scope.target == "mindspore":  # MindSpore lacks a kernel for the operator on some devices
        o.scope.use("layer_norm")
        axes = o.literals.hole(str(tuple(range(-o["axes_count"], 0))), "axes")
        eps = o.literal(o["eps"], "eps")
        return call("layer_norm", o.x().text, axes, weight=o.optional(1), bias=o.optional(2), eps=eps)
    shape = o.type().shape[-o["axes_count"] :]
    return call(
        "ops.layer_norm",
        o.x().text,
        o.sizes(shape, "normalized_shape"),
        weight=o.optional(1),
        bias=o.optional(2),
        eps=o.literal(o["eps"], "eps"),
    )


@form("group_norm")
def _(o: Operation) -> Expression:
    return call(
        "ops.group_norm",
        o.x().text,
        o.literal(o["groups"], "num_groups"),
        weight=o.optional(1),
        bias=o.optional(2),
        eps=o.literal(o["eps"], "eps"),
    )


@form("rms_norm")
def _(o: Operation) -> Expression:
    """Written out: x / sqrt(mean(x^2) + eps) * weight."""
    x = o.x()
    axes = tuple(range(-o["axes_count"], 0))
    axis = "-1" if axes == (-1,) else str(axes)
    mean = method(call("ops.square", x.text), "mean", axis=axis, keep_dims="True")
    normal = infix(
        "*", PRODUCT, x, call("ops.rsqrt", infix("+", SUM, mean, Expression(o.literal(o["eps"], "eps"))).text)
    )
    return infix("*", PRODUCT, normal, o.x(1)) if o.has(1) else normal


@form("batch_norm")
def _(o: Operation) -> Expression:
    """Written out, with the statistics as operands: (x - mean) / sqrt(variance + eps) * weight + bias."""
    rank = o.type().rank
    mean, variance, weight, bias = (_per_channel(o, i, rank) for i in (1, 2, 3, 4))
    assert mean is not None
    assert variance is not None
    scale = call("ops.rsqrt", infix("+", SUM, variance, Expression(o.literal(o["eps"], "eps"))).text)
    result = infix("*", PRODUCT, infix("-", SUM, o.x(), mean), scale)
    result = result if weight is None else infix("*", PRODUCT, result, weight)
    return result if bias is None else infix("+", SUM, result, bias)


@form("batch_norm_train")
def _(o: Operation) -> MultiOutput:
    o.scope.use("batch_norm")
    eps = o.literal(o["eps"], "eps")
    result = call("batch_norm", o.x().text, weight=o.optional(1), bias=o.optional(2), eps=eps)
    return MultiOutput(result, (None, None, None))


@form("standardize")
def _(o: Operation) -> MultiOutput:
    o.scope.use("standardize")
    axes = o.literals.hole(str(tuple(range(-o["axes_count"], 0))), "axes")
    return MultiOutput(call("standardize", o.x().text, axes, o.literal(o["eps"], "eps")), (None, None))


def _per_channel(o: Operation, i: int, rank: int) -> Expression | None:
    """A vector of channels, reshaped to broadcast with (batch, channels, ...)."""
    if not o.has(i):
        return None
    return method(o.x(i), "reshape", "1", "-1", *["1"] * (rank - 2)) if rank > 2 else o.x(i)
