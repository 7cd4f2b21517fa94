"""Conditions: whether they are known while Python is traced, and both branches of one that isn't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...common.dtype import bool_
from ...common.tensor import Tensor, wrapped
from ...ir.dims import product
from ...ops import elementwise, shaping
from ...ops.higher_order.control_flow import cond
from ...ops.higher_order.subprogram_rules import as_tuple
from ...programs.subprograms import own_symbols
from ...tracing import SymbolicTensor
from ..current import Recording, current_recording
from ..printing import conditional, values_of, with_values
from .joining import Joining, filled
from .regions import Imports, Region, as_value, assembled, operands
from .state import State, Undefined, Variable


def is_symbolic(value: Any) -> bool:
    """Whether it is a tensor whose elements are known only when the program runs."""
    return isinstance(value, Tensor) and isinstance(value._data, SymbolicTensor)


def truth(value: Any) -> Any:
    """A bool; of a symbolic tensor, a bool tensor without dimensions.

    Raises:
        ValueError: the tensor hasn't one element.
    """
    if not is_symbolic(value):
        return bool(value)
    if product(value.shape) != 1:
        raise ValueError(
            "bool(), in an `if`, `while`, `and`, `or` or `not`: the truth value of a tensor with more than one element "
            f"is ambiguous: needed one element, got shape {tuple(value.shape)}; use any() or all()"
        )
    flat = value if not value.shape else shaping.reshape(value, shape=())
    return flat if flat.dtype == bool_ else elementwise.cast(flat, dtype=bool_)


def either_of(condition: Tensor, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """Run both functions, and give what the program is to take of them: see `control`."""
    trace = current_recording()
    state = State(trace, (then, orelse))
    imports: Imports = {}
    regions = [Region(trace, state, imports) for _ in range(2)]
    for region, function in zip(regions, (then, orelse), strict=True):
        region.run(function)
    joining = Joining(trace)
    result = joining.join(regions[0].result, regions[1].result, "what is returned")
    joined = []
    for key in dict.fromkeys(key for region in regions for key in region.changes):
        place, before, _ = next(region.changes[key] for region in regions if key in region.changes)
        now = [r.changes[key][2] if key in r.changes else r.imported_in(before) for r in regions]
        ours = isinstance(place, Variable) and place.is_ours
        joined.append((place, joining.join(now[0], now[1], str(place), may_be_undefined=ours)))
        if isinstance(place, Variable) and isinstance(now[0], Undefined) != isinstance(now[1], Undefined):
            names = ("true", "false") if isinstance(now[0], Undefined) else ("false", "true")
            trace.one_sided[place.name] = f"is not defined in the {names[0]} branch, but defined in the {names[1]} one"
    printed = [(entry, number) for number, region in enumerate(regions) for entry in region.printed]
    count = len(joining.pairs)
    joining.pairs += [pair for entry, number in printed for pair in conditional(entry, number == 0)]
    outputs = _conditional(trace, condition, regions, joining.pairs)
    told = iter(outputs[count:])
    for entry, _ in printed:
        reached = next(told)
        trace.printed.append(with_values(entry, [next(told) for _ in values_of(entry)], reached))
    for place, value in joined:
        place.put(filled(value, outputs))
    return filled(result, outputs)


def _conditional(
    trace: Recording, condition: Tensor, regions: Sequence[Region], pairs: Sequence[tuple[Any, Any]]
) -> list[Tensor]:
    """The outputs of a `cond` that gives one of each pair."""
    if not pairs:
        return []
    results = [[as_value(trace.builder, pair[i]) for pair in pairs] for i in range(2)]
    taken = operands(trace, regions, [*results[0], *results[1]], ())
    branches = [
        assembled(trace, region, (), taken, values, name)
        for region, values, name in zip(regions, results, ("then", "else"), strict=True)
    ]
    own = own_symbols(branches[0]) | own_symbols(branches[1])
    symbols = [
        trace.builder.new_symbol("size")
        for a, b in zip(*results, strict=True)
        for x, y in zip(a.shape, b.shape, strict=True)
        if x != y or any(name in own for name in _symbols(x))
    ]
    made = cond(
        condition,
        *(operand.tensor for operand in taken),
        then_branch=branches[0],
        else_branch=branches[1],
        symbols=tuple(symbols),
    )
    return [x if isinstance(x, Tensor) else wrapped(x) for x in as_tuple(made)]


def _symbols(dim: Any) -> set[str]:
    return set() if isinstance(dim, int) else set(dim.symbols())
