"""Layers of one kind in another order, and Cells that are left out, where they are judged in the Cell around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import combinations, pairwise

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ....runtime.visible import visible_name
from ...results.cause import Cause
from ..cell_program import CellProgram
from ..evidence import Evidence
from ..naming import calls_around
from .hypothesis import Hypothesis, with_values

NUMBERED = re.compile(r"(.*?)\.(\d+)\.(.+)")
"""A parameter of a layer in a list: the list, the number of the layer, and the rest."""
MAX_LAYERS = 6
"""The most layers of which each two are exchanged."""


def orders(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield layers with the same parameters in reversed order, and each two of a few in each other's place."""
    for path, layers in _lists(cell.program).items():
        numbers = sorted(layers)
        shown = [visible_name(f"{path}.{number}") for number in numbers]
        summary = f"{shown[0]} to {shown[-1]} are applied in reversed order in the candidate"
        reverse = dict(zip(numbers, numbers[::-1], strict=True))
        yield Hypothesis(Cause("structure", summary), partial(_reordered, cell.program, layers, reverse))
        for first, second in combinations(numbers, 2) if 2 < len(numbers) <= MAX_LAYERS else ():
            names = [visible_name(f"{path}.{number}") for number in (first, second)]
            summary = f"{names[0]} and {names[1]} are in each other's place in the candidate"
            order = {first: second, second: first}
            yield Hypothesis(Cause("structure", summary), partial(_reordered, cell.program, layers, order))


def _lists(program: Program) -> dict[str, dict[int, dict[str, Value]]]:
    """Return the lists of layers that have parameters of the same names and types: by path, number and name."""
    lists: dict[str, dict[int, dict[str, Value]]] = {}
    for name, parameter in program.parameters.items():
        if match := NUMBERED.fullmatch(name):
            lists.setdefault(match[1], {}).setdefault(int(match[2]), {})[match[3]] = parameter.value
    return {
        path: layers
        for path, layers in lists.items()
        if len(layers) > 1 and _are_alike(layers) and _follow_each_other(program, layers)
    }


def _follow_each_other(program: Program, layers: dict[int, dict[str, Value]]) -> bool:
    """Whether each layer is given what the one before it computes: tables of several columns, or branches, aren't."""
    own = {value: number for number, layer in layers.items() for value in layer.values()}
    reached: dict[Value, frozenset[int]] = {}
    before: dict[int, frozenset[int]] = dict.fromkeys(layers, frozenset())
    for node in program.nodes:
        operands = [value for value in node.inputs if value is not None]
        given = frozenset[int]().union(*(reached.get(value, ()) for value in operands))
        used = {own[value] for value in operands if value in own}
        before |= {number: before[number] | given for number in used}
        reached |= dict.fromkeys(node.outputs, given | used)
    return all(first in before[second] for first, second in pairwise(sorted(layers)))


def _are_alike(layers: dict[int, dict[str, Value]]) -> bool:
    return len({tuple(sorted((n, str(v.type)) for n, v in layer.items())) for layer in layers.values()}) == 1


def _reordered(program: Program, layers: dict[int, dict[str, Value]], order: dict[int, int]) -> Program:
    return with_values(
        program, {value: layers[to][name] for number, to in order.items() for name, value in layers[number].items()}
    )


def left_out(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each Cell that is judged with this one left out: what it returns is what it is given."""
    program = cell.program
    inside: dict[int, list[int]] = {}
    for position, node in enumerate(program.nodes):
        for number in calls_around(cell, node):
            inside.setdefault(number, []).append(position)
    for number, positions in inside.items():
        own = [program.nodes[position] for position in positions]
        made = {value for node in own for value in node.outputs}
        rest = [node for position, node in enumerate(program.nodes) if position not in set(positions)]
        used = {value for node in rest for value in node.inputs} | {*program.outputs}
        results = [value for node in own for value in node.outputs if value in used]
        given = [v for node in own for v in node.inputs if v is not None and v not in made]
        entering = [v for v in dict.fromkeys(given) if v not in program.constant_data]
        if len(results) == 1:
            for value in (value for value in entering if value.type == results[0].type):
                name = visible_name(program.calls[number].path)
                cause = Cause("structure", f"{name} is left out of the candidate", f"call {name}")
                yield Hypothesis(cause, partial(with_values, program, {results[0]: value}))
