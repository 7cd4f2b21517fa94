"""Cells that a file computes with a node of the module's own parameters, whatever comes before them there.

Behind a fault that changes the order of Cells, a norm after the block in place of before it, no value is the module's,
and putting one in its place makes nothing of what follows agree. But a layer with the module's weights is that layer:
given the tensor that the module's is given, it returns what the module's returns.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import Node, Value
from ...correspondence.distances import EXACT, ROUNDED, distance
from ...sides.records import INPUT, OUTPUT, Array, Key
from .crossings import Crossing
from .file_values import FileValues
from .fingerprints import fingerprint
from .views import origins_of


@dataclass(frozen=True)
class Anchor:
    """The node of a Cell.

    Attributes:
        given: the boundary at which the Cell is given its tensor.
        entering: the value that the node is given.
        leaving: the value that it returns.
    """

    given: Key
    entering: Value
    leaving: Value


def find_anchors(
    file: FileValues, tensors: Sequence[Crossing], parameters: Mapping[str, Array], moved: Collection[str] = ()
) -> dict[Crossing, Anchor]:
    """Return the tensors that Cells return, as far as one node has the parameters of the Cell and computes the same.

    Args:
        file: the values of the file's program.
        tensors: the tensors that cross the module's boundaries.
        parameters: the module's parameters by name.
        moved: paths of Cells that the file computes at another place.
    """
    boundaries = {key: tensor for tensor in tensors for key in tensor.keys}
    calls = Counter(key.path for key in boundaries if key.kind == OUTPUT)
    of_cells: dict[str, list[bytes]] = {}
    for name, array in parameters.items():
        of_cells.setdefault(name.rpartition(".")[0], []).append(fingerprint(array))
    nodes = _nodes_with_parameters(file)
    anchors: dict[Crossing, Anchor] = {}
    for path, prints in of_cells.items():
        given = [key for key in boundaries if key.path == path and key.kind == INPUT]
        returned = [key for key in boundaries if key.path == path and key.kind == OUTPUT]
        using = nodes.get(frozenset(prints), [])
        if len(given) == len(returned) == len(using) == calls[path] == 1 and path not in moved:
            node, entering = using[0]
            tensor, result = boundaries[given[0]], boundaries[returned[0]]
            if _computes(file, node, entering, tensor, result):
                anchors.setdefault(result, Anchor(given[0], entering, node.outputs[0]))
    return _in_order(file, anchors)


def _in_order(file: FileValues, anchors: Mapping[Crossing, Anchor]) -> dict[Crossing, Anchor]:
    """Return the most anchors that follow each other in the file as in the module: a norm that moved is no guide."""
    tensors = sorted(anchors, key=lambda tensor: tensor.order)
    ranks = [file.rank[anchors[tensor].leaving] for tensor in tensors]
    lasts: list[int] = []  # the position with the lowest rank at which a series of each length ends
    before: list[int | None] = []
    for position, rank in enumerate(ranks):
        length = bisect_left(lasts, rank, key=ranks.__getitem__)
        before.append(lasts[length - 1] if length else None)
        lasts[length:] = [position, *lasts[length + 1 :]]
    kept: list[Crossing] = []
    at = lasts[-1] if lasts else None
    while at is not None:
        kept.append(tensors[at])
        at = before[at]
    return {tensor: anchors[tensor] for tensor in reversed(kept)}


def _nodes_with_parameters(file: FileValues) -> dict[frozenset[bytes], list[tuple[Node, Value]]]:
    """Return the nodes with a single operand that isn't stored, by their parameters."""
    program = file.flat.program
    stored = {p.value: p.data for p in program.parameters.values()}
    nodes_with: dict[frozenset[bytes], list[tuple[Node, Value]]] = {}
    for node in program.nodes:
        arrays = [stored[value] for value in node.inputs if value in stored]
        others = [v for v in node.inputs if v is not None and v not in stored and v not in program.constant_data]
        if arrays and len(others) == len(node.outputs) == 1:
            prints = frozenset(map(fingerprint, arrays))
            nodes_with.setdefault(prints, []).append((node, others[0]))
    return nodes_with


def _computes(file: FileValues, node: Node, entering: Value, tensor: Crossing, result: Crossing) -> bool:
    """Whether a node, given a tensor of the module, returns another one."""
    if file.values[entering][0].shape != tensor.shape:
        return False
    try:
        computed = file.compute_nodes([node], entering, tensor.arrays)
    except CellbridgeError:  # it doesn't take the tensor
        return False
    return distance(computed[node.outputs[0]], result.arrays) <= ROUNDED


def divided(
    file: FileValues, places: Mapping[Crossing, Value], anchors: Mapping[Crossing, Anchor]
) -> list[tuple[Value, Crossing, list[Key]]]:
    """Return the values that anchored nodes are given in place of a tensor, the tensor, and the boundaries there.

    A value that is the place of another tensor stays that, and one that is a copy of the tensor's place, with the same
    numbers, is no other value. A Cell that only passes the tensor on to such nodes is given their value, too.
    """
    at = {key: tensor for tensor in places for key in tensor.keys}
    taken = set(places.values())
    moved: dict[Key, Value] = {}
    for result, anchor in anchors.items():
        tensor = at.get(anchor.given)
        if tensor is None or places.get(result) is not anchor.leaving or places[tensor] is anchor.entering:
            continue
        copies = places[tensor] in origins_of(file, anchor.entering)
        if copies and distance(file.values[anchor.entering], file.current(places[tensor])) <= EXACT:
            continue
        if anchor.entering not in taken:
            moved[anchor.given] = anchor.entering
    for tensor in {at[key] for key in moved}:
        outer = [key for key in tensor.keys if key.kind == INPUT and key.path and key not in moved]
        for key in sorted(outer, key=lambda key: -key.path.count(".")):
            inside = [moved.get(k) for k in tensor.keys if k.kind == INPUT and k.path.startswith(f"{key.path}.")]
            if inside and inside[0] is not None and all(value is inside[0] for value in inside):
                moved[key] = inside[0]
    together: dict[tuple[Value, Crossing], list[Key]] = {}
    for key, value in moved.items():
        together.setdefault((value, at[key]), []).append(key)
    return [(value, tensor, keys) for (value, tensor), keys in together.items()]
