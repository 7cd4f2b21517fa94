"""Weights that a port has merged: a batch norm folded into a convolution, a norm's 1 + gain, low-rank updates added.

The port's program gets what the module computes there, with the module's own parameters, in place of what it computes
with the merged weight. That is allowed where both are the same function: weights computed from parameters alone have
the same numbers, and affine parts of both programs map the same random tensors to the same results. Then the Cells that
were merged have their boundaries, and gradients are those of the module's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ....runtime.programs.interpreter import execute
from ...correspondence.distances import ROUNDED, distance
from ...sides.records import Array
from .affine_parts import AffinePart, AffineParts
from .splicing import Pair, Splicer
from .summed_biases import gates_in_another_order, with_summed_biases

FactorOf = Callable[[Sequence[Array], Sequence[Array]], float | None]
"""Returns what arrays are of others; None if they are no multiples that it accepts."""


@dataclass(frozen=True)
class Merged:
    """A program without merged weights.

    Attributes:
        program: the program.
        replaced: names of the values of the weights that it had.
        parameters: names of the module's parameters that they were computed from.
        factors: by name of those that the file has times a number, this number.
    """

    program: Program
    replaced: frozenset[str]
    parameters: tuple[str, ...]
    factors: Mapping[str, float] = field(default_factory=dict)


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
    pairs = list(affine_pairs(parts[0], parts[1], weights, parameters))
    free = weights - {value for pair in pairs for value in pair.file.stored}
    pairs += _equal_weights(parts[1], program, free, parameters)
    free -= {value for pair in pairs for value in pair.file.stored}
    gates = gates_in_another_order(parts[1], {value: program.constant_data[value] for value in free}, parameters)
    pairs += gates.pairs
    module = module.replace(constants=(*module.constants, *gates.places))
    if not pairs:
        return None
    return merged_program(program, module, weights, pairs)


def merged_program(program: Program, module: Program, weights: AbstractSet[Value], pairs: Sequence[Pair]) -> Merged:
    """Return a file's program with parts of the module in place of its own, which use these weights."""
    replaced = frozenset(value.name for pair in pairs for value in pair.file.stored if value in weights)
    factors = {value: pair.factor for pair in pairs for value in pair.module.stored}
    spliced = Splicer(program, module, weights, pairs).program()
    names = {name: factors[p.value] for name, p in module.parameters.items() if p.value in factors}
    return Merged(spliced, replaced, tuple(names), {name: factor for name, factor in names.items() if factor != 1})


def equal(arrays: Sequence[Array], truth: Sequence[Array]) -> float | None:
    """Return 1 if arrays are the truth, but for rounding."""
    return 1.0 if distance(list(arrays), list(truth)) <= ROUNDED else None


def arranged(array: Array, order: tuple[int, ...]) -> Array:
    """Return an array with its axes in an order; the empty order is their own."""
    return array.transpose(order) if order else array


def affine_pairs(
    file: AffineParts,
    module: AffineParts,
    weights: AbstractSet[Value],
    parameters: AbstractSet[Value],
    factor_of: FactorOf = equal,
) -> Iterator[Pair]:
    """Yield affine parts that are the same function, perhaps but for a factor; the file's first for each weight."""
    of_file = [(part, _sizes(shapes)) for part in file.using(weights) if (shapes := part.shapes) is not None]
    asked = {sizes for _, sizes in of_file}
    by_sizes: dict[_Sizes, list[tuple[AffinePart, list[Array]]]] = {}
    for part in module.using(parameters):
        if (shapes := part.shapes) is not None and _sizes(shapes) in asked and module.is_used_alone(part):
            by_sizes.setdefault(_sizes(shapes), []).append((part, part.images(module.program)))
    orders = _orders(file.program)
    is_trained = {parameter.value: parameter.trainable for parameter in file.program.parameters.values()}
    used: set[Value] = set()
    for part, sizes in of_file:
        own = part.stored & weights
        is_mixed = (
            len({is_trained[value] for value in own if value in is_trained}) > 1
        )  # which gradient is, isn't known
        if sizes not in by_sizes or is_mixed or not own.isdisjoint(used):
            continue
        pair = _same_function(part, file.program, by_sizes[sizes], orders, factor_of)
        if pair is not None:
            taken = pair.module.stored & parameters
            by_sizes[sizes] = [entry for entry in by_sizes[sizes] if entry[0].stored.isdisjoint(taken)]
            used |= own
            yield pair


_Sizes = tuple[tuple[int, ...], ...]


def _sizes(shapes: Iterable[tuple[int, ...]]) -> _Sizes:
    """Return the sizes of the axes of each shape, whatever their order."""
    return tuple(tuple(sorted(shape)) for shape in shapes)


def _orders(program: Program) -> list[tuple[int, ...]]:
    """Return the orders of axes between which a program changes: channels last and first."""
    orders: dict[tuple[int, ...], None] = {}
    for node in program.nodes:
        if node.op == "transpose":
            order = tuple(node.attributes["permutation"])
            orders |= {order: None, tuple(int(axis) for axis in np.argsort(order)): None}
    return list(orders)


def _same_function(
    part: AffinePart,
    program: Program,
    of_module: Sequence[tuple[AffinePart, list[Array]]],
    orders: Sequence[tuple[int, ...]],
    factor_of: FactorOf,
) -> Pair | None:
    """Return a part of a file with that of the module which is the same function, perhaps of axes in another order."""
    assert part.shapes is not None, "its shapes are known"
    images: dict[tuple[int, ...], list[Array]] = {}
    for other, truth in of_module:
        assert other.shapes is not None, "its shapes are known"
        sources, results = zip(part.shapes, other.shapes, strict=True)
        of_result = [order for order in ((), *orders) if _reads(order, *results)]
        for source_order in (order for order in ((), *orders) if _reads(order, *sources)):
            if source_order not in images:
                images[source_order] = part.images(program, source_order)
            for result_order in of_result:
                arrays = [arranged(image, result_order) for image in images[source_order]]
                factor = factor_of(arrays, truth) if arrays else None
                if factor is not None:
                    return Pair(other, part, source_order, result_order, factor)
    return None


def _reads(order: tuple[int, ...], shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an array of a shape has another one with its axes in an order; the empty order is their own."""
    if not order:
        return shape == target
    return len(order) == len(shape) and tuple(shape[axis] for axis in order) == target


def _equal_weights(
    module: AffineParts, program: Program, weights: AbstractSet[Value], parameters: AbstractSet[Value]
) -> Iterator[Pair]:
    """Yield what the module computes from its parameters alone and the file stores."""
    free = dict.fromkeys(value for value in program.constant_data if value in weights)
    for part in module.using(parameters):
        if part.source is None and part.nodes:
            (computed,) = execute(part.program(module.program).astype("float64"), [])
            stored = ((value, program.constant_data[value].astype(np.float64)) for value in free)
            same = next((value for value, data in stored if _are_same_numbers(data, computed)), None)
            if same is not None:
                del free[same]
                yield Pair(part, AffinePart(None, same, (), frozenset({same})))


def _are_same_numbers(array: Array, truth: Array) -> bool:
    """Whether arrays are the same but for rounding, and for axes of one place."""
    sizes, expected = ([size for size in x.shape if size != 1] for x in (array, truth))
    return sizes == expected and distance([array.reshape(truth.shape)], [truth]) <= ROUNDED
