"""Ops that move, cut and join elements, look them up, or make them."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim
from ....runtime.ir.types import BOOL, FLOAT32, INT64
from ..expressions import ATOM, COMPARISON, NEGATION, PRODUCT, SUM, Expression, call, infix, method, number, several
from .table import Cannot, Operation, form


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
        flat = _flattened(before, after)
        if flat is not None:
            return flat_from(o, flat)
    return method(o.x(), "reshape", *(o.size(dim) for dim in _with_rest(before, after)) if after else ["()"])


def _flattened(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> int | None:
    """The axis from which on all axes, at least two, become one."""
    start = len(after) - 1
    return start if start < len(before) - 1 and before[:start] == after[:start] else None


def flat_from(o: Operation, start: int) -> Expression:
    """All axes from `start` on as one."""
    return method(o.x(), "flatten", start_dim=o.literal(start, "start_dim"))


def _with_rest(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The new shape; its first size, where it is that of the old shape, is left for the others to determine.

    So a batch may have another size than the one that was captured.
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
    parts = several([o.x(i).text for i in range(len(o.node.inputs))])
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
    before, after = o["before"], o["after"]
    if any(isinstance(size, int) and size < 0 for size in (*before, *after)):
        raise Cannot("a negative padding")
    first = next((axis for axis, pair in enumerate(zip(before, after, strict=True)) if pair != (0, 0)), len(before))
    sizes = [size for axis in reversed(range(first, len(before))) for size in (before[axis], after[axis])]
    if not sizes:
        return o.x()
    mode = None if o["mode"] == "constant" else f'"{o["mode"]}"'
    value = o.literal(o["value"], "value") if o["mode"] == "constant" and o["value"] != 0 else None
    return call("ops.pad", o.x().text, o.sizes(sizes, "padding"), mode=mode, value=value)


@form("flip")
def _(o: Operation) -> Expression:
    return call("ops.flip", o.x().text, several([o.literal(axis, "axis") for axis in o["axes"]]))


@form("tile")
def _(o: Operation) -> Expression:
    return call("ops.tile", o.x().text, o.sizes(o["repeats"], "repeats"))


@form("roll")
def _(o: Operation) -> Expression:
    """By slices: `roll` itself isn't there on every device."""
    result = o.x()
    for shift, axis in zip(o["shifts"], o["axes"], strict=True):
        size = o.type().shape[axis]
        if isinstance(shift, int) and isinstance(size, int):
            shift %= size or 1
        if shift == 0:
            continue
        lead = ":, " * (axis % o.type().rank)
        cut = o.size(-shift if isinstance(shift, int) else shift * -1, "shift")
        held = result.within(ATOM)
        parts = f"({held}[{lead}{cut}:], {held}[{lead}:{cut}])"
        result = call("ops.cat", parts, axis=o.literal(axis, "axis"))
    return result


@form("triangle")
def _(o: Operation) -> Expression:
    name = "triu" if o["upper"] else "tril"
    diagonal = o.literal(o["k"], "diagonal") if o["k"] else None
    if o.type().dtype == BOOL:
        found = call(f"ops.{name}", method(o.x(), "astype", "ms.int32").text, diagonal=diagonal)
        return method(found, "astype", "ms.bool_")
    return call(f"ops.{name}", o.x().text, diagonal=diagonal)


# ---- made of nothing ----


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


# ---- lookups ----


@form("take")
def _(o: Operation) -> Expression:
    return call("ops.gather", o.x(0).text, _not_negative(o, 1, o["axis"]), o.literal(o["axis"], "axis"))


def _not_negative(o: Operation, i: int, axis: int) -> str:
    """Indices, those that count from the end moved to where they count from the front."""
    value = o.node.inputs[i]
    constant = None if value is None else o.scope.constant(value)
    if constant is not None and (constant >= 0).all() or o.scope.never_negative(value):
        return o.x(i).text
    x, size = o.x(i), o.size(o.type().shape[axis])
    moved = infix("+", SUM, x, Expression(size))
    return call("ops.where", infix("<", COMPARISON, x, Expression("0")).text, moved.text, x.text).text


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
        raise Cannot(f"reduction {reduction!r}")
    named = {"axis": o.literal(o["axis"], "axis"), "reduction": None if reduction == "none" else '"add"'}
    return call("ops.tensor_scatter_elements", o.x(0).text, o.x(1).text, o.x(2).text, **named)


@form("scatter_nd")
def _(o: Operation) -> Expression:
    names = {"none": "TensorScatterUpdate", "add": "TensorScatterAdd", "max": "TensorScatterMax",
             "min": "TensorScatterMin", "mul": "TensorScatterMul"}  # fmt: skip
    return call(f"ops.{names[o['reduction']]}()", o.x(0).text, o.x(1).text, o.x(2).text)


@form("index_add")
def _(o: Operation) -> Expression:
    """Through a scatter along the first axis."""
    axis, rank = o["axis"] % o.type().rank, o.type().rank
    x, updates = o.x(0), o.x(2)
    if axis:
        x, updates = (method(t, "swapaxes", "0", str(axis)) for t in (x, updates))
    found = call("ops.TensorScatterAdd()", x.text, method(o.x(1), "expand_dims", "-1").text, updates.text)
    return method(found, "swapaxes", "0", str(axis)) if axis and rank > 1 else found


@form("slice_scatter")
def _(o: Operation) -> Expression:
    """What comes before, the part, and what comes after, where the step is 1."""
    if o["step"] != 1:
        raise Cannot("a step")
    axis, size = o["axis"] % o.type().rank, o.type().shape[o["axis"]]
    lead, held = ":, " * axis, o.x(0).within(ATOM)
    parts = [o.x(1).text]
    if o["start"] != 0:
        parts.insert(0, f"{held}[{lead}:{o.size(o['start'], 'start')}]")
    if o["stop"] != size:
        parts.append(f"{held}[{lead}{o.size(o['stop'], 'stop')}:]")
    return call("ops.cat", several(parts), axis=o.literal(axis, "axis"))


@form("class_index")
def _(o: Operation) -> Expression:
    ignored = o["ignore_index"]
    if ignored is None:
        return o.x()
    return method(o.x(), "masked_fill", infix("==", COMPARISON, o.x(), Expression(number(ignored))).text, "0")


# ---- random ----


@form("bernoulli")
def _(o: Operation) -> Expression:
    drawn = call("ops.rand", *(o.size(dim) for dim in o["shape"]))
    return method(infix("<", COMPARISON, drawn, Expression(o.literal(o["probability"], "p"))), "astype", o.dtype(o["dtype"]))


@form("bernoulli_each")
def _(o: Operation) -> Expression:
    drawn = call("ops.rand_like", o.x().text)
    return method(infix("<", COMPARISON, drawn, o.x()), "astype", o.dtype(o.out.dtype))


@form("uniform")
def _(o: Operation) -> Expression:
    drawn = call("ops.rand", *(o.size(dim) for dim in o["shape"]), dtype=_unless_float32(o))
    return _scaled(o, drawn, o["high"] - o["low"], o["low"])


@form("normal")
def _(o: Operation) -> Expression:
    drawn = call("ops.randn", *(o.size(dim) for dim in o["shape"]), dtype=_unless_float32(o))
    return _scaled(o, drawn, o["deviation"], o["mean"])


@form("exponential")
def _(o: Operation) -> Expression:
    drawn = call("ops.rand", *(o.size(dim) for dim in o["shape"]), dtype=_unless_float32(o))
    logarithm = call("ops.log1p", f"-{drawn.text}")
    return infix("/", PRODUCT, Expression(f"-{logarithm.text}", NEGATION), Expression(o.literal(o["rate"], "rate")))


@form("integers")
def _(o: Operation) -> Expression:
    low, high = o.literal(o["low"], "low"), o.literal(o["high"], "high")
    drawn = call("ops.randint", low, high, o.sizes(o["shape"]))
    return method(drawn, "astype", o.dtype(o["dtype"])) if o["dtype"] != INT64 else drawn


def _unless_float32(o: Operation) -> str | None:
    return None if o["dtype"] == FLOAT32 else o.dtype(o["dtype"])


def _scaled(o: Operation, x: Expression, factor: float, offset: float) -> Expression:
    if factor != 1.0:
        x = infix("*", PRODUCT, x, Expression(o.literal(factor, "factor")))
    return x if offset == 0.0 else infix("+", SUM, x, Expression(o.literal(offset, "offset")))
