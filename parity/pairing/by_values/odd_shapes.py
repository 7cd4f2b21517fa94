"""Boundaries of a file that can't be judged like the others.

A value of another shape can't be replaced by the module's. What the file computes from it, as far as the next
boundaries, is as wrong as the value, and only the Cell that computes the value is at fault. A value that depends on
no trained parameter in the file, such as a table of positions that the exporter computed from its weight, has no
gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, is_floating
from ...sides.boundary_observer import own_key
from ...sides.records import INPUT, OUTPUT, Key
from .crossings import Crossing
from .flat import FlatProgram


@dataclass(frozen=True)
class Excused:
    """What isn't judged Cell by Cell.

    Attributes:
        keys: boundaries at which values aren't judged.
        gradients: boundaries of values at which gradients aren't judged.
        paths: Cells whose parameter gradients aren't judged.
    """

    keys: frozenset[Key] = frozenset()
    gradients: frozenset[Key] = frozenset()
    paths: frozenset[str] = frozenset()

    def with_gradients(self, gradients: frozenset[Key], paths: frozenset[str] = frozenset()) -> Excused:
        """Return this with more boundaries, and Cells, of which gradients aren't judged."""
        return Excused(self.keys, self.gradients | gradients, self.paths | paths)


def excuse(
    flat: FlatProgram,
    places: Mapping[Crossing, Value],
    shapes: Mapping[Value, tuple[int, ...]],
    kept: frozenset[Key],
    cell_of: Callable[[Value], str],
) -> Excused:
    """Return what isn't judged because a value before it has another shape in the file.

    Args:
        flat: the program of the file.
        places: the places of the module's tensors.
        shapes: the shapes of the file's values.
        kept: the boundaries that the file's program has.
        cell_of: returns the path of the Cell that computes a value.
    """
    at = {value: tensor for tensor, value in places.items()}
    odd = sorted(
        (v for v, tensor in at.items() if v in shapes and shapes[v] != tensor.shape), key=lambda v: at[v].order
    )
    own = {value: [key for key in at[value].keys if key.path and key in kept] for value in odd}
    keys = {key for value in odd for key in own[value]}
    gradients = set(keys)
    for value in odd:
        reached, following = _from_place(flat, value, at.keys())
        keys |= _inner_keys(following, at)
        gradients |= _inner_keys(following | _places_that_meet(flat, reached, at.keys()), at)
    for value in odd:
        if any(value in flat.after(other) for other in odd):
            continue
        path = cell_of(value)
        returned = [key for other in odd for key in own[other] if key.kind == OUTPUT and key.path == path]
        keys -= set((returned or own[value])[:1])
    inputs = {key.path for value in odd for key in at[value].keys if key.kind == INPUT and key.path}
    return Excused(frozenset(keys), frozenset(gradients), frozenset(inputs))


def constant_boundaries(program: Program) -> frozenset[Key]:
    """Return the boundaries of a file's program through which no gradient flows, to inputs or trained parameters."""
    trained = (parameter.value for parameter in program.parameters.values() if parameter.trainable)
    varying = {value for value in (*program.inputs, *trained) if is_floating(value.dtype)}
    constant_keys: set[Key] = set()
    for node in program.nodes:
        if not varying.isdisjoint(node.inputs):
            varying.update(value for value in node.outputs if is_floating(value.dtype))
        elif node.op == "boundary":
            constant_keys.add(own_key(program, node))
    return frozenset(constant_keys)


def _inner_keys(places: Iterable[Value], at: Mapping[Value, Crossing]) -> set[Key]:
    """Return the boundaries at places, without those of the root."""
    return {key for place in places for key in at[place].keys if key.path}


def _from_place(flat: FlatProgram, place: Value, known: Collection[Value]) -> tuple[set[Value], set[Value]]:
    """Return what depends on a place, not by way of other places, with the place; and the next places."""
    reached, following = {place}, set[Value]()
    for node in flat.program.nodes:
        if not reached.isdisjoint(node.inputs):
            for value in node.outputs:
                (following if value in known else reached).add(value)
    return reached, following


def _places_that_meet(flat: FlatProgram, values: set[Value], known: Collection[Value]) -> set[Value]:
    """Return the places that enter nodes together with values, not by way of other places: gradients meet there."""
    met = set[Value]()
    for node in reversed(flat.program.nodes):
        if not values.isdisjoint(node.inputs) or any(value in met and value not in known for value in node.outputs):
            met.update(value for value in node.inputs if value is not None)
    return met & set(known)
