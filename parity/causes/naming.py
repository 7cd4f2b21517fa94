"""What nodes and values of a Cell are called: by the Cells inside it, by what computes them, by what they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from ...runtime.ir.types import Node, Value
from ...runtime.visible import visible_name
from ..sides.port_program import OWN
from ..sides.records import OUTPUT_GRADIENT
from .cell_program import CellProgram
from .source_words import piece_in_words, result_in_words, selected_by


def calls_around(cell: CellProgram, node: Node) -> list[int]:
    """Return the numbers of the calls that a node is in, inside a Cell, the outermost first."""
    calls = cell.program.calls
    numbers: list[int] = []
    number: int | None = node.cell
    while number is not None and calls[number].path != cell.path:
        numbers.insert(0, number)
        number = calls[number].parent
    return numbers


def cells_of_nodes(cell: CellProgram, nodes: Sequence[Node]) -> tuple[list[str], Sequence[Node]]:
    """Return the paths of the Cells, inside another one, that some nodes are all of, and the nodes of no such Cell."""
    calls = cell.program.calls
    around = partial(calls_around, cell)
    sizes = Counter(number for node in cell.program.nodes for number in around(node))
    given = Counter(number for node in nodes for number in around(node))
    whole = {number for number in given if given[number] == sizes[number]}
    # a container with nodes in one Cell alone may be called for its other Cells, too
    named = {n for n in whole if not any(calls[m].parent == n and given[m] == given[n] for m in whole)}
    outermost = {next((n for n in around(node) if n in named), None): None for node in nodes}
    cells = [visible_name(calls[n].path.removeprefix(OWN)) for n in outermost if n is not None]
    return cells, [node for node in nodes if not whole & {*around(node)}]


@dataclass(frozen=True)
class Passed:
    """Values in each other's place.

    Attributes:
        to: path of the Cell that they are passed to; None if they are used otherwise.
        returned_by: paths of the Cells inside that return them.
    """

    to: str | None
    returned_by: frozenset[str]


def called_elsewhere(parts: Iterable[Passed]) -> tuple[str, ...]:
    """Return the Cells that are called at another place, if this is what all differences come from."""
    parts = list(parts)
    cells = tuple(dict.fromkeys(part.to for part in parts if part.to is not None))
    follows = [part.to is not None or not part.returned_by.isdisjoint(cells) for part in parts]
    # the one that follows the last of them is only passed another value
    moved = tuple(path for path in cells if any(path in part.returned_by for part in parts))
    return moved if len(parts) > 1 and all(follows) else ()


def in_another_place(cells: Sequence[str]) -> str:
    """Return the words for Cells that are called at another place."""
    names = [visible_name(path) for path in cells]
    if len(names) == 1:
        return f"{names[0]} is called at another place in the candidate"
    return f"{', '.join(names[:-1])} and {names[-1]} are called in another order in the candidate"


def returning_cell(cell: CellProgram, value: Value) -> str | None:
    """Return the path of the Cell inside that returns a value; None if there is none."""
    key = dict(zip(cell.program.inputs, cell.input_keys, strict=True)).get(value)
    return key.path if key is not None and key.kind == OUTPUT_GRADIENT else None


def inner_cell_returning(cell: CellProgram, value: Value) -> str:
    """Return the path of the Cell inside, judged with this one, that computes a value for nodes outside it; else ""."""
    program = cell.program
    node = program.producers.get(value)
    if node is None:
        return ""
    users = [calls_around(cell, other) for other in program.nodes if value in other.inputs]
    calls = (n for n in calls_around(cell, node) if not any(n in user for user in users))
    return next((program.calls[n].path.removeprefix(OWN) for n in calls), "")


def name_of_value(cell: CellProgram, value: Value) -> str:
    """Return what a value of a Cell is, in words."""
    program = cell.program
    if value in program.producers:
        node = program.producers[value]
        if inner := inner_cell_returning(cell, value):
            return f"what {visible_name(inner)} returns"
        if words := piece_in_words(program, node):
            return words
        taken = node if node.op == "slice" else selected_by(program, node)
        if taken is not None and taken.inputs[0] is not None:
            return f"{taken_by(taken)} of {name_of_value(cell, taken.inputs[0])}"
        if words := result_in_words(program, node, node.outputs.index(value)):
            return words
        alike = [other for other in program.nodes if other.op == node.op]
        return f"the result of {node.op}" + (f" {alike.index(node) + 1} of {len(alike)}" if len(alike) > 1 else "")
    stored = {p.value: n for n, p in program.parameters.items()} | {b.value: n for n, b in program.buffers.items()}
    if value in stored:
        return visible_name(stored[value])
    if value not in program.inputs:
        data = program.constant_data.get(value)
        is_number = data is not None and data.size == 1 and data.dtype.kind in "iuf"
        return f"the number {data.reshape(-1)[0].item():.6g}" if is_number and data is not None else "a constant"
    key = cell.input_keys[program.inputs.index(value)]
    if key is None:
        return f"the value {visible_name(value.name)}"
    if key.kind != OUTPUT_GRADIENT:
        return f"the input {visible_name(cell.slots.get(value, key.slot))}"
    part = "" if key.slot == "result" else f"{visible_name(key.slot)} of "
    return f"{part}what {visible_name(key.path)} returns"


def taken_by(node: Node) -> str:
    """Return the elements that a slice takes, in Python's notation."""
    names = ("starts", "stops", "axes", "steps")
    starts, stops, axes, steps = (node.attributes[name] for name in names)
    parts = []
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        is_single = stop == start + 1
        parts.append(
            f"{'element' if is_single else 'elements'} {start}{'' if is_single else f':{stop}'}"
            f"{f':{step}' * (step != 1)} along axis {axis}"
        )
    return ", ".join(parts)
