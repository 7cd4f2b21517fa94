"""Products of which a port has merged the weights wrongly, or which it computes wrongly in other steps.

No numbers agree with what such a product returns, but the structure of both programs tells its place. It is in an
affine part of the file's program that stands for one of the module's. Which part that is follows from the parameters
that both share, such as a bias, from how similar the functions are (a low-rank update with another scale is one), and
from the order of parts of the same shapes. Whether the file is right with the module's tensors there is seen
afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ...correspondence.distances import ROUNDED, distance
from ...sides.boundary_observer import own_key
from ...sides.records import Array, Key
from .affine_parts import AffinePart, AffineParts
from .flat import without_boundaries
from .splicing import Pair, Splicer
from .written_parts import written_as_the_file

SIMILAR = 0.3
"""Cosine from which functions are alike: that of random ones is near 0."""


@dataclass(frozen=True)
class LikelyPlaces:
    """A file's program, and where tensors of the module may be in it.

    Attributes:
        program: the program; it has the module's nodes where they are the same function.
        places: the values that may be the tensors at boundaries.
    """

    program: Program
    places: Mapping[Key, Value]


@dataclass(frozen=True)
class _Group:
    """Affine parts that use the same weights: what is computed with them first, and that in other layouts.

    Attributes:
        parts: the parts, in order.
        shared: the names of the module's parameters whose numbers they use.
    """

    parts: Sequence[AffinePart]
    shared: AbstractSet[str]


def likely_places(
    program: Program,
    module: Program,
    parameters_without_place: Collection[str],
    unknown: Collection[str],
    known: Mapping[str, str],
    taken: Collection[Value],
) -> LikelyPlaces | None:
    """Return where a file may compute with these parameters of the module, though not the same; None if nowhere.

    A part that is the module's function gives another result because it is given another tensor: the module's belongs
    there, too, and what is wrong lies before it.

    Args:
        program: the file's program, without boundaries.
        module: the module's program, with its boundaries.
        parameters_without_place: names of the parameters of the module's Cells that have no place.
        unknown: names of the values of the file's weights that the module doesn't have.
        known: by name of a parameter of the module, the name of the file's value with its numbers.
        taken: the file's values that agree with tensors of the module, which have their places there.
    """
    plain = without_boundaries(module)
    in_module = {parameter.value: name for name, parameter in plain.parameters.items()}
    by_name = {value.name: value for value in program.constant_data}
    in_file = {by_name[other]: name for name, other in known.items() if other in by_name}
    weights = {v for v, name in in_file.items() if name in parameters_without_place}
    weights |= {by_name[name] for name in unknown if name in by_name and is_floating(by_name[name].dtype)}
    module_parts, file_parts = AffineParts(plain), AffineParts(program)
    asked = {v for v, name in in_module.items() if name in parameters_without_place}
    alone = (part for part in module_parts.using(asked) if module_parts.is_used_alone(part))
    of_module = list(_groups(alone, asked, in_module))
    of_file = list(_groups(file_parts.using(weights), weights, in_file))
    pairs = list(_assigned(of_file, of_module, program, plain))
    if not pairs:
        return None
    written = [changed for pair in pairs if (changed := written_as_the_file(pair, program, plain, weights)) is not None]
    parameters = plain.parameters | {name: p for changed in written for name, p in changed.parameters.items()}
    splicer = Splicer(program, plain.replace(parameters=parameters), weights, [changed.pair for changed in written])
    result = splicer.program() if written else program
    places = {pair.module.result: pair.file.result for pair in pairs}
    places |= {old: splicer.of[new] for changed in written for old, new in changed.values.items()}
    for pair in pairs:
        source, given = pair.module.source, pair.file.source
        is_free = given not in taken and given not in places.values()
        if source is not None and given is not None and is_free and _is_same_function(pair, program, plain):
            places.setdefault(source, given)
    at_boundaries = _at_boundaries(module)
    return LikelyPlaces(result, {key: places[value] for key, value in at_boundaries.items() if value in places})


def _groups(parts: Iterable[AffinePart], weights: AbstractSet[Value], names: Mapping[Value, str]) -> Iterator[_Group]:
    """Yield the parts that use as many of these weights as any other from the same source, by these weights."""
    of_weights: dict[AbstractSet[Value], list[AffinePart]] = {}
    for part in parts:
        if part.shapes is not None:
            of_weights.setdefault(part.stored & weights, []).append(part)
    for used, alike in of_weights.items():
        if not any(used < other for other in of_weights):
            yield _Group(alike, {names[value] for value in alike[0].stored if value in names})


def _assigned(of_file: Sequence[_Group], of_module: Sequence[_Group], file: Program, module: Program) -> Iterator[Pair]:
    """Yield the pairs of parts with the same shapes, the likeliest first, each group once."""
    images_of: dict[AffinePart, list[Array]] = {}

    def images(part: AffinePart, program: Program) -> list[Array]:
        if part not in images_of:
            images_of[part] = part.images(program)
        return images_of[part]

    possible: list[tuple[int, float, int, int, int, Pair]] = []
    for i, file_group in enumerate(of_file):
        for j, module_group in enumerate(of_module):
            for pair in _of_the_same_shapes(file_group, module_group):
                alike = _cosine(images(pair.file, file), images(pair.module, module))
                likeness = alike if alike >= SIMILAR else 0.0
                possible.append((-len(file_group.shared & module_group.shared), -likeness, abs(i - j), i, j, pair))
    files: dict[int, list[AffinePart]] = {}
    modules: set[int] = set()
    for *_, i, j, pair in sorted(possible, key=lambda entry: entry[:5]):
        if j not in modules and all(_are_apart(pair.file, part) for part in files.get(i, ())):
            files.setdefault(i, []).append(pair.file)
            modules.add(j)
            yield pair


def _of_the_same_shapes(file: _Group, module: _Group) -> Iterator[Pair]:
    """Yield the pairs of parts with the first shapes that both groups have; a file may have several with its weights.

    One product there may be divided into those of several Cells.
    """
    shapes = next((m.shapes for m in module.parts if any(f.shapes == m.shapes for f in file.parts)), None)
    first = next(m for m in module.parts if shapes in (None, m.shapes))
    yield from (Pair(first, f) for f in file.parts if shapes is not None and f.shapes == shapes)


def _are_apart(part: AffinePart, other_part: AffinePart) -> bool:
    """Whether none of two parts is computed from the other."""
    ends = [{value for node in part.nodes for value in node.outputs} for part in (part, other_part)]
    return part.result not in ends[1] and other_part.result not in ends[0]


def _is_same_function(pair: Pair, file: Program, module: Program) -> bool:
    images = pair.file.images(file)
    return bool(images) and distance(images, pair.module.images(module)) <= ROUNDED


def _cosine(arrays: Sequence[Array], others: Sequence[Array]) -> float:
    """Return the cosine of the angle between arrays; 0 if there are none."""
    if not arrays or not others:
        return 0.0
    first, second = (np.concatenate([array.reshape(-1) for array in both]) for both in (arrays, others))
    size = float(np.linalg.norm(first) * np.linalg.norm(second))
    return float(first @ second) / size if size else 0.0


def _at_boundaries(program: Program) -> dict[Key, Value]:
    """Return the value at each boundary of a program, as it is without boundaries."""
    plain: dict[Value, Value] = {}
    plain_values: dict[Key, Value] = {}
    for node in program.nodes:
        if node.op == "boundary":
            operand = node.inputs[0]
            assert operand is not None, "a boundary has an operand"
            plain[node.outputs[0]] = plain_values[own_key(program, node)] = plain.get(operand, operand)
    return plain_values
