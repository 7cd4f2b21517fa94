"""Weights that a port has merged: a batch norm folded into a convolution, a norm's 1 + gain, low-rank updates added.

The port's program gets what the module computes there, with the module's own parameters, in place of what it computes
with the merged weight. That is allowed where both are the same function: weights computed from parameters alone have
the same numbers, and affine parts of both programs map the same random tensors to the same results. Then the Cells that
were merged have their boundaries, and gradients are those of the module's parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.programs.interpreter import execute
from ...correspondence.distances import ROUNDED, distance
from ...sides.records import Array
from .affine_parts import AffinePart, AffineParts
from .splicing import Pair, Splicer
from .summed_biases import gates_in_another_order, with_summed_biases


@dataclass(frozen=True)
class Merged:
    """A program without merged weights.

    Attributes:
        program: the program.
        replaced: names of the values of the weights that it had.
        parameters: names of the module's parameters that they were computed from.
    """

    program: Program
    replaced: frozenset[str]
    parameters: tuple[str, ...]


def without_merged_weights(
    program: Program,
    module: Program,
    lacking: Collection[str],
    unknown: Collection[str],
    known: Mapping[str, str],
) -> Merged | None:
    """Return a file's program with the module's parameters in place of weights that were computed from them.

    Args:
        program: the file's program, without boundaries.
        module: the module's, without boundaries.
        lacking: names of the module's parameters that the file doesn't have as they are.
        unknown: names of the values of the file's weights that the module doesn't have.
        known: by name of a parameter of the module, the name of the file's value with its numbers. If the module uses
            the parameter to compute weights alone, the file's may be such a weight: a weight norm changes no number at
            first.

    Returns:
        The program; None if no weight is a merged one.
    """
    module = with_summed_biases(module)
    parts = AffineParts(program), AffineParts(module)
    computing = {name: known[name] for name in known if parts[1].is_for_weights(module.parameters[name].value)}
    parameters = {parameter.value for name, parameter in module.parameters.items() if name in {*lacking, *computing}}
    suspects = {*unknown, *computing.values()}
    weights = {value for value in program.constant_data if value.name in suspects and is_floating(value.dtype)}
    pairs = list(_pairs(parts[0], parts[1], weights, parameters))
    free = weights - {value for pair in pairs for value in pair.file.stored}
    pairs += _equal_weights(parts[1], program, free, parameters)
    free -= {value for pair in pairs for value in pair.file.stored}
    gates = gates_in_another_order(parts[1], {value: program.constant_data[value] for value in free}, parameters)
    pairs += gates.pairs
    module = module.replace(constants=(*module.constants, *gates.places))
    if not pairs:
        return None
    replaced = {value.name for pair in pairs for value in pair.file.stored if value in weights}
    spliced = Splicer(program, module, weights, pairs).program()
    used = {value for pair in pairs for value in pair.module.stored}
    names = tuple(name for name, parameter in module.parameters.items() if parameter.value in used)
    return Merged(spliced, frozenset(replaced), names)


def _pairs(
    file: AffineParts, module: AffineParts, weights: AbstractSet[Value], parameters: AbstractSet[Value]
) -> Iterator[Pair]:
    """Yield affine parts that are the same function; the first of the file for each of its weights."""
    of_file = [(part, shapes) for part in file.using(weights) if (shapes := part.shapes) is not None]
    asked = {shapes for _, shapes in of_file}
    by_shapes: dict[tuple[object, ...], list[tuple[AffinePart, list[Array]]]] = {}
    for part in module.using(parameters):
        if (shapes := part.shapes) in asked and shapes is not None and module.is_used_alone(part):
            by_shapes.setdefault(shapes, []).append((part, part.images(module.program)))
    used: set[Value] = set()
    for part, shapes in of_file:
        own = part.stored & weights
        if shapes not in by_shapes or not own.isdisjoint(used):
            continue
        images = part.images(file.program)
        same = next(
            (o for o, module_images in by_shapes[shapes] if images and distance(images, module_images) <= ROUNDED), None
        )
        if same is not None:
            taken = same.stored & parameters
            by_shapes[shapes] = [pair for pair in by_shapes[shapes] if pair[0].stored.isdisjoint(taken)]
            used |= own
            yield Pair(same, part)


def _equal_weights(
    module: AffineParts, program: Program, weights: AbstractSet[Value], parameters: AbstractSet[Value]
) -> Iterator[Pair]:
    """Yield what the module computes from its parameters alone and the file stores."""
    free = dict.fromkeys(value for value in program.constant_data if value in weights)
    for part in module.using(parameters):
        if part.source is None and part.nodes:
            (computed,) = execute(part.program(module.program).astype("float64"), [])
            stored = ((value, program.constant_data[value].astype(np.float64)) for value in free)
            same = next((value for value, data in stored if distance([data], [computed]) <= ROUNDED), None)
            if same is not None:
                del free[same]
                yield Pair(part, AffinePart(None, same, (), frozenset({same})))
