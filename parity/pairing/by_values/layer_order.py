"""Layers whose weights were loaded in another order: reversed, or sorted as texts, with layer 10 before layer 2.

Each layer then has all weights of another one, and none of its values is the module's. Numbers say which layer's they
are, and the program uses its layers in the order of their numbers, as the module does. Where it doesn't, its code may
be at fault, and nothing is said here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product

from ....runtime.ir.program import Program
from ...sides.records import Array
from .fingerprints import fingerprint
from .parameters import ModuleParameters

NUMBER = re.compile(r"\d+")
MOST_NUMBERS = 3
"""The most numbers in a name of which each may be that of a layer."""


@dataclass(frozen=True)
class LayerOrder:
    """Layers of a file in the order of the module.

    Attributes:
        arrays: the file's parameters of these layers, each with the numbers of the right layer.
        partners: by name of a parameter of the module in such a layer, the name of the one whose numbers the file has.
    """

    arrays: dict[str, Array]
    partners: dict[str, str]


def layer_orders(program: Program, module: ModuleParameters) -> Iterator[LayerOrder]:
    """Yield orders of layers that a file may have confused, by the numbers in the names of its parameters.

    Args:
        program: the file's program.
        module: the module's parameters.
    """
    names: dict[bytes, str] = {}
    for name, identity in module.fingerprints.items():
        names[identity] = "" if identity in names else name  # equal numbers tell nothing
    pairs = [(name, names.get(fingerprint(p.data), "")) for name, p in program.parameters.items()]
    pairs = [(own, name) for own, name in pairs if name]
    partner = dict(pairs)
    first_uses = _first_uses(program)
    for at, at_module in product(range(MOST_NUMBERS), repeat=2):
        together: dict[tuple[str, tuple[tuple[int, int], ...]], list[str]] = {}  # stacked weights have a stem each
        for stem, (module_stem, numbers) in _layers(pairs, at, at_module).items():
            uses: dict[int, int] = {}
            for name, use in first_uses.items():
                parts = _divided(name, at)
                if parts is not None and parts[0] == stem:
                    uses[parts[1]] = min(use, uses.get(parts[1], use))
            in_order, order = sorted(numbers), [numbers[layer] for layer in sorted(numbers)]
            if order != sorted(order) and sorted(uses, key=uses.__getitem__) == in_order:
                together.setdefault((module_stem, tuple(sorted(numbers.items()))), []).append(stem)
        for (module_stem, numbers_of), stems in together.items():
            own = [name for name in program.parameters if (parts := _divided(name, at)) and parts[0] in stems]
            held = {partner[name] for name in own if name in partner}
            if len(held) < len(own):  # they have what has no partner alone, as joined weights
                held = module.infos.keys() - {other for name, other in partner.items() if name not in own}
            layers = _order(program, held, (stems, at, dict(numbers_of)), (module_stem, at_module))
            shapes = {name: parameter.data.shape for name, parameter in program.parameters.items()}
            if all(array.shape == shapes[name] for name, array in layers.arrays.items()):  # else they aren't layers
                yield layers


def _first_uses(program: Program) -> dict[str, int]:
    """Return by name of a parameter the number of the first node that uses it."""
    of_value = {parameter.value: name for name, parameter in program.parameters.items()}
    first: dict[str, int] = {}
    for number, node in enumerate(program.nodes):
        for value in node.inputs:
            if value is not None and value in of_value:
                first.setdefault(of_value[value], number)
    return first


def _layers(pairs: list[tuple[str, str]], at: int, at_module: int) -> dict[str, tuple[str, dict[int, int]]]:
    """Return by what precedes the number of a file's layer the same of the module, and the numbers of the layers.

    Only where all parameters of a layer say the same.
    """
    layers: dict[str, tuple[str, dict[int, int]]] = {}
    unclear: set[str] = set()
    for own, name in pairs:
        parts, of_module = _divided(own, at), _divided(name, at_module)
        if parts is None or of_module is None:
            unclear |= set() if parts is None else {parts[0]}
            continue
        stem, numbers = layers.setdefault(parts[0], (of_module[0], {}))
        if stem != of_module[0] or numbers.setdefault(parts[1], of_module[1]) != of_module[1]:
            unclear.add(parts[0])
    return {
        stem: (module_stem, numbers)
        for stem, (module_stem, numbers) in layers.items()
        if stem not in unclear and 1 < len(numbers) == len(set(numbers.values()))
    }


def _divided(name: str, at: int) -> tuple[str, int, str] | None:
    """Return what precedes a number in a name, the number, and what follows; None if there are fewer numbers."""
    matches = list(NUMBER.finditer(name))
    if at >= len(matches):
        return None
    start, end = matches[at].span()
    return name[:start], int(name[start:end]), name[end:]


def _order(
    program: Program,
    of_module: Collection[str],
    own: tuple[Collection[str], int, dict[int, int]],
    module: tuple[str, int],
) -> LayerOrder:
    """Return layers of a file in the order of the module.

    Args:
        program: the file's program.
        of_module: names of the module's parameters whose numbers these layers have.
        own: what precedes the numbers in the names of the file's parameters, which number is the layer's, and by this
            number that of the module's layer.
        module: the same of the module.
    """
    (stems, at, numbers), (module_stem, at_module) = own, module
    right = dict(zip(sorted(numbers), sorted(numbers.values()), strict=True))
    holder = {number: layer for layer, number in numbers.items()}
    arrays: dict[str, Array] = {}
    for name in program.parameters:
        parts = _divided(name, at)
        if parts is not None and parts[0] in stems and parts[1] in right:
            source = program.parameters.get(f"{parts[0]}{holder[right[parts[1]]]}{parts[2]}")
            if source is not None:
                arrays[name] = source.data
    partners: dict[str, str] = {}
    held = {right[layer]: number for layer, number in numbers.items()}
    for name in of_module:
        parts = _divided(name, at_module)
        if parts is not None and parts[0] == module_stem and parts[1] in held:
            partner = f"{module_stem}{held[parts[1]]}{parts[2]}"
            if partner != name and partner in of_module:
                partners[name] = partner
    return LayerOrder(arrays, partners)
