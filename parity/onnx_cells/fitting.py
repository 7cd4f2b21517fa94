"""The places of a module's tensors in a file's program, which is rewritten to have them as the module does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...runtime.ir.program import Program
from ...runtime.ir.types import Value
from ..pairing.distances import EXACT, distance
from ..sides.records import Array
from .anchors import find_anchors
from .crossings import Crossing
from .divided_batches import divide_batches
from .divided_products import divide_products
from .file_values import FileValues
from .flat import FlatProgram
from .joined_values import Joined, JoinFinder, with_joined
from .places import PlaceFinder, Places
from .regrouped_sums import with_biases_added_first
from .views import View, ViewFinder, used_views, with_views

MOST_ROUNDS = 4


@dataclass(frozen=True)
class Placed:
    """A program with places for the tensors of a module.

    Attributes:
        flat: the program; each tensor with a place is a value of it, computed by itself where that is possible.
        places: the places.
        shapes: the shapes of the program's values.
    """

    flat: FlatProgram
    places: Places
    shapes: Mapping[Value, tuple[int, ...]]


def place_tensors(
    program: Program,
    samples: Sequence[Sequence[Array]],
    tensors: Sequence[Crossing],
    ends: Callable[[Program], dict[Crossing, Value]],
    parameters: Mapping[str, Array],
) -> Placed:
    """Find the tensors of a module in a program, also in other layouts and in parts.

    After a wrong value nothing agrees until the module's is put in its place. What agrees then may show further
    layouts, so the search is repeated while it finds some.

    Args:
        program: the program, without boundaries.
        samples: its inputs, once or several times with other numbers.
        tensors: the tensors that cross the module's boundaries, with as many samples.
        ends: returns the places of the module's inputs and outputs in a program.
        parameters: the module's parameters by name.
    """
    file = FileValues(FlatProgram(program), samples)
    regrouped = with_biases_added_first(file.flat, lambda value: _is_tensor(file, value, tensors))
    if regrouped is not file.flat.program:
        file, program = FileValues(FlatProgram(regrouped), samples), regrouped
    places = Places()
    for number in range(MOST_ROUNDS):
        if (divided := divide_batches(file, tensors, places.of)) is not None:
            program = divided
            file = FileValues(FlatProgram(program), samples, file.fed)
        missing = [tensor for tensor in tensors if tensor not in places.of]
        in_parts, views, supposed = _rewritten_tensors(file, missing, number > 0)
        joined = list(in_parts.values())
        if number and not joined and not views:
            break
        if joined or views:
            whole = with_views(with_joined(program, joined), views)
            file = FileValues(FlatProgram(whole), samples, file.fed)
        anchors = find_anchors(file, tensors, parameters)
        proposed = {tensor: whole.tensor for tensor, whole in in_parts.items()}
        places = PlaceFinder(file, tensors, ends(file.flat.program), places, proposed, anchors, supposed).find()
        kept = set(places.of.values())
        joined = [tensor for tensor in joined if not kept.isdisjoint((tensor.tensor, *tensor.restored))]
        program = with_views(with_joined(program, joined), used_views(views, kept))
        if not any(tensor.can_have_a_place and tensor not in places.of for tensor in tensors):
            break
        file = FileValues(FlatProgram(program), samples, file.fed)
    if any(file.values[value][0].shape != arrays[0].shape for value, arrays in file.fed.items()):
        file = FileValues(file.flat, samples)  # what follows has the shapes of the module's tensors
    shapes = {value: tuple(arrays[0].shape) for value, arrays in file.values.items()}
    return Placed(FlatProgram(divide_products(program, kept)), places, shapes)


def _is_tensor(file: FileValues, value: Value, tensors: Sequence[Crossing]) -> bool:
    return any(distance(file.values[value], tensor.arrays) <= EXACT for tensor in tensors)


def _rewritten_tensors(
    file: FileValues, tensors: Sequence[Crossing], is_repeated: bool
) -> tuple[dict[Crossing, Joined], list[View], set[Value]]:
    """Return the tensors that a file has in parts, those that it has, or may have, in other layouts, and which of the
    values of the latter are only supposed to be tensors.
    """
    finder = ViewFinder(file)
    missing = finder.find(tensors)
    parts = JoinFinder(file, finder.of_shape)
    in_parts = {tensor: whole for tensor in missing if (whole := parts.find(tensor)) is not None}
    if not is_repeated or finder.views:
        finder.suppose([tensor for tensor in missing if tensor not in in_parts])
    return in_parts, list(finder.views.values()), finder.supposed
