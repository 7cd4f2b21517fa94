"""Elementwise ops, comparisons, reductions, sorting."""

from __future__ import annotations

import numpy as np

from ....runtime.ir.types import BOOL, INT64
from ....runtime.ops import get
from ....runtime.ops.registry import ops_with
from ..text.expressions import (
    BIT_AND,
    BIT_OR,
    BIT_XOR,
    COMPARISON,
    NEGATION,
    POWER,
    PRODUCT,
    SUM,
    Expression,
    call,
    infix,
    method,
)
from .table import MultiOutput, Operation, UnsupportedForm, form

INFIX = {
    "add": ("+", SUM),
    "sub": ("-", SUM),
    "mul": ("*", PRODUCT),
    "div": ("/", PRODUCT),
    "pow": ("**", POWER),
    "floor_divide": ("//", PRODUCT),
    "matmul": ("@", PRODUCT),
    "equal": ("==", COMPARISON),
    "not_equal": ("!=", COMPARISON),
    "less": ("<", COMPARISON),
    "less_equal": ("<=", COMPARISON),
    "greater": (">", COMPARISON),
    "greater_equal": (">=", COMPARISON),
    "bitwise_and": ("&", BIT_AND),
    "bitwise_xor": ("^", BIT_XOR),
    "bitwise_or": ("|", BIT_OR),
}
OTHER_NAMES = {
    "determinant": "det", "left_shift": "bitwise_left_shift", "log_sigmoid": "logsigmoid",
    "right_shift": "bitwise_right_shift",
}  # fmt: skip
"""Operators of Cells with other names than the ops that they are."""


@form(*INFIX)
def _(o: Operation) -> Expression:
    return infix(*INFIX[o.node.op], o.n(0), o.n(1))


@form(*ops_with(lambda of: of.in_cells), *OTHER_NAMES)
def _(o: Operation) -> Expression:
    op = get(o.node.op)
    operands = [o.x().text] if len(op.input_names) == 1 else [o.n(i).text for i in range(len(op.input_names))]
    others = {name: value for name, value in o.node.attributes.items() if value != op.attribute_defaults[name]}
    settings = {
        name: f'"{value}"' if isinstance(value, str) else o.literal(value, name) for name, value in others.items()
    }
    return call(f"ops.{OTHER_NAMES.get(op.name, op.name)}", *operands, **settings)


@form("neg")
def _(o: Operation) -> Expression:
    return Expression(f"-{o.x().within(NEGATION)}", NEGATION)


@form("bitwise_not")
def _(o: Operation) -> Expression:
    """Written as a difference: not every version has the operator."""
    if o.type().dtype == BOOL:
        return call("ops.logical_not", o.x().text)
    ones = -1 if o.type().dtype.kind == "i" else int(np.iinfo(o.type().dtype).max)
    return infix("-", SUM, Expression(str(ones)), o.x())


@form("cast")
def _(o: Operation) -> Expression:
    return method(o.x(), "astype", o.dtype(o["dtype"]))


@form("where")
def _(o: Operation) -> Expression:
    return call("ops.where", o.x(0).text, o.n(1).text, o.n(2).text)


@form("clamp", "hardtanh")
def _(o: Operation) -> Expression:
    low, high = (None if o[name] is None else o.literal(o[name], name) for name in ("minimum", "maximum"))
    return call("ops.clamp", o.x().text, min=low, max=high)


@form("polygamma")
def _(o: Operation) -> Expression:
    if o["order"] == 0:
        return call("ops.digamma", o.x().text)
    raise UnsupportedForm("a derivative of digamma")


@form("solve")
def _(o: Operation) -> Expression:
    return call("ops.matrix_solve", o.x(0).text, o.x(1).text)


@form("log_determinant")
def _(o: Operation) -> MultiOutput:
    return MultiOutput(call("ops.slogdet", o.x().text), (None, None))


# ---- reductions ----


def _axes(o: Operation) -> str | None:
    axes = o["axes"]
    if axes is None:
        return None
    return o.literal(axes[0], "axis") if len(axes) == 1 else o.literals.hole(str(tuple(axes)), "axes")


def _flag(value: bool) -> str | None:
    return "True" if value else None


@form("reduce_sum")
def _(o: Operation) -> Expression:
    return method(o.x(), "sum", axis=_axes(o), keepdims=_flag(o["keepdims"]))


@form("reduce_mean")
def _(o: Operation) -> Expression:
    return method(o.x(), "mean", axis=_axes(o), keep_dims=_flag(o["keepdims"]))


@form("reduce_max", "reduce_min")
def _(o: Operation) -> Expression:
    name = "ops.amax" if o.node.op == "reduce_max" else "ops.amin"
    return call(name, o.x().text, axis=_axes(o), keepdims=_flag(o["keepdims"]))


@form("reduce_prod")
def _(o: Operation) -> Expression:
    axes = o["axes"]
    if axes is None or len(axes) == 1:
        return call("ops.prod", o.x().text, axis=_axes(o), keep_dims=_flag(o["keepdims"]))
    result = o.x()
    for axis in sorted((axis % o.type().rank for axis in axes), reverse=True):
        result = call("ops.prod", result.text, axis=o.literal(axis, "axis"), keep_dims=_flag(o["keepdims"]))
    return result


@form("reduce_any", "reduce_all")
def _(o: Operation) -> Expression:
    name = "any" if o.node.op == "reduce_any" else "all"
    x = o.x() if o.type().dtype == BOOL else infix("!=", COMPARISON, o.x(), Expression("0"))
    return call(f"ops.{name}", x.text, axis=_axes(o), keep_dims=_flag(o["keepdims"]))


@form("logsumexp")
def _(o: Operation) -> Expression:
    axes = _axes(o) or o.literals.hole(str(tuple(range(o.type().rank))), "axes")
    return call("ops.logsumexp", o.x().text, axes, _flag(o["keepdims"]) or "False")


@form("variance")
def _(o: Operation) -> Expression:
    return method(o.x(), "var", axis=_axes(o), ddof=o.literal(o["correction"], "ddof"), keepdims=_flag(o["keepdims"]))


@form("argmax", "argmin")
def _(o: Operation) -> Expression:
    x, axis = o.x(), o["axis"]
    if axis is None:
        x, axis = (method(x, "reshape", "-1"), 0) if not o["keepdims"] else (x, None)
    if axis is None:
        raise UnsupportedForm("keepdims without an axis")
    name, flag = ("dim", "keepdim") if o.node.op == "argmax" else ("axis", "keepdims")
    index = call(f"ops.{o.node.op}", x.text, **{name: o.literal(axis, "axis"), flag: _flag(o["keepdims"])})
    return method(index, "astype", o.dtype(INT64))


# ---- scans and order ----


@form("cumsum", "cumprod", "logcumsumexp")
def _(o: Operation) -> Expression:
    return call(f"ops.{o.node.op}", o.x().text, o.literal(o["axis"], "axis"))


@form("cummax", "cummin")
def _(o: Operation) -> MultiOutput:
    result = call(f"ops.{o.node.op}", o.x().text, o.literal(o["axis"], "axis"))
    return _values_and_indices(result)


@form("sort")
def _(o: Operation) -> MultiOutput:
    result = call("ops.sort", o.x().text, o.literal(o["axis"], "axis"), descending=_flag(o["descending"]))
    return _values_and_indices(result)


@form("topk")
def _(o: Operation) -> MultiOutput:
    largest = None if o["largest"] else "False"
    axis = o["axis"] % o.type().rank
    result = call("ops.topk", o.x().text, o.size(o["k"], "k"), dim=o.literal(axis, "axis"), largest=largest)
    return _values_and_indices(result)


def _values_and_indices(result: Expression) -> MultiOutput:
    """The indices of these operators are int32 or int64, depending on operator and version."""
    return MultiOutput(result, (None, lambda indices: method(indices, "astype", "ms.int64")))
