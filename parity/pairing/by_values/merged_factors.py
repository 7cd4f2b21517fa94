"""Factors that a port has merged into weights: the scale of the queries, or that of an embedding.

A weight that is a multiple of the module's gets the module's numbers, and the factor stands behind what is computed
with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value, is_floating
from ...correspondence.distances import ROUNDED
from ...sides.records import Array
from .affine_parts import AffinePart, AffineParts
from .merged_weights import Merged, affine_pairs, arranged, equal, merged_program
from .splicing import Pair


def without_factors(
    program: Program, module: Program, lacking: Collection[str], unknown: Collection[str]
) -> Merged | None:
    """Return a file's program with factors behind products in place of those that were multiplied into their weights.

    The scale of the queries often is. Whether the module multiplies elsewhere isn't known: a weight that is a wrong
    multiple looks the same. A bias that isn't multiplied, or is another one, is kept, over the factor.

    Args:
        program: see `without_merged_weights`, as for the others.
        module: as well.
        lacking: as well.
        unknown: as well.

    Returns:
        The program; None if no weights are multiples of the module's.
    """
    lacked = {module.parameters[name].value for name in lacking if name in module.parameters}
    parameters = {value for value in lacked & _used_once(module) if _varies(module.constant_data[value])}
    constants = {value: data for value, data in program.constant_data.items() if value.name in unknown}
    weights = {v for v in constants.keys() & _used_once(program) if is_floating(v.dtype) and _varies(constants[v])}
    parts = AffineParts(program), AffineParts(module)
    pairs = [*_tables(program, module, weights, parameters), *affine_pairs(*parts, weights, parameters, _multiple)]
    weights -= {value for pair in pairs for value in pair.file.stored}
    parameters -= {value for pair in pairs for value in pair.module.stored}
    for pair in affine_pairs(*parts, weights, parameters, _multiple_but_for_an_offset):
        changed = _with_own_offset(pair, program, module)
        if changed is not None:
            module = changed
            pairs.append(pair)
    if not pairs:
        return None
    weights = {value for pair in pairs for value in pair.file.stored if value.name in unknown}
    return merged_program(program, module, weights, pairs)


def _used_once(program: Program) -> set[Value]:
    """Return the values that one node alone uses: the gradients of others come from several places."""
    count = Counter(value for node in program.nodes for value in node.inputs if value is not None)
    return {value for value, uses in count.items() if uses == 1}


def _tables(
    program: Program, module: Program, weights: AbstractSet[Value], parameters: AbstractSet[Value]
) -> Iterator[Pair]:
    """Yield lookups in tables that are multiples of the module's."""
    free = [node for node in module.nodes if node.op == "embedding" and node.inputs[0] in parameters]
    for node in program.nodes:
        for other in free if node.op == "embedding" and node.inputs[0] in weights else ():
            file, own = (_lookup(lookup) for lookup in (node, other))
            (table,), (truth,) = file.stored, own.stored
            factor = _multiple([_wide(program, table)], [_wide(module, truth)])
            if factor is not None and node.attributes == other.attributes and file.result.type == own.result.type:
                free.remove(other)
                yield Pair(own, file, factor=factor)
                break


def _wide(program: Program, stored: Value) -> Array:
    return np.asarray(program.constant_data[stored], np.float64)


def _lookup(node: Node) -> AffinePart:
    table, places = node.inputs
    assert table is not None, "an embedding has a table"
    return AffinePart(places, node.outputs[0], (node,), frozenset({table}))


def _multiple(arrays: Sequence[Array], truth: Sequence[Array]) -> float | None:
    """Return the number that all arrays are the truth times; None if there is none."""
    if [array.shape for array in arrays] != [expected.shape for expected in truth]:
        return None
    size = sum(float(np.vdot(expected, expected)) for expected in truth)
    factor = sum(float(np.vdot(a, t)) for a, t in zip(arrays, truth, strict=True)) / size if size else 0.0
    return factor if factor and equal(arrays, [factor * expected for expected in truth]) else None


def _multiple_but_for_an_offset(arrays: Sequence[Array], truth: Sequence[Array]) -> float | None:
    """Return the number that the differences of arrays are those of the truth times; None if there is none, or it is 1.

    A product with the right weights and another bias needs no factor.
    """
    factor = _multiple([arrays[0] - arrays[1]], [truth[0] - truth[1]])
    return factor if factor is not None and abs(factor - 1) > ROUNDED else None


def _with_own_offset(pair: Pair, file: Program, module: Program) -> Program | None:
    """Return the module with the file's bias, over the factor, in place of its own; None if that isn't all there is."""
    images = [arranged(image, pair.result_order) for image in pair.file.images(file, pair.source_order)]
    data = file.constant_data
    for name, parameter in module.parameters.items():
        if parameter.value not in pair.module.stored:
            continue
        for value in pair.file.stored:
            if value.shape == parameter.value.shape:
                own = replace(parameter, data=(data[value] / pair.factor).astype(parameter.data.dtype))
                changed = module.replace(parameters={**module.parameters, name: own})
                truth = [pair.factor * image for image in pair.module.images(changed)]
                if equal(images, truth):
                    return changed
    return None


def _varies(data: Array) -> bool:
    """Whether numbers aren't all the same: others that are, as norms have at first, would be their multiples."""
    return bool(np.any(data != data.flat[0])) if data.size else False
