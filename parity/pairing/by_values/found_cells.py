"""The Cells of a module in a file's program, found by the values at their boundaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ...sides.records import Array, Key, Records
from .bypasses import bypassed_gradients
from .candidates import Places
from .crossings import Crossing, crossings
from .fitting import place_tensors
from .flat import FlatProgram
from .marking import MarkedProgram, mark
from .moved_parameters import with_moved_parameters
from .odd_shapes import Excused, excuse
from .ownership import Ownership, own_nodes
from .passed_parameters import with_passed_parameters
from .shared_nodes import copy_shared_nodes


@dataclass(frozen=True)
class FoundCells:
    """The Cells of a module in a program.

    Attributes:
        tensors: the tensors that cross the module's boundaries.
        flat: the program, in which each of them that has a place is a value.
        places: the places of the tensors that cross the module's boundaries.
        ownership: which Cell computes each node.
        marked: the program with these boundaries.
        excused: what isn't judged Cell by Cell.
        bypassed: boundaries at which gradients aren't judged, since values get past their Cells.
        bypassed_paths: the Cells whose parameter gradients aren't judged for that reason.
        is_right: whether the program's results are the module's.
        moved: paths of the Cells that the program computes at another place.
        has_orders: see `Placed`.
    """

    tensors: Sequence[Crossing]
    flat: FlatProgram
    places: Places
    ownership: Ownership
    marked: MarkedProgram
    excused: Excused
    bypassed: frozenset[Key]
    bypassed_paths: frozenset[str]
    is_right: bool
    moved: frozenset[str]
    has_orders: bool


def find_cells(
    program: Program,
    samples: Sequence[Sequence[Array]],
    records: Sequence[Records],
    ends: Callable[[Program, Sequence[Crossing]], dict[Crossing, Value]],
    parameters: Mapping[str, Array],
    likely: Mapping[Key, Value],
    *,
    in_any_order: bool,
) -> FoundCells:
    """Find the Cells of a module in a program.

    Args:
        program: the program, without boundaries.
        samples: its inputs, once or several times with other numbers.
        records: the module's records in float64 on the same inputs.
        ends: returns the places of the module's inputs and outputs in a program.
        parameters: the module's parameters by name.
        likely: see `place_tensors`.
        in_any_order: see `place_tensors`.
    """
    tensors, truth = crossings(records), records[0]
    program = with_moved_parameters(with_passed_parameters(program, tensors))
    placed = place_tensors(
        program, samples, tensors, lambda program: ends(program, tensors), parameters, likely, in_any_order=in_any_order
    )
    flat, places = placed.flat, placed.places
    crossing = [*dict.fromkeys([*tensors, *places.of])]  # some were divided
    ownership = own_nodes(flat, truth, crossing, places.of, placed.moves)
    shared = copy_shared_nodes(flat.program, ownership)
    marked = mark(*shared)
    excused = excuse(flat, places.of, placed.shapes, marked.kept, lambda value: ownership.path_of(flat, value))
    trained = {key for tensor in crossing if tensor.trained for key in tensor.keys}
    bypassed, paths = bypassed_gradients(*shared, trained)
    excused = excused.with_gradients(bypassed, paths)
    return FoundCells(
        tensors, flat, places, ownership, marked, excused, bypassed, paths, placed.is_right, placed.moves.cells,
        placed.has_orders,
    )  # fmt: skip
