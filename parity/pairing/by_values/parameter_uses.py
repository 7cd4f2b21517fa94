"""Which nodes of a file use the parameters of which Cells, before any Cell is found: the numbers tell."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from ....runtime.ir.types import Node, Value
from ...sides.records import Array
from .fingerprints import FEW_NUMBERS, fingerprint
from .flat import FlatProgram

SAMPLED = 64
"""So many numbers of a parameter say which of the module's it is made of."""


def cells_of_nodes(flat: FlatProgram, parameters: Mapping[str, Array]) -> dict[Node, set[str] | None]:
    """Return, for each node that uses parameters beside other operands, the paths of the Cells that have them.

    None stands for a node with a parameter that isn't the module's. Where several parameters have the same numbers,
    as norms have at first, and file and module have as many of them, they are the same in the order of use; branches,
    which a file may compute in any order, are used in that of the module.

    Args:
        flat: the file's program.
        parameters: the module's parameters by name, in the order in which it uses them.
    """
    used = _used_by(flat)
    data = flat.program.constant_data
    of_file: dict[bytes, list[Value]] = {}
    for value in dict.fromkeys(value for values in used.values() for value in values):
        of_file.setdefault(fingerprint(data[value]), []).append(value)
    of_module: dict[bytes, list[str]] = {}
    for name, array in parameters.items():
        of_module.setdefault(fingerprint(array), []).append(name)
    both = [(of_file[elements], of_module[elements]) for elements in of_file.keys() & of_module.keys()]
    names = {values[0]: {same[0]} for values, same in both if len(values) == len(same) == 1}
    joined = [value for elements, values in of_file.items() if elements not in of_module for value in values]
    parts = [name for elements, same in of_module.items() if elements not in of_file for name in same]
    names |= _of_joined({value: data[value] for value in joined}, {name: parameters[name] for name in parts})
    equal = [(values, same) for values, same in both if len(values) == len(same) > 1]
    if equal:
        numbers = {name: number for number, name in enumerate(parameters)}
        known = {
            node: [numbers[name] for value in values for name in names.get(value, ())] for node, values in used.items()
        }
        order = _order_of_module(flat, known)
        first_use: dict[Value, int] = {}
        for node in order:
            for value in used.get(node, ()):
                first_use.setdefault(value, len(first_use))
        for values, same in equal:
            names |= {v: {name} for v, name in zip(sorted(values, key=first_use.__getitem__), same, strict=True)}
    return {
        node: {name.rpartition(".")[0] for value in values for name in names[value]}
        if all(value in names for value in values)
        else None
        for node, values in used.items()
    }


def _order_of_module(flat: FlatProgram, known: Mapping[Node, Sequence[int]]) -> list[Node]:
    """Return the nodes in the order of the module, as far as they depend on each other in it.

    Of those that could be next, the next is the one that the earliest parameter of the module waits for, and then the
    one that depends on the earliest.

    Args:
        flat: the file's program.
        known: the numbers of the parameters that nodes use, in the order in which the module uses them.
    """
    nodes = flat.program.nodes
    producers = {value: number for number, node in enumerate(nodes) for value in node.outputs}
    before = [sorted({producers[v] for v in node.inputs if v in producers}) for node in nodes]
    after: list[list[int]] = [[] for _ in nodes]
    latest: list[int] = []
    for number, node in enumerate(nodes):
        latest.append(max([*known.get(node, ()), *(latest[earlier] for earlier in before[number])], default=-1))
        for earlier in before[number]:
            after[earlier].append(number)
    awaited = [0] * len(nodes)
    for number in reversed(range(len(nodes))):
        own = known.get(nodes[number], ())
        awaited[number] = min([*own, *(awaited[later] for later in after[number])], default=sys.maxsize)
    missing = [len(earlier) for earlier in before]
    ready = [(awaited[n], latest[n], n) for n in range(len(nodes)) if not missing[n]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        number = heapq.heappop(ready)[2]
        order.append(nodes[number])
        for later in after[number]:
            missing[later] -= 1
            if not missing[later]:
                heapq.heappush(ready, (awaited[later], latest[later], later))
    return order


def _used_by(flat: FlatProgram) -> dict[Node, list[Value]]:
    """Return the parameters that nodes use beside other operands, as they are or arranged."""
    data = flat.program.constant_data
    origins: dict[Value, list[Value]] = {
        value: [value] if array.size > 1 and array.dtype.kind == "f" else [] for value, array in data.items()
    }
    used_by: dict[Node, list[Value]] = {}
    for node in flat.program.nodes:
        operands = [value for value in node.inputs if value is not None]
        used = [origin for value in operands for origin in origins.get(value, ())]
        if all(value in origins for value in operands):
            origins |= dict.fromkeys(node.outputs, used)
        elif used:
            used_by[node] = used
    return used_by


def _of_joined(joined: Mapping[Value, Array], parameters: Mapping[str, Array]) -> dict[Value, set[str]]:
    """Return the parameters that others are made of, as queries, keys and values are fused: all numbers are theirs."""
    sampled = {value: _sample(array) for value, array in joined.items()}
    all_samples = np.unique(np.concatenate([np.zeros(0, np.uint32), *sampled.values()]))
    of_parameter = {name: _among(array, all_samples) for name, array in parameters.items()}
    parameter_names: dict[Value, set[str]] = {}
    for value, numbers in sampled.items():
        has = {name: np.isin(numbers, given) for name, given in of_parameter.items()}
        count = sum(has.values(), np.zeros(len(numbers), int))
        names = {name for name, given in has.items() if np.any(given & (count == 1))}  # by chance, others have it, too
        if names and np.all(count > 0):
            parameter_names[value] = names
    return parameter_names


def _sample(array: Array) -> Array:
    """Return the bits of some numbers of an array."""
    return np.unique(_bits(array.reshape(-1)[:: max(1, array.size // SAMPLED)]))


def _among(array: Array, samples: Array) -> Array:
    """Return those of the wanted numbers that an array has."""
    flat = array.reshape(-1)
    parts = [_bits(flat[start : start + FEW_NUMBERS]) for start in range(0, flat.size, FEW_NUMBERS)]
    return np.concatenate([part[np.isin(part, samples)] for part in parts])


def _bits(flat: Array) -> Array:
    return (np.ascontiguousarray(flat, np.float32) + 0.0).view(np.uint32)
