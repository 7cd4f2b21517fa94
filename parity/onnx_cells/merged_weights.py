"""Weights that a port has merged: a batch norm folded into a convolution, a norm's 1 + gain, low-rank updates added.

The port's program gets what the module computes there, with the module's own parameters, in place of what it computes
with the merged weight. That is allowed where both are the same function: weights computed from parameters alone have
the same numbers, and affine parts of both programs map the same random tensors to the same results. Then the Cells that
were merged have their boundaries, and gradients are those of the module's parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...runtime.errors import CellbridgeError
from ...runtime.ir.program import Program
from ...runtime.ir.types import Buffer, Constant, Node, ProgramParameter, Value, is_floating
from ...runtime.namespace import Namespace
from ...runtime.programs.interpreter import execute
from ..pairing.distances import ROUNDED, distance
from ..sides.records import Array
from .affine_parts import AffinePart, AffineParts
from .flat import without_idle_nodes
from .parameters import unlike

SAMPLES = 2
"""Random tensors on which affine functions are compared: those that agree on two differ with probability zero."""


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


@dataclass(frozen=True)
class _Pair:
    """Parts of the module's program and of the file's that are the same function."""

    module: AffinePart
    file: AffinePart


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
    parts = AffineParts(program), AffineParts(module)
    computing = {name: known[name] for name in known if parts[1].is_for_weights(module.parameters[name].value)}
    wanted = {parameter.value for name, parameter in module.parameters.items() if name in {*lacking, *computing}}
    suspects = {*unknown, *computing.values()}
    weights = {value for value in program.constant_data if value.name in suspects and is_floating(value.dtype)}
    pairs = list(_pairs(parts[0], parts[1], weights, wanted))
    pairs += _equal_weights(parts[1], program, weights - {v for p in pairs for v in p.file.stored}, wanted)
    if not pairs:
        return None
    replaced = {value.name for pair in pairs for value in pair.file.stored if value in weights}
    spliced = _Splicer(program, module, weights, pairs).program()
    used = {value for pair in pairs for value in pair.module.stored}
    names = tuple(name for name, parameter in module.parameters.items() if parameter.value in used)
    return Merged(spliced, frozenset(replaced), names)


def _pairs(
    file: AffineParts, module: AffineParts, weights: AbstractSet[Value], wanted: AbstractSet[Value]
) -> Iterator[_Pair]:
    """Yield affine parts that are the same function; the first of the file for each of its weights."""
    of_file = [(part, shapes) for part in file.using(weights) if (shapes := _shapes(part)) is not None]
    asked = {shapes for _, shapes in of_file}
    by_shapes: dict[tuple[object, ...], list[tuple[AffinePart, list[Array]]]] = {}
    for part in module.using(wanted):
        if (shapes := _shapes(part)) in asked and shapes is not None:
            by_shapes.setdefault(shapes, []).append((part, _images(module.program, part)))
    used: set[Value] = set()
    for part, shapes in of_file:
        own = part.stored & weights
        if shapes not in by_shapes or not own.isdisjoint(used):
            continue
        images = _images(file.program, part)
        same = next((o for o, theirs in by_shapes[shapes] if images and distance(images, theirs) <= ROUNDED), None)
        if same is not None:
            taken = same.stored & wanted
            by_shapes[shapes] = [pair for pair in by_shapes[shapes] if pair[0].stored.isdisjoint(taken)]
            used |= own
            yield _Pair(same, part)


def _equal_weights(
    module: AffineParts, program: Program, weights: AbstractSet[Value], wanted: AbstractSet[Value]
) -> Iterator[_Pair]:
    """Yield what the module computes from its parameters alone and the file stores."""
    free = dict.fromkeys(value for value in program.constant_data if value in weights)
    for part in module.using(wanted):
        if part.source is None and part.nodes:
            (computed,) = execute(part.program(module.program).astype("float64"), [])
            stored = ((value, program.constant_data[value].astype(np.float64)) for value in free)
            same = next((value for value, data in stored if distance([data], [computed]) <= ROUNDED), None)
            if same is not None:
                del free[same]
                yield _Pair(part, AffinePart(None, same, (), frozenset({same})))


def _shapes(part: AffinePart) -> tuple[object, ...] | None:
    """Return the shapes of a part's source and result; None if they aren't known, or there is no source."""
    if part.source is None or not all(isinstance(dim, int) for v in (part.source, part.result) for dim in v.shape):
        return None
    return part.source.shape, part.result.shape


def _images(program: Program, part: AffinePart) -> list[Array]:
    """Return what a part maps random tensors to; nothing if it can't be run."""
    assert part.source is not None, "it is a function of its source"
    generator = np.random.default_rng(0)
    wide = part.program(program).astype("float64")
    try:
        return [execute(wide, [generator.standard_normal(part.source.type.sizes)])[0] for _ in range(SAMPLES)]
    except CellbridgeError:  # a size that only a run determines
        return []


@dataclass
class _Splicer:
    """Replaces parts of a file's program by those of the module."""

    file: Program
    module: Program
    weights: AbstractSet[Value]
    pairs: Sequence[_Pair]

    def program(self) -> Program:
        """Return the program."""
        after: dict[Value | None, list[Node]] = {}
        for pair in self.pairs:
            before = pair.file.nodes[-1].outputs[0] if pair.file.nodes else None
            after.setdefault(before, []).extend(self._nodes(pair))
        ends = {pair.file.nodes[-1] for pair in self.pairs if pair.file.nodes}
        nodes = list(after.get(None, []))
        for node in self.file.nodes:
            nodes += after.get(node.outputs[0], []) if node in ends else [node]
        computed = {pair.file.result for pair in self.pairs}
        parameters = {n: p for n, p in self.file.parameters.items() if p.value not in computed}
        trained = {p.value for p in self.file.parameters.values() if p.trainable}
        of_trained = [pair for pair in self.pairs if not trained.isdisjoint(pair.file.stored & self.weights)]
        for name, parameter in self.module.parameters.items():
            if (value := self._stored.get(parameter.value)) is not None:
                is_trained = any(parameter.value in pair.module.stored for pair in of_trained)
                parameters[unlike(name, parameters, "module")] = ProgramParameter(value, parameter.data, is_trained)
        constants = [c for c in self.file.constants if c.value not in computed]
        stored: list[Constant | Buffer] = [*self.module.constants, *self.module.buffers.values()]
        for item in stored:
            if (value := self._stored.get(item.value)) is not None:
                constants.append(Constant(value, item.data))
        whole = self.file.replace(nodes=tuple(nodes), parameters=parameters, constants=tuple(constants))
        return without_idle_nodes(whole)

    @cached_property
    def _names(self) -> Namespace:
        values = (*self.file.inputs, *self.file.constant_data, *self.file.producers)
        return Namespace((value.name for value in values), first=1)

    @cached_property
    def _stored(self) -> dict[Value, Value]:
        """For each stored value of the module's parts, that in the file's program."""
        used = {
            value: None for pair in self.pairs for value in self.module.constant_data if value in pair.module.stored
        }
        return {value: Value(self._names.unique(value.name), value.type) for value in used}

    def _nodes(self, pair: _Pair) -> list[Node]:
        """Return the module's nodes in the file's program."""
        known = dict(self._stored)
        if pair.module.source is not None and pair.file.source is not None:
            known[pair.module.source] = pair.file.source
        last = pair.file.nodes[-1] if pair.file.nodes else None
        cell = 0 if last is None else last.cell
        nodes: list[Node] = []
        for node in pair.module.nodes:
            for value in node.outputs:
                is_result = value is pair.module.result
                known[value] = pair.file.result if is_result else Value(self._names.unique(value.name), value.type)
            inputs = tuple(None if value is None else known[value] for value in node.inputs)
            outputs = tuple(known[value] for value in node.outputs)
            nodes.append(Node(node.op, inputs, node.attributes, outputs, cell, None if last is None else last.source))
        return nodes
