"""The choice among equal values of a file: which of them is the place of a tensor.

Exporters copy and reshape values, and a factor of 1 changes none. A tensor that a Cell returns is the last of them
before the value is used in several places; one that only enters a Cell is the last before that Cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ....runtime.ir.types import Node, Value
from ...correspondence.distances import EXACT, Arrays, distance
from ...results.cell_report import is_inside
from ...sides.records import INPUT, OUTPUT, Key
from .crossings import Crossing
from .file_values import FileValues
from .flat import COPYING


def settle(
    file: FileValues,
    places: dict[Crossing, Value],
    hints: Mapping[Crossing, Collection[Value]],
    supposed: Collection[Value],
) -> None:
    """Replace places by equal values that fit better.

    Args:
        file: the values of the file.
        places: the places; changed.
        hints: values that the file itself gives for a tensor; they stay.
        supposed: values that are there only because a tensor might have another layout; they are no better places.
    """
    output = {key[:2]: place for tensor, place in places.items() for key in tensor.keys if key.kind == OUTPUT}
    _divide_results(file, places, output)
    _divide(file, places, output)
    taken = set(places.values())
    for tensor, place in sorted(
        places.items(), key=lambda item: -item[0].order
    ):  # later ones leave room for earlier ones
        if any(not key.path for key in tensor.keys):
            continue
        better = place
        if not any(key.kind == OUTPUT for key in tensor.keys):
            ends = [output[key[:2]] for key in tensor.keys if key[:2] in output]
            better = _last_before(file, place, ends, taken)
        elif place not in hints.get(tensor, ()):
            orders = {value: other.order for other, value in places.items()}
            orders |= dict.fromkeys((taken | set(supposed)) - orders.keys(), tensor.order)
            better = last_before_branch(file, place, tensor.order, orders)
        places[tensor] = better
        taken.add(better)


def _divide_results(file: FileValues, places: dict[Crossing, Value], output: Mapping[tuple[str, int], Value]) -> None:
    """Give equal results that several Cells compute for themselves places of their own.

    They are one crossing, and so would be one value, through which the gradients of all would pass. They are divided if
    the file computes as many equal values that don't depend on one another. If it computes fewer, as where one of them
    is wrong, it isn't known whose they are: trained ones then have no place.
    """
    for crossing, place in list(places.items()):
        groups = crossing.computations
        if len(groups) < 2 or any(not key.path for key in crossing.keys):
            continue
        values: list[Value] = []
        for value in sorted((v for v in file.values if _equal(file, v, place)), key=file.rank.__getitem__):
            if not any(value in file.flat.after(earlier) for earlier in values):
                values.append(value)
        if len(values) < len(groups) and crossing.trained:
            del places[crossing]
        if len(values) != len(groups):
            continue
        values = _by_cells_around(file, groups, values, output)
        parts = [crossing, *(replace(crossing, keys=list(group), computations=[group]) for group in groups[1:])]
        for key in [key for key in crossing.keys if key.kind == INPUT]:
            end = output.get(key[:2])
            before = [part for part, value in zip(parts, values, strict=True) if end in file.flat.after(value)]
            if before and before[-1] is not crossing:
                before[-1].keys.append(key)
                crossing.keys.remove(key)
        crossing.keys[:] = [key for key in crossing.keys if not any(key in group for group in groups[1:])]
        crossing.computations = groups[:1]
        places.update(zip(parts, values, strict=True))


def _by_cells_around(
    file: FileValues, groups: Sequence[Sequence[Key]], values: Sequence[Value], output: Mapping[tuple[str, int], Value]
) -> list[Value]:
    """Return equal values in the order of the computations that they belong to.

    What the Cells around a computation return depends on its value. Where that leaves several, or none for one of the
    computations, they are in the order in which the file computes them.

    Args:
        file: the values of the file.
        groups: the results of the computations, in the order of the module.
        values: as many values, in the order of the file.
        output: the places of the results of calls.
    """
    fitting = []
    for group in groups:
        ends = [
            place for (path, _), place in output.items() if path != group[0].path and is_inside(group[0].path, path)
        ]
        fitting.append([value for value in values if all(end in file.flat.after(value) for end in ends)])
    chosen: dict[int, Value] = {}
    for number in sorted(range(len(groups)), key=lambda number: len(fitting[number])):
        free = [value for value in fitting[number] if value not in chosen.values()]
        if not free:
            return list(values)
        chosen[number] = free[0]
    return [chosen[number] for number in range(len(groups))]


def _divide(file: FileValues, places: dict[Crossing, Value], output: Mapping[tuple[str, int], Value]) -> None:
    """Give equal tensors that several Cells compute for themselves places of their own.

    Such tensors are one crossing. A Cell whose result doesn't depend on its place is given an equal value on which it
    does, if the file has one; so is the Cell around it that passes the tensor on to it alone.
    """
    for tensor, place in list(places.items()):
        if any(not key.path or key.kind == OUTPUT for key in tensor.keys):
            continue
        after = file.flat.after(place)
        others: dict[Value, Crossing] = {}
        for key in list(tensor.keys):
            end = output.get(key[:2], place)
            if end is place or end in after:
                continue
            equal = [v for v in file.values if _equal(file, v, place) and end in file.flat.after(v)]
            if equal:
                last = max(equal, key=file.rank.__getitem__)
                tensor.keys.remove(key)
                others.setdefault(last, Crossing(tensor.order, tensor.arrays, [], tensor.varies)).keys.append(key)
        for key in list(tensor.keys):  # of a Cell that passes it on, and whose result may depend on it in another way
            inside = [value for value, other in others.items() if any(is_inside(k.path, key.path) for k in other.keys)]
            if len(inside) == 1 and not any(is_inside(k.path, key.path) for k in tensor.keys):
                tensor.keys.remove(key)
                others[inside[0]].keys.append(key)
        places.update({other: value for value, other in others.items()})
        if not tensor.keys:
            del places[tensor]


def _last_before(file: FileValues, place: Value, ends: Collection[Value], taken: Collection[Value]) -> Value:
    """Return the last equal value on which all ends depend, and by way of which alone they depend on the place."""
    later_values = [
        value
        for value in file.flat.after(place)
        if value not in taken and _equal(file, value, place) and all(end in file.flat.after(value) for end in ends)
    ]
    for value in sorted(later_values, key=file.rank.__getitem__, reverse=True):
        if file.flat.after(place, but_not_by=value).isdisjoint(ends):
            return value
    return place


def last_before_branch(file: FileValues, place: Value, order: int, orders: Mapping[Value, int]) -> Value:
    """Follow a value to an equal one as long as a single node uses it, and not past places of later tensors.

    Between them, it may be in another layout, such as that of a tensor that the module computes before.

    Args:
        file: the values of the file.
        place: the value.
        order: the order of the tensor that it is.
        orders: the orders of the tensors that have a place, by place.
    """
    best = current = place
    earlier = [file.current(value) for value, other in orders.items() if other < order]
    while len(nodes := _uses(file, current, earlier)) == 1 and current not in file.flat.program.outputs:
        following = [v for v in nodes[0].outputs if v not in orders and _equal(file, v, place)]
        if following:
            best = current = following[0]
            continue
        copy = nodes[0].outputs[0]
        if nodes[0].op not in COPYING or orders.get(copy, order) > order:
            break
        current = copy
    return best


def _uses(file: FileValues, value: Value, earlier: Sequence[Arrays]) -> list[Node]:
    """Return the nodes that use a value, but for one that joins it with others to an earlier tensor again.

    A layer returns its last state beside all states: what a file has of these in parts is joined behind the last one.
    """
    nodes = file.flat.consumers.get(value, [])
    if len(nodes) < 2:
        return nodes

    def is_earlier(node: Node) -> bool:
        arrays = file.values[node.outputs[0]]
        size = arrays[0].size
        return any(
            other[0].size == size
            and distance([array.reshape(x.shape) for array, x in zip(arrays, other, strict=True)], other) <= EXACT
            for other in earlier
        )

    return [node for node in nodes if node.op != "concat" or not is_earlier(node)]


def _equal(file: FileValues, value: Value, place: Value) -> bool:
    """Whether a value is equal to that of a place, as it is used."""
    arrays = file.fed.get(place) or file.values[place]
    return value in file.values and distance(file.values[value], arrays) <= EXACT
