"""Cells that are right by themselves, and that a file gives another tensor of the module than the module gives them.

Given the module's tensor there, such a Cell returns what the module's returns. So the fault is where the tensor comes
from: in the Cell around it or, where the file's own module for that one isn't given the module's tensor either, in the
next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.namespace import Namespace
from ....runtime.ops.registry import get
from ...correspondence.distances import ROUNDED, distance
from ...results.cell_report import is_inside
from ...sides.records import INPUT, OUTPUT, Key
from .crossings import Crossing
from .file_values import FileValues
from .flat import COPYING, FlatProgram


@dataclass(frozen=True)
class _Call:
    """What a call is given and returns.

    Attributes:
        given: the boundaries at which it is given a tensor, with the places.
        returned: what it returns, by place.
        nodes: the nodes between these places, in order.
        others: the places of tensors from outside that the nodes use, and that the module doesn't give it.
    """

    given: Mapping[Key, Value]
    returned: Mapping[Value, Crossing]
    nodes: Sequence[Node]
    others: Collection[Value]


def with_other_arguments(file: FileValues, places: dict[Crossing, Value]) -> Program:
    """Return a file's program with a copy of each value that it gives a right Cell in place of another tensor.

    Args:
        file: the values of the file, with the module's tensors fed at their places.
        places: the places of the tensors; what the module gives such a Cell gets its place there, at the copy.
    """
    at = {key: tensor for tensor in places for key in tensor.keys}
    names = file.flat.program.new_names()
    changed: dict[Node, Sequence[Node]] = {}
    for path, number in dict.fromkeys(key[:2] for key in at if key.kind == OUTPUT and key.path):
        call = _call(file.flat, places, at, path, number)
        unused = [key for key, place in call.given.items() if not _uses(file.flat, call.nodes, place)]
        if len(unused) != 1 or len(call.others) != 1 or not changed.keys().isdisjoint(call.nodes):
            continue
        (key,), (given,), tensor = unused, call.others, at[unused[0]]
        copy = Value(names.unique(f"{given.name}_given"), given.type)
        with_copy = _given(file.flat, names, call, given, copy)
        if with_copy and _is_right_with(file, call, given, tensor):
            changed |= with_copy
            keys = [key, *_passing_on(file.flat, places, at, key, given)]
            tensor.keys[:] = [other for other in tensor.keys if other not in keys]
            places[replace(tensor, keys=keys, computations=[])] = copy
    nodes = [new for node in file.flat.program.nodes for new in changed.get(node, (node,))]
    return file.flat.program.replace(nodes=tuple(nodes))


def _call(
    flat: FlatProgram, places: Mapping[Crossing, Value], at: Mapping[Key, Crossing], path: str, number: int
) -> _Call:
    own = [key for key in at if key[:2] == (path, number)]
    given = {key: places[at[key]] for key in own if key.kind == INPUT}
    returned = {places[at[key]]: at[key] for key in own if key.kind == OUTPUT}
    outside = {
        place
        for tensor, place in places.items()
        if not any(key.path == path or is_inside(key.path, path) for key in tensor.keys)
    }
    waiting, others, nodes = [*returned], set[Value](), set[Node]()
    while waiting:
        value = waiting.pop()
        node = flat.program.producers.get(value)
        if value in outside:
            others.add(value)
        elif node is not None and node not in nodes and value not in given.values():
            nodes.add(node)
            waiting += [operand for operand in node.inputs if operand is not None]
    return _Call(given, returned, [node for node in flat.program.nodes if node in nodes], others)


def _uses(flat: FlatProgram, nodes: Collection[Node], place: Value) -> bool:
    """Whether one of these nodes uses a place, or a value that only has elements of it in other places."""
    moved = {place}
    for node in flat.program.nodes:
        if not moved.isdisjoint(node.inputs):
            if node in nodes:
                return True
            if get(node.op).traits.moves == "first":
                moved.update(node.outputs)
    return False


def _is_right_with(file: FileValues, call: _Call, given: Value, tensor: Crossing) -> bool:
    """Whether a call returns what the module's does if a value that differs from a tensor is replaced by it."""
    if file.values[given][0].shape != tensor.shape or distance(file.current(given), tensor.arrays) <= ROUNDED:
        return False
    try:
        computed = file.compute_nodes(call.nodes, given, tensor.arrays)
    except CellbridgeError:  # it doesn't take the tensor
        return False
    return all(
        value in computed and distance(computed[value], result.arrays) <= ROUNDED
        for value, result in call.returned.items()
    )


def _passing_on(
    flat: FlatProgram, places: Mapping[Crossing, Value], at: Mapping[Key, Crossing], key: Key, given: Value
) -> Iterator[Key]:
    """Yield where the Cells around one are given its tensor, as far as the file's own modules aren't.

    Args:
        flat: the file's program.
        places: the places of the tensors.
        at: the tensors by boundary.
        key: the boundary at which a Cell is given another value.
        given: that value.
    """
    place = places[at[key]]
    around = [k for k in at[key].keys if k.kind == INPUT and k.path and is_inside(key.path, k.path)]
    for outer in sorted(around, key=lambda k: -k.path.count(".")):
        nodes = _call(flat, places, at, *outer[:2]).nodes
        module = _common_call(flat.program, nodes)
        inside = [node for node in flat.program.nodes if module in _calls_around(flat.program, node.cell)]
        computing = {value for node in inside if node.op not in COPYING for value in node.outputs}
        if not module or _uses(flat, [*nodes, *inside], place) or not _origins(flat, given).isdisjoint(computing):
            return
        yield outer


def _common_call(program: Program, nodes: Iterable[Node]) -> int:
    """Return the number of the innermost of the file's own calls around all of these nodes that use parameters."""
    stored = {parameter.value for parameter in program.parameters.values()}
    chains = [_calls_around(program, node.cell) for node in nodes if not stored.isdisjoint(node.inputs)]
    return next((call for call in chains[0] if all(call in chain for chain in chains)), 0) if chains else 0


def _calls_around(program: Program, call: int | None) -> list[int]:
    """Return a call and those around it, the innermost first."""
    calls: list[int] = []
    while call is not None:
        calls.append(call)
        call = program.calls[call].parent
    return calls


def _origins(flat: FlatProgram, value: Value) -> set[Value]:
    """Return a value and those of which it is a copy in another layout."""
    origins = {value}
    while (node := flat.program.producers.get(value)) is not None and node.op in COPYING and node.inputs[0] is not None:
        value = node.inputs[0]
        origins.add(value)
    return origins


def _given(flat: FlatProgram, names: Namespace, call: _Call, given: Value, copy: Value) -> dict[Node, list[Node]]:
    """Return for the nodes of a call that depend on a value those in their place, which begin with a copy of it.

    Changes of layout of which others have the result, too, stay beside those of the call. Nothing is returned if others
    have the result of another node.
    """
    own = set(call.nodes)
    new = {given: copy}
    changed: dict[Node, list[Node]] = {}
    for node in call.nodes:
        if new.keys().isdisjoint(node.inputs):
            continue
        is_shared = any(not own.issuperset(flat.consumers.get(value, ())) for value in node.outputs)
        is_shared = is_shared and call.returned.keys().isdisjoint(node.outputs)
        if is_shared and node.op not in COPYING:
            return {}
        outputs = node.outputs
        if is_shared:
            outputs = tuple(Value(names.unique(f"{value.name}_given"), value.type) for value in node.outputs)
            new |= dict(zip(node.outputs, outputs, strict=True))
        inputs = tuple(None if value is None else new.get(value, value) for value in node.inputs)
        other = Node(node.op, inputs, node.attributes, outputs, node.cell, node.source)
        first = [] if changed else [Node("reshape", (given,), {"shape": given.shape}, (copy,), node.cell, node.source)]
        changed[node] = [*first, *([node] if is_shared else []), other]
    return changed
