"""The places of a module's tensors in a file's program, which is rewritten to have them as the module does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ....runtime.errors import CellbridgeError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ...correspondence.distances import EXACT, ROUNDED, Arrays, distance
from ...sides.records import Array, Key
from .anchors import find_anchors
from .candidates import Places
from .copied_results import with_results_before_uses
from .crossings import Crossing, unused_results
from .divided_batches import divide_batches
from .divided_products import divide_products
from .file_values import FileValues
from .flat import FlatProgram
from .join_finder import JoinFinder
from .joined_values import Joined, with_joined
from .moved_cells import Moves, find_moves
from .other_arguments import with_other_arguments
from .places import PlaceFinder
from .regrouped_sums import with_biases_added_first
from .repeated_nodes import with_arguments_computed_once, with_products_computed_once
from .results_apart import with_results_apart
from .views import View, ViewFinder, origins_of, used_views, with_views

MOST_ROUNDS = 4


@dataclass(frozen=True)
class Placed:
    """A program with places for the tensors of a module.

    Attributes:
        flat: the program; each tensor with a place is a value of it, computed by itself where that is possible.
        places: the places.
        shapes: the shapes of the program's values.
        is_right: whether the program's results are the module's, with none of its tensors in their places.
        moves: what the program computes at another place.
        has_orders: whether some tensors lie in values that have their elements in another order along an axis.
    """

    flat: FlatProgram
    places: Places
    shapes: Mapping[Value, tuple[int, ...]]
    is_right: bool
    moves: Moves
    has_orders: bool


def place_tensors(
    program: Program,
    samples: Sequence[Sequence[Array]],
    tensors: Sequence[Crossing],
    ends: Callable[[Program], dict[Crossing, Value]],
    parameters: Mapping[str, Array],
    likely: Mapping[Key, Value],
    *,
    in_any_order: bool,
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
        likely: values of the program that may be the tensors at boundaries. They are, if the file's results are the
            module's with the tensors in all of these places.
        in_any_order: whether a value may have the elements of a tensor in any order along an axis.
    """
    file = FileValues(FlatProgram(with_products_computed_once(program, tensors)), samples)
    regrouped = with_biases_added_first(file.flat, lambda value: _is_tensor(file, value, tensors))
    if regrouped is not file.flat.program:
        file = FileValues(FlatProgram(regrouped), samples)
    once = with_arguments_computed_once(file, tensors)
    if once is not file.flat.program:
        file = FileValues(FlatProgram(once), samples)
    in_order = with_results_before_uses(file.flat)
    if in_order is not file.flat.program:
        file = FileValues(FlatProgram(in_order), samples)
    at_ends = ends(file.flat.program)
    is_right = _agrees(file, at_ends)
    places = Places() if is_right else _with_likely_places(file, tensors, at_ends, likely)
    placed = _place(file, samples, tensors, ends, parameters, places, is_right, in_any_order, Moves())
    lacking = any(tensor.can_have_a_place and tensor not in placed.places.of for tensor in tensors)
    if not is_right and (lacking or placed.places.by_trial):
        moves = find_moves(file.flat, tensors, parameters)
        if moves.cells:
            file = FileValues(file.flat, samples)
            return _place(file, samples, tensors, ends, parameters, Places(), is_right, in_any_order, moves)
    return placed


def _place(
    file: FileValues,
    samples: Sequence[Sequence[Array]],
    tensors: Sequence[Crossing],
    ends: Callable[[Program], dict[Crossing, Value]],
    parameters: Mapping[str, Array],
    places: Places,
    is_right: bool,
    in_any_order: bool,
    moves: Moves,
) -> Placed:
    """Find the tensors of a module in a program of which some places are known and some Cells were moved."""
    program = file.flat.program
    has_orders = False
    for number in range(MOST_ROUNDS):
        if (divided := divide_batches(file, tensors, places.of)) is not None:
            program = divided
            file = FileValues(FlatProgram(program), samples, file.fed)
        known = _in_order(file, places)
        missing = [tensor for tensor in tensors if tensor not in known.of]
        finder = ViewFinder(file, in_any_order=in_any_order)
        in_views = finder.at_origins(known.of)
        in_parts, stacks, lacking = _rewritten_tensors(finder, missing, number > 0, is_right)
        views = _behind_joined(list(finder.views.values()), in_parts, finder.agreeing)
        supposed = finder.supposed | {value for stack in stacks for value in (stack.tensor, *stack.restored)}
        joined = [*in_parts.values(), *stacks]
        if number and divided is None and not joined and not views:
            break
        if joined or views:
            whole = with_views(with_joined(program, joined), views)
            fed = {value: tensor.arrays for tensor, value in in_views.items()}
            file = FileValues(FlatProgram(whole), samples, file.fed | fed)
            known = Places(known.of | in_views, known.by_paths, known.by_trial)
        anchors = find_anchors(file, tensors, parameters, moves.cells)
        proposed = {tensor: whole.tensor for tensor, whole in in_parts.items()}
        places = PlaceFinder(
            file, tensors, ends(file.flat.program), known, proposed, anchors, moves.ends, supposed, lacking
        ).find()
        kept = set(places.of.values())
        used = used_views(views, kept)
        needed = kept | {view.value for view in used}
        joined = [tensor for tensor in joined if not needed.isdisjoint(tensor.added)]
        has_orders |= any(view.orders for view in used)
        program = with_views(with_joined(program, joined), used)
        file = FileValues(FlatProgram(program), samples, file.fed)
        in_order = _in_order(file, places).of
        is_complete = all(tensor in in_order for tensor in tensors if tensor.can_have_a_place)
        if is_complete and not ViewFinder(file).at_origins(in_order):
            break
    if any(file.values[value][0].shape != arrays[0].shape for value, arrays in file.fed.items()):
        file = FileValues(file.flat, samples)  # what follows has the shapes of the module's tensors
    shapes = {value: tuple(arrays[0].shape) for value, arrays in file.values.items()}
    if not is_right:
        program = with_other_arguments(file, places.of)
        kept = set(places.of.values())
    program = _with_unused_results(divide_products(program, kept), places, unused_results(tensors))
    program = with_results_apart(program, places.of)
    return Placed(FlatProgram(program), places, shapes, is_right, moves, has_orders)


def _in_order(file: FileValues, places: Places) -> Places:
    """Return the places, but for those of tensors that are copied from later ones, and of these."""
    later = {value: tensor for tensor, value in places.of.items() if tensor.can_have_a_place}
    doubtful: set[Crossing] = set()
    for value, tensor in later.items():
        origins = [later[origin] for origin in origins_of(file, value) if origin in later]
        after = [origin for origin in origins if origin.order > tensor.order]
        doubtful.update([tensor, *after] if after else [])
    return Places({t: v for t, v in places.of.items() if t not in doubtful}, places.by_paths, places.by_trial)


def _with_unused_results(program: Program, places: Places, unused: Collection[Crossing]) -> Program:
    """Return the program with copies at the places of unused results: a last state may be a part of all states there.

    No gradient passes through the copy, as in the module.
    """
    names = program.new_names()
    nodes = list(program.nodes)
    for tensor in [tensor for tensor in places.of if tensor in unused]:
        value = places.of[tensor]
        copy = places.of[tensor] = Value(names.unique(f"{value.name}_copy"), value.type)
        nodes.append(Node("reshape", (value,), {"shape": value.shape}, (copy,)))
    return program.replace(nodes=tuple(nodes))


def _agrees(file: FileValues, ends: Mapping[Crossing, Value]) -> bool:
    """Whether the file's results are the module's, at the places of inputs and outputs."""
    return all(distance(file.values[place], tensor.arrays) <= ROUNDED for tensor, place in ends.items())


def _with_likely_places(
    file: FileValues, tensors: Sequence[Crossing], ends: Mapping[Crossing, Value], likely: Mapping[Key, Value]
) -> Places:
    """Return the likely places, fed with their tensors, if the file's results are the module's then; else none."""
    of = {
        tensor: likely[key]
        for tensor in tensors
        for key in tensor.keys
        if key in likely and likely[key] in file.rank and tensor.floating
    }
    file.fed |= {value: tensor.arrays for tensor, value in of.items()}
    try:
        file.compute()
        if _agrees(file, ends):
            return Places(of, set(), set(of))
    except CellbridgeError:  # a tensor of another shape
        pass
    file.fed.clear()
    file.compute()
    return Places()


def _is_tensor(file: FileValues, value: Value, tensors: Sequence[Crossing]) -> bool:
    return any(distance(file.values[value], tensor.arrays) <= EXACT for tensor in tensors)


def _rewritten_tensors(
    finder: ViewFinder, tensors: Sequence[Crossing], is_repeated: bool, is_right: bool
) -> tuple[dict[Crossing, Joined], list[Joined], dict[Crossing, list[Arrays]]]:
    """Return the tensors that a file has in parts, those that it may have in turns of a loop, and lacking parts.

    The finder gives views to those that the file has, or may have, in other layouts.
    """
    missing = finder.find(tensors)
    parts = JoinFinder(finder.file, finder.of_shape)
    in_parts = {tensor: whole for tensor in missing if (whole := parts.find(tensor)) is not None}
    others = [tensor for tensor in missing if tensor not in in_parts]
    stacks = [] if is_repeated or is_right else [stack for tensor in others for stack in parts.suppose(tensor)]
    if not is_repeated or finder.views:
        finder.suppose(others)
    lacking = {} if is_right else {tensor: parts.lacking(tensor) for tensor in others}
    return in_parts, stacks, lacking


def _behind_joined(
    views: Sequence[View], in_parts: Mapping[Crossing, Joined], agreeing: Mapping[Value, Crossing]
) -> list[View]:
    """Return the views, of parts of an earlier tensor behind that: a layer returns its last state beside all states.

    Before it, the gradient of what follows the part would arrive at the earlier tensor.
    """
    behind = {
        part: restored
        for tensor, whole in in_parts.items()
        for part, restored in zip(whole.parts, whole.restored, strict=True)
        if part in agreeing and agreeing[part].order > tensor.order
    }
    return [replace(view, value=behind.get(view.value, view.value)) for view in views]
