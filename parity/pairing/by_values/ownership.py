"""The nodes of a file that belong to each Cell call of a module, and the Cells that can be judged there.

A call owns the nodes on which its outputs depend, as far as its inputs. A Cell can be judged if the file computes its
outputs in nodes of their own, from all of its inputs that matter. The others belong to the Cells around them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ....runtime.ir.types import CellCall, Node, Value
from ....runtime.ops.registry import get
from ...results.cell_report import is_inside
from ...sides.records import INPUT, OUTPUT, Key, Records
from .crossings import Crossing, is_idle
from .flat import FlatProgram
from .moved_cells import Moves

Events = list[tuple[int, Key, Value]]
"""Calls by number, and the boundaries of each with their places, in the order of the module."""


@dataclass
class Ownership:
    """The Cells of a module that can be judged in a file.

    Attributes:
        calls: their calls, in order of entry; the first is the root.
        owner: number of the call that owns a node; the root owns those that aren't listed.
        events: the boundaries of these calls that have a place.
        left_out: why other Cells can't be judged by themselves, by path.
        changing: numbers of the calls that change a tensor of their caller, which takes it from their inside.
    """

    calls: list[CellCall]
    owner: dict[Node, int] = field(default_factory=dict)
    events: Events = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    changing: frozenset[int] = frozenset()

    def path_of(self, flat: FlatProgram, value: Value) -> str:
        """The path of the Cell that computes a value."""
        node = flat.program.producers.get(value)
        return self.calls[0 if node is None else self.owner.get(node, 0)].path

    def is_inside(self, number: int | None, call: int) -> bool:
        """Whether a call is another one, or inside it."""
        while number is not None and number != call:
            number = self.calls[number].parent
        return number is not None


def own_nodes(
    flat: FlatProgram,
    truth: Records,
    tensors: Sequence[Crossing],
    places: Mapping[Crossing, Value],
    moves: Moves,
) -> Ownership:
    """Return the Cells that can be judged, and what belongs to them."""
    crossing = {key: tensor for tensor in tensors for key in tensor.keys}
    place = {key: places[tensor] for key, tensor in crossing.items() if tensor in places}
    left_out = dict.fromkeys(moves.divided, "the file computes a Cell inside it at another place")
    while True:
        ownership = Ownership(_without(truth.calls, left_out), left_out=left_out)
        keys = _keys_of(ownership.calls, truth)
        _assign(flat, ownership, keys, place)
        reasons = {
            call.path: reason
            for number, call in enumerate(ownership.calls)
            if number
            and (
                reason := _obstacle(flat, ownership, number, keys[number], place, crossing, truth)
                or _moved_into(ownership, number, moves)
            )
        }
        if not reasons:
            numbers = {(call.path, call.index): number for number, call in enumerate(ownership.calls)}
            ownership.changing = frozenset(numbers[call] for call in truth.boundaries.changing & numbers.keys())
            ownership.events = [
                (number, key, place[key])
                for key in truth.values
                if key in place
                and (number := numbers.get((key.path, key.call))) is not None
                and (not number or key.kind == INPUT or _computes(flat, ownership, number, place[key]))
            ]
            return ownership
        # the innermost first: what they computed may then belong to a Cell that can be judged
        innermost = max(path.count(".") for path in reasons)
        left_out |= {path: reason for path, reason in reasons.items() if path.count(".") == innermost}


def _without(calls: Sequence[CellCall], left_out: Collection[str]) -> list[CellCall]:
    """Return the calls of other paths, renumbered."""
    numbers: dict[int, int] = {}
    kept: list[CellCall] = []
    for number, call in enumerate(calls):
        parent = None if call.parent is None else numbers[call.parent]
        if call.path in left_out:
            assert parent is not None, "the root is never left out"
            numbers[number] = parent
        else:
            numbers[number] = len(kept)
            kept.append(CellCall(call.path, call.class_name, call.index, parent))
    return kept


def _keys_of(calls: Sequence[CellCall], truth: Records) -> list[list[Key]]:
    """Return the boundaries of each call."""
    by_call: dict[tuple[str, int], list[Key]] = {}
    for key in truth.values:
        if key.kind in (INPUT, OUTPUT):
            by_call.setdefault((key.path, key.call), []).append(key)
    return [by_call.get((call.path, call.index), []) for call in calls]


def _assign(flat: FlatProgram, ownership: Ownership, keys: Sequence[Sequence[Key]], place: Mapping[Key, Value]) -> None:
    """Assign nodes to calls, in the order in which they return."""
    children: dict[int | None, list[int]] = {}
    for number, call in enumerate(ownership.calls):
        children.setdefault(call.parent, []).append(number)
    for number in _in_order_of_return(children, 0):
        if not number:
            continue
        entering = {place[key] for key in keys[number] if key.kind == INPUT and key in place}
        waiting = [place[key] for key in keys[number] if key.kind == OUTPUT and key in place]
        visited: set[Value] = set()
        while waiting:
            value = waiting.pop()
            node = flat.program.producers.get(value)
            if node is None or value in visited or value in entering:
                continue
            visited.add(value)
            holder = ownership.owner.setdefault(node, number)
            if ownership.is_inside(holder, number):
                waiting += [operand for operand in node.inputs if operand is not None]


def _in_order_of_return(children: Mapping[int | None, list[int]], root: int) -> list[int]:
    order: list[int] = []
    waiting = [(root, False)]
    while waiting:
        number, returns = waiting.pop()
        if returns:
            order.append(number)
        else:
            waiting.append((number, True))
            waiting += [(child, False) for child in reversed(children.get(number, []))]
    return order


def _obstacle(
    flat: FlatProgram,
    ownership: Ownership,
    number: int,
    keys: Sequence[Key],
    place: Mapping[Key, Value],
    crossing: Mapping[Key, Crossing],
    truth: Records,
) -> str:
    """Return why a call can't be judged by itself; empty if it can."""
    inside = 0
    for key in keys:
        tensor = crossing.get(key)
        idle = tensor is None or not tensor.varies or not tensor.floating or is_idle(key, truth)
        if key not in place:
            if not idle or (tensor is not None and tensor.is_source and _takes_inputs(flat, ownership, number)):
                return f"its {key.kind} has no place in the file"
            continue
        if key.kind == OUTPUT:
            computes = _computes(flat, ownership, number, place[key])
            inside += computes
            if not computes and not idle:
                return "the file computes nothing in it"
    if not inside:
        return "the file computes nothing in it"
    entering = {place[key] for key in keys if key.kind == INPUT and key in place and crossing[key].varies}
    moved = _with_moved(flat, entering)  # the first of several Cells owns what all of them need, and each gets a copy
    using = (node for value in moved for node in flat.consumers.get(value, ()) if node in ownership.owner)
    if entering and not any(ownership.is_inside(ownership.owner[node], number) for node in using):
        return "the file computes it together with another Cell"
    return ""


def _takes_inputs(flat: FlatProgram, ownership: Ownership, number: int) -> bool:
    """Whether a call computes with what the file is given."""
    using = (node for value in flat.program.inputs for node in flat.consumers.get(value, ()))
    return any(node in ownership.owner and ownership.is_inside(ownership.owner[node], number) for node in using)


def _moved_into(ownership: Ownership, number: int, moves: Moves) -> str:
    """Return why a call can't be judged in which the file computes a Cell that isn't inside it; empty if it can."""
    path = ownership.calls[number].path
    owned = (value for node, owner in ownership.owner.items() if owner == number for value in node.outputs)
    moved = {moves.values[value] for value in owned if value in moves.values}
    return "" if all(is_inside(other, path) for other in moved) else "the file computes another Cell in it"


def _with_moved(flat: FlatProgram, values: Collection[Value]) -> set[Value]:
    """Return values with those that have their elements in other places, or some of them: the steps of a sequence."""
    reached, waiting = set(values), list(values)
    while waiting:
        for node in flat.consumers.get(waiting.pop(), ()):
            if get(node.op).traits.moves == "first" and node.outputs[0] not in reached:
                reached.add(node.outputs[0])
                waiting.append(node.outputs[0])
    return reached


def _computes(flat: FlatProgram, ownership: Ownership, number: int, value: Value) -> bool:
    """Whether a value is computed in a call."""
    node = flat.program.producers.get(value)
    return node is not None and node in ownership.owner and ownership.is_inside(ownership.owner[node], number)
