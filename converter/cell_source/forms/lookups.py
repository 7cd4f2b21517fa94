"""Ops that gather and scatter elements by indices."""

from __future__ import annotations

from ....runtime.ir.types import Value
from ....runtime.ops.registry import ops_with
from ..text.expressions import ATOM, COMPARISON, SUM, Expression, call, infix, method, number, tuple_literal
from .table import Operation, form

SCATTERS = {
    "none": "TensorScatterUpdate", "add": "TensorScatterAdd", "max": "TensorScatterMax", "min": "TensorScatterMin",
    "mul": "TensorScatterMul",
}  # fmt: skip


MOVING = ops_with(lambda of: of.moves == "first") | {"cast"}
"""Ops whose results are elements of their first operand."""


@form("take")
def _(o: Operation) -> Expression:
    return call("ops.gather", o.x(0).text, _make_nonnegative(o, 1, o["axis"]), o.literal(o["axis"], "axis"))


def _make_nonnegative(o: Operation, i: int, axis: int) -> str:
    """Indices with negative ones, which count from the end, made non-negative."""
    value = o.node.inputs[i]
    assert value is not None, "take has indices"
    if _is_nonnegative(o, value):
        return o.x(i).text
    x, size = o.x(i), o.size(o.type().shape[axis])
    moved = infix("+", SUM, x, Expression(size))
    return call("ops.where", infix("<", COMPARISON, x, Expression("0")).text, moved.text, x.text).text


def _is_nonnegative(o: Operation, value: Value) -> bool:
    """Whether indices are known to be non-negative."""
    constant, node = o.scope.constant(value), o.scope.producer(value)
    if constant is not None:
        return bool((constant >= 0).all())
    if node is None:
        return False
    if node.op in MOVING:
        return node.inputs[0] is not None and _is_nonnegative(o, node.inputs[0])
    if node.op == "arange":
        return isinstance(node.attributes["start"], int) and node.attributes["start"] >= 0 < node.attributes["step"]
    return node.op in ("argmax", "argmin")


@form("gather")
def _(o: Operation) -> Expression:
    return call("ops.gather_elements", o.x(0).text, o.literal(o["axis"], "axis"), o.x(1).text)


@form("gather_nd")
def _(o: Operation) -> Expression:
    return call("ops.gather_nd", o.x(0).text, o.x(1).text)


@form("scatter")
def _(o: Operation) -> Expression:
    reduction = o["reduction"]
    if reduction not in ("none", "add"):
        o.scope.use("scatter")
        operands = (o.x(i).text for i in range(3))
        return call("scatter", *operands, o.literal(o["axis"], "axis"), f"ops.{SCATTERS[reduction]}()")
    named = {"axis": o.literal(o["axis"], "axis"), "reduction": None if reduction == "none" else '"add"'}
    return call("ops.tensor_scatter_elements", o.x(0).text, o.x(1).text, o.x(2).text, **named)


@form("scatter_nd")
def _(o: Operation) -> Expression:
    return call(f"ops.{SCATTERS[o['reduction']]}()", o.x(0).text, o.x(1).text, o.x(2).text)


@form("index_add")
def _(o: Operation) -> Expression:
    return _scatter(o, "TensorScatterAdd", o.x(1), o.x(2), o["axis"])


@form("slice_scatter")
def _(o: Operation) -> Expression:
    """Concatenate the elements before, the replacement and the elements after; with a step, scatter by indices."""
    axis, size = o["axis"] % o.type().rank, o.type().shape[o["axis"]]
    start, stop = o.size(o["start"], "start"), o.size(o["stop"], "stop")
    if o["step"] != 1:
        indices = call("ops.arange", start, stop, o.literal(o["step"], "step"))
        return _scatter(o, "TensorScatterUpdate", indices, o.x(1), axis)
    lead, operand = ":, " * axis, o.x(0).within(ATOM)
    parts = [o.x(1).text]
    if o["start"] != 0:
        parts.insert(0, f"{operand}[{lead}:{start}]")
    if o["stop"] != size:
        parts.append(f"{operand}[{lead}{stop}:]")
    return call("ops.cat", tuple_literal(parts), axis=o.literal(axis, "axis"))


def _scatter(o: Operation, how: str, indices: Expression, updates: Expression, axis: int) -> Expression:
    """Scatter slices along any axis, by a scatter along the first."""
    axis %= o.type().rank
    x = o.x(0)
    if axis:
        x, updates = (method(t, "swapaxes", "0", str(axis)) for t in (x, updates))
    result = call(f"ops.{how}()", x.text, method(indices, "expand_dims", "-1").text, updates.text)
    return method(result, "swapaxes", "0", str(axis)) if axis else result


@form("class_index")
def _(o: Operation) -> Expression:
    ignored = o["ignore_index"]
    if ignored is None:
        return o.x()
    return method(o.x(), "masked_fill", infix("==", COMPARISON, o.x(), Expression(number(ignored))).text, "0")
