"""Ops that reshape, permute, slice, join or create tensors."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import BOOL, FLOAT32
from ..text.expressions import ATOM, Expression, call, method, tuple_literal
from .table import Operation, form


@form("reshape")
def _(o: Operation) -> Expression:
    before, after = o.type().shape, o.out.shape
    if len(after) == len(before) + 1:
        for axis, dim in enumerate(after):
            if dim == 1 and (*after[:axis], *after[axis + 1 :]) == before:
                return method(o.x(), "expand_dims", o.literal(axis, "axis"))
    if len(after) == len(before) - 1:
        for axis, dim in enumerate(before):
            if dim == 1 and (*before[:axis], *before[axis + 1 :]) == after:
                return method(o.x(), "squeeze", o.literal(axis, "axis"))
    flat = flatten_start(before, after)
    if flat is not None:
        return flatten_from(o, flat)
    return method(o.x(), "reshape", *(o.size(dim) for dim in _with_rest(before, after)) if after else ["()"])


def flatten_start(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> int | None:
    """The first of the trailing axes (two or more) that a reshape flattens to one; None for any other reshape."""
    start = len(after) - 1
    return start if start < len(before) - 1 and before[:start] == after[:start] else None


def flatten_from(o: Operation, start: int) -> Expression:
    """Flatten all axes from `start` on."""
    return method(o.x(), "flatten", start_dim=o.literal(start, "start_dim"))


def _with_rest(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The new shape, with -1 for its first size if that equals the first size of the old shape.

    The batch size may then differ from the captured one.
    """
    same_start = len(after) > 1 and before[:1] == after[:1] and isinstance(after[0], int)
    return (-1, *after[1:]) if same_start and 0 not in after else after


@form("transpose")
def _(o: Operation) -> Expression:
    permutation = o["permutation"]
    moved = [axis for axis, source in enumerate(permutation) if axis != source]
    if len(moved) == 2:
        return method(o.x(), "swapaxes", *(o.literal(axis, "axis") for axis in moved))
    return method(o.x(), "permute", *(o.literal(axis, "axis") for axis in permutation))


@form("expand")
def _(o: Operation) -> Expression:
    return method(o.x(), "broadcast_to", o.sizes(o["shape"]))


@form("concat")
def _(o: Operation) -> Expression:
    parts = tuple_literal([o.x(i).text for i in range(len(o.node.inputs))])
    return call("ops.cat", parts, axis=o.literal(o["axis"], "axis"))


@form("slice")
def _(o: Operation) -> Expression:
    shape = o.type().shape
    cuts = [":"] * len(shape)
    for axis, start, stop, step in zip(o["axes"], o["starts"], o["stops"], o["steps"], strict=True):
        axis %= len(shape)
        first = "" if start == 0 else o.size(start, "start")
        last = "" if stop == shape[axis] else o.size(stop, "stop")
        cuts[axis] = f"{first}:{last}" + ("" if step == 1 else f":{o.literal(step, 'step')}")
    while len(cuts) > 1 and cuts[-1] == ":":
        cuts.pop()
    return Expression(f"{o.x().within(ATOM)}[{', '.join(cuts)}]")


@form("pad")
def _(o: Operation) -> Expression:
    """Negative sizes crop."""
    before, after = o["before"], o["after"]
    result = o.x()
    if any(isinstance(size, int) and size < 0 for size in (*before, *after)):
        cuts = [_crop_range(first, last) for first, last in zip(before, after, strict=True)]
        result = Expression(f"{result.within(ATOM)}[{', '.join(cuts)}]")
        before, after = (
            [0 if isinstance(size, int) and size < 0 else size for size in sizes] for sizes in (before, after)
        )
    first = next((axis for axis, pair in enumerate(zip(before, after, strict=True)) if pair != (0, 0)), len(before))
    sizes = [size for axis in reversed(range(first, len(before))) for size in (before[axis], after[axis])]
    if not sizes:
        return result
    mode = None if o["mode"] == "constant" else f'"{o["mode"]}"'
    value = o.literal(o["value"], "value") if o["mode"] == "constant" and o["value"] != 0 else None
    return call("ops.pad", result.text, o.sizes(sizes, "padding"), mode=mode, value=value)


def _crop_range(before: Dim, after: Dim) -> str:
    first = str(-before) if isinstance(before, int) and before < 0 else ""
    last = str(after) if isinstance(after, int) and after < 0 else ""
    return f"{first}:{last}"


@form("flip")
def _(o: Operation) -> Expression:
    return call("ops.flip", o.x().text, tuple_literal([o.literal(axis, "axis") for axis in o["axes"]]))


@form("tile")
def _(o: Operation) -> Expression:
    return call("ops.tile", o.x().text, o.sizes(o["repeats"], "repeats"))


@form("roll")
def _(o: Operation) -> Expression:
    """By a helper function of the source: `ops.roll` doesn't exist on every device."""
    result = o.x()
    for shift, axis in zip(o["shifts"], o["axes"], strict=True):
        size = o.type().shape[axis]
        if isinstance(shift, int) and isinstance(size, int):
            shift %= size or 1
        if shift != 0:
            o.scope.use("roll")
            result = call("roll", result.text, o.size(shift, "shift"), o.literal(axis, "axis"))
    return result


@form("triangle")
def _(o: Operation) -> Expression:
    name = "triu" if o["upper"] else "tril"
    diagonal = o.literal(o["k"], "diagonal") if o["k"] else None
    if o.type().dtype == BOOL:
        triangle = call(f"ops.{name}", method(o.x(), "astype", "ms.int32").text, diagonal=diagonal)
        return method(triangle, "astype", "ms.bool_")
    return call(f"ops.{name}", o.x().text, diagonal=diagonal)


# ---- creation ----


@form("full")
def _(o: Operation) -> Expression:
    value, dtype = o["value"], o["dtype"]
    shape = o.sizes(o["shape"])
    if not isinstance(value, (bool, int, float)):  # a size
        return call("ops.full", shape, o.size(value, "value"), dtype=o.dtype(dtype))
    if value in (0, 1) and dtype == FLOAT32:
        return call("ops.zeros" if value == 0 else "ops.ones", shape)
    plain = bool(value) if dtype == BOOL else float(value) if dtype.kind not in "iu" else int(value)
    return call("ops.full", shape, o.literal(plain, "value"), dtype=o.dtype(dtype))


@form("arange")
def _(o: Operation) -> Expression:
    def bound(value: Any, name: str) -> str:
        return o.literal(value, name) if isinstance(value, float) else o.size(value, name)

    plain = o["start"] == 0 and o["step"] == 1
    bounds = [bound(o["stop"], "stop")] if plain else [bound(o["start"], "start"), bound(o["stop"], "stop")]
    step = [] if o["step"] == 1 else [o.literal(o["step"], "step")]
    return call("ops.arange", *bounds, *step, dtype=o.dtype(o["dtype"]))
