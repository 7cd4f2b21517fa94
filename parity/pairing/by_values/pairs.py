"""What of a program was found for each Cell and parameter of a module, and how: the table that a report shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from itertools import takewhile

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...results.cell_report import PROGRAM, is_inside
from ...results.correspondence import FOLLOWING, NODE_PATHS, VALUES, CarriedWeight, PairedCell
from ...sides.records import INPUT, OUTPUT, Array, Key, Records
from .candidates import Places
from .crossings import Crossing
from .divided_products import PART
from .flat import COPYING, FlatProgram
from .ownership import Ownership


def merged_parameters(program: Program, marked: Program) -> list[str]:
    """Return the names of the module's parameters that a program has in the weights of others.

    Args:
        program: the program as it was given.
        marked: the program with parameters of the module in place of such weights.
    """
    given = {name.partition(PART)[0] for name in program.parameters}
    return [name for name in marked.parameters if name.partition(PART)[0] not in given]


def cell_pairs(
    program: Program, flat: FlatProgram, ownership: Ownership, places: Places, merged: Collection[str]
) -> list[PairedCell]:
    """Return the Cells that can be judged, each with the Cell of the program that has its nodes, or is around them.

    Args:
        program: the program as it was given.
        flat: the program with the module's tensors as values of their own.
        ownership: the Cells and their nodes.
        places: the places of the tensors.
        merged: names of the module's parameters that the program has in the weights of others.
    """
    holders = {name.rpartition(".")[0] for name in merged}
    given = {value for node in program.nodes for value in node.outputs}
    classes = {call.path: call.class_name for call in program.calls}
    computing = [node for node in flat.program.nodes if node.op not in COPYING]
    ways = _ways(places)
    pairs: dict[str, PairedCell] = {}
    for number, call in enumerate(ownership.calls):
        own = [node for node in computing if ownership.is_inside(ownership.owner.get(node, 0), number)]
        known = [node for node in own if not given.isdisjoint(node.outputs)]  # of others, the Cell may be unknown
        cell = _common([flat.path_of(node) for node in known or own])
        of_cell = {node for node in computing if flat.path_of(node) == cell or is_inside(flat.path_of(node), cell)}
        of_path = [tensor for tensor in places.of if any(key.path == call.path for key in tensor.keys)]
        pairs.setdefault(
            call.path,
            PairedCell(
                call.path, call.class_name, cell, classes.get(cell) or PROGRAM,
                "root" if not number else next((ways[tensor] for tensor in of_path if tensor in ways), VALUES),
                is_part=not of_cell <= set(own),
                layout="merged" if call.path in holders
                else _layout((places.of[tensor] for tensor in of_path), flat.program, given),
            ),
        )  # fmt: skip
    return list(pairs.values())


def passed_on(ownership: Ownership, truth: Records, tensors: Sequence[Crossing], kept: Iterable[Key]) -> list[str]:
    """Return the paths of the Cells that aren't judged by themselves and return what they are given.

    That value is judged where other Cells return it, or are given it.

    Args:
        ownership: the Cells that are judged, and those that aren't.
        truth: the module's records.
        tensors: the tensors that cross its boundaries.
        kept: the boundaries that are judged.
    """
    judged = set(kept)
    crossing = {key: tensor for tensor in tensors for key in tensor.keys}
    return [path for path in ownership.left_out if _passes_on(path, truth, crossing, judged)]


def _passes_on(path: str, truth: Records, crossing: Mapping[Key, Crossing], judged: set[Key]) -> bool:
    outputs = [key for key in truth.values if key.path == path and key.kind == OUTPUT]
    for key in outputs:
        tensor = crossing.get(key)
        if tensor is None or judged.isdisjoint(tensor.keys):
            return False
        if not any((k.path, k.call, k.kind) == (path, key.call, INPUT) for k in tensor.keys):
            return False
    return bool(outputs)


def parameter_pairs(
    program: Program, paired: Program, names: Iterable[str], merged: Collection[str], cells: Iterable[PairedCell]
) -> list[CarriedWeight]:
    """Return the parameters of a program that are made of the module's, each with those and their layout.

    Args:
        program: the program with its own parameters, some of them in parts.
        paired: the program with the module's parameters in their place.
        names: names of the module's parameters that it has, in the order of the module.
        merged: those of them that it has in the weights of others.
        cells: the pairs of Cells.
    """
    partner = {pair.module: pair.cell or "(root)" for pair in cells}
    order = {name: number for number, name in enumerate(names)}
    of_module = {paired.parameters[name].value: name for name in order}
    sources: dict[str, tuple[list[Node], list[str]]] = {}
    own_parameters = {name: parameter for name, parameter in program.parameters.items() if name not in merged}
    for name, parameter in own_parameters.items():
        nodes, others = sources.setdefault(name.partition(PART)[0], ([], []))
        own, own_names = _sources(parameter.value, paired, of_module)
        nodes += own
        others[:] = sorted({*others, *own_names}, key=order.__getitem__)
    uses = [other for nodes, others in sources.values() for other in others]
    data = paired.constant_data
    moves = {node for nodes, _ in sources.values() for node in nodes if node.op == "take" and _moves(node, data)}
    return [
        CarriedWeight(
            name, " and ".join(others), "name" if [name] == others else VALUES, _layout_of(nodes, others, uses, moves)
        )
        for name, (nodes, others) in sources.items()
        if others
    ] + [
        CarriedWeight(f"weights of {partner.get(name.rpartition('.')[0], '(root)')}", name, VALUES, "merged")
        for name in order
        if name in merged
    ]


def _sources(value: Value, paired: Program, of_module: Mapping[Value, str]) -> tuple[list[Node], list[str]]:
    """Return the nodes that arrange a value from the module's parameters, and the names of these."""
    nodes: list[Node] = []
    names: list[str] = []
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in of_module:
            names.append(of_module[value])
        elif (node := paired.producers.get(value)) is not None:
            nodes.append(node)
            waiting += [operand for operand in reversed(node.inputs) if operand is not None]
    return nodes, names


def _moves(node: Node, data: Mapping[Value, Array]) -> bool:
    """Whether a node takes rows or columns in another order than the one that they have."""
    places = None if node.inputs[1] is None else data.get(node.inputs[1])
    return places is None or bool(np.any(np.diff(places) != 1))


def _layout_of(nodes: Sequence[Node], names: Sequence[str], uses: Sequence[str], moves: Set[Node]) -> str:
    """Return how a parameter is made of the module's, in words: `joined, transposed`."""
    ops = {node.op for node in nodes}
    transposed = [n for n in nodes if n.op == "transpose" and n.attributes["permutation"] != (0, 1)]
    layout = [
        "joined" if len(names) > 1 else "",
        "a part" if any(uses.count(name) > 1 for name in names) else "",
        "transposed" if len(transposed) % 2 else "",
        "in another order" if not moves.isdisjoint(nodes) else "",
        "in another shape" if ops == {"reshape"} else "",
    ]
    return ", ".join(filter(None, layout))


def _ways(places: Places) -> dict[Crossing, str]:
    return dict.fromkeys(places.by_trial, FOLLOWING) | dict.fromkeys(places.by_paths, NODE_PATHS)


def _layout(values: Iterable[Value], program: Program, given: set[Value]) -> str:
    """Return how the tensors of a Cell lie in the program's values, in words; empty if they are such values."""
    stored = {*program.inputs, *program.constant_data}
    ops = {program.producers[v].op for v in values if v not in given and v not in stored}
    words = (
        ("joined" if "concat" in ops else ""),
        ("another layout" if ops & {*COPYING} else ""),
        ("another order" if "take" in ops else ""),
        ("split" if ops - {"concat", "take", *COPYING} else ""),
    )
    return ", ".join(filter(None, words))


def _common(paths: Sequence[str]) -> str:
    """Return the path of the innermost Cell around all of these."""
    parts = [path.split(".") if path else [] for path in paths]
    return ".".join(names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False)))
