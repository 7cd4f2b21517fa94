"""Conditions: decides whether a condition is known while tracing, and records both branches if it isn't."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...common.dtype import bool_
from ...common.tensor import Tensor, from_array
from ...ir.dims import product
from ...ops import elementwise, shaping
from ...ops.higher_order.control_flow import cond
from ...ops.higher_order.subprogram_rules import as_tuple
from ...programs.subprograms import own_symbols
from ...tracing import SymbolicTensor
from ..current import Recording, current_recording
from ..printing import branch_outputs, values_of, with_values
from .joining import BranchJoiner, fill_outputs
from .regions import Imports, Region, as_value, build_subprogram, operands
from .state import State, Undefined, Variable


def is_symbolic(value: Any) -> bool:
    """Whether a value is a tensor whose elements are known only when the program runs."""
    return isinstance(value, Tensor) and isinstance(value._data, SymbolicTensor)


def truth(value: Any) -> Any:
    """Convert a value to bool; a symbolic tensor to a bool tensor without dimensions.

    Raises:
        ValueError: the tensor doesn't have exactly one element.
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


def record_branches(condition: Tensor, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
    """Record both functions, and return the result that the program selects; see `control`."""
    trace = current_recording()
    state = State(trace, (then, orelse))
    imports: Imports = {}
    regions = [Region(trace, state, imports) for _ in range(2)]
    for region, function in zip(regions, (then, orelse), strict=True):
        region.run(function)
    joiner = BranchJoiner(trace)
    result = joiner.join(regions[0].result, regions[1].result, "the returned value")
    joined = []
    for key in dict.fromkeys(key for region in regions for key in region.changes):
        place, before, _ = next(region.changes[key] for region in regions if key in region.changes)
        now = [r.changes[key][2] if key in r.changes else r.import_nested(before) for r in regions]
        is_generated = isinstance(place, Variable) and place.is_generated
        joined.append((place, joiner.join(now[0], now[1], str(place), may_be_undefined=is_generated)))
        if isinstance(place, Variable) and isinstance(now[0], Undefined) != isinstance(now[1], Undefined):
            names = ("true", "false") if isinstance(now[0], Undefined) else ("false", "true")
            trace.undefined_in_branch[place.name] = (
                f"is not defined in the {names[0]} branch, but defined in the {names[1]} one"
            )
    printed = [(entry, number) for number, region in enumerate(regions) for entry in region.printed]
    count = len(joiner.pairs)
    joiner.pairs += [pair for entry, number in printed for pair in branch_outputs(entry, number == 0)]
    outputs = _conditional(trace, condition, regions, joiner.pairs)
    remaining = iter(outputs[count:])
    for entry, _ in printed:
        reached = next(remaining)
        trace.print_entries.append(with_values(entry, [next(remaining) for _ in values_of(entry)], reached))
    for place, value in joined:
        place.put(fill_outputs(value, outputs))
    return fill_outputs(result, outputs)


def _conditional(
    trace: Recording, condition: Tensor, regions: Sequence[Region], pairs: Sequence[tuple[Any, Any]]
) -> list[Tensor]:
    """Append a `cond` that selects one of each pair, and return its outputs."""
    if not pairs:
        return []
    results = [[as_value(trace.builder, pair[i]) for pair in pairs] for i in range(2)]
    imports = operands(trace, regions, [*results[0], *results[1]], ())
    branches = [
        build_subprogram(trace, region, (), imports, values, name)
        for region, values, name in zip(regions, results, ("then", "else"), strict=True)
    ]
    inner_symbols = own_symbols(branches[0]) | own_symbols(branches[1])
    symbols = [
        trace.builder.new_symbol("size")
        for a, b in zip(*results, strict=True)
        for x, y in zip(a.shape, b.shape, strict=True)
        if x != y or any(name in inner_symbols for name in _symbols(x))
    ]
    selected = cond(
        condition,
        *(operand.tensor for operand in imports),
        then_branch=branches[0],
        else_branch=branches[1],
        symbols=tuple(symbols),
    )
    return [x if isinstance(x, Tensor) else from_array(x) for x in as_tuple(selected)]


def _symbols(dim: Any) -> set[str]:
    return set() if isinstance(dim, int) else set(dim.symbols())
