"""A torch module aligned with the program of a file: the sides to compare, and notes on what could be aligned."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ....converter.capture.cell_hooks import input_slots
from ....converter.structure.program_names import named_modules
from ....runtime.errors import UsageError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, as_dtype
from ....runtime.tree import positional_arguments
from ...correspondence.structures import match_results
from ...dtypes import cast_floating
from ...inputs.affordable import require_affordable, require_room_for_values
from ...options import Options
from ...results.comparison import PASSED_ON, UNPAIRED
from ...results.correspondence import Correspondence
from ...sides.imported import is_imported
from ...sides.interpreter_side import Arrange
from ...sides.records import INPUT, OUTPUT, Key, Records
from ...sides.reported_cells import presence_without_calls, used_parameters
from ...sides.rounded_numbers import unmatched_buffers
from ...sides.run import FORWARD, Run, Wanted
from ...sides.torch_side import TorchSide
from .alignment_notes import alignment_notes
from .crossings import Crossing, other_sample
from .flat import FlatProgram, without_boundaries
from .found_cells import FoundCells
from .odd_shapes import constant_boundaries
from .pairs import cell_pairs, merged_parameters, parameter_pairs, passed_on
from .parameters import PairedParameters
from .repeated_nodes import with_moves_done_once
from .search import Search
from .sides import FileSide, ModuleSide
from .written_scans import with_scans_written_out

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]
PairResults = Callable[[Records], Sequence[int | None] | None]
"""Returns, for each result of the file, the position of the module's result that it is, given the module's records.

None if the file's program has a structure of results to pair them by.
"""


@dataclass(frozen=True)
class Alignment:
    """The two sides, with the same boundaries.

    Attributes:
        reference: the module.
        side: the program of the file.
        notes: how its Cells and parameters were found, and which weren't.
        correspondence: the Cells and parameters of the module, with those of the file.
        presence: why modules that aren't judged by themselves aren't, by path: a status of `results.comparison`.
    """

    reference: ModuleSide
    side: FileSide
    notes: list[str]
    correspondence: Correspondence
    presence: Mapping[str, str]


def align(
    name: str,
    module: torch.nn.Module,
    program: Program,
    arguments: Arguments,
    arrange: Arrange,
    pair_results: PairResults,
    options: Options,
    reference: str = "torch",
    *,
    keeps_merged: bool = False,
) -> Alignment:
    """Find the Cells of a module in the program of a file, and return both as sides.

    Args:
        name: name of the file's side.
        module: the module.
        program: the program read from the file.
        arguments: the module's arguments.
        arrange: see `Arrange`.
        pair_results: see `PairResults`.
        options: options of the run.
        reference: name of the module's side.
        keeps_merged: whether merged weights stay as the file has them.

    Raises:
        CellbridgeError: the module or the program doesn't run on these inputs, or doesn't fit into memory.
    """
    args, kwargs = arguments
    first = arrange(args, kwargs)
    program = with_scans_written_out(program, divide=True)
    require_affordable(program, first, grads=options.grads)
    plain = TorchSide.of_options(reference, module, args, kwargs, options)
    truth = plain.run(Run("float64", Wanted(options.grads)))
    program, outputs = _with_results_of(program, truth, pair_results(truth))
    program = program.replace(arguments=positional_arguments(len(program.inputs)))
    flat = FlatProgram(with_moves_done_once(without_boundaries(program)))
    samples, records = [first], [truth]
    if (other := other_sample(args, kwargs)) is not None:
        try:
            records.append(TorchSide.of_options(reference, module, *other, options).run(Run("float64", FORWARD)))
            samples.append(arrange(*other))
        except UsageError:  # the module doesn't take these numbers
            del records[1:]
    require_room_for_values(flat.program, first, samples=len(samples))
    dtype = as_dtype(options.dtype)
    given = [[cast_floating(array, dtype) for array in arrays] for arrays in samples]
    order = order_of_inputs(arguments, arrange)

    def ends(program: Program, tensors: Sequence[Crossing]) -> dict[Crossing, Value]:
        return _fixed(program, tensors, truth, order, outputs, module, arguments)

    def side_of(cells: FoundCells, paired: PairedParameters) -> FileSide:
        rows = _untrained_rows(module, paired.paired) if is_imported(program) else {}
        return FileSide(
            name, paired.program, tuple(first), {}, aliases=cells.marked.aliases, paired=paired.paired,
            excused=cells.excused, untrained_rows=rows, arrange=arrange, working_dtype=options.dtype,
            seed=options.seed, rounded=paired.rounded, computed=paired.computed,
        )  # fmt: skip

    search = Search(plain, given, records, ends, side_of, keeps_other_code=keeps_merged)
    match = search.match(flat.program)
    cells, paired = match.cells, match.paired
    cells = replace(cells, excused=cells.excused.with_gradients(constant_boundaries(paired.program)))
    side = side_of(cells, paired)
    side_of_module = ModuleSide.of_options(
        reference, module, args, kwargs, options, cell_paths={call.path for call in cells.ownership.calls},
        kept=cells.marked.kept, aliases=cells.marked.aliases, paired=paired.paired,
        ignored=search.parameters.keys() - paired.paired, untrained_rows=side.untrained_rows,
        rounded=unmatched_buffers(module, program.constant_data.values()),
    )  # fmt: skip
    idle = passed_on(cells.ownership, truth, cells.tensors, cells.marked.kept)
    notes = alignment_notes(search, match, side, idle, grads=options.grads)
    marked = cells.marked.program
    of_merged = merged_parameters(program, marked)
    pairs = cell_pairs(program, cells.flat, cells.ownership, cells.places, of_merged)
    names = [name for name in search.parameters if name in paired.paired]
    weights = parameter_pairs(marked, paired.program, names, of_merged, pairs)
    presence = _presence(module, truth) | dict.fromkeys(cells.ownership.left_out, UNPAIRED)
    presence |= dict.fromkeys(idle, PASSED_ON)
    return Alignment(side_of_module, side, notes, Correspondence(pairs, weights), presence)


def _presence(module: torch.nn.Module, truth: Records) -> dict[str, str]:
    """Return for the modules that aren't called why they aren't judged, by path."""
    called, used = {call.path for call in truth.calls}, used_parameters(truth)
    modules = [(path, inner) for path, _, inner in named_modules(module) if path not in called]
    return {path: presence_without_calls(path, inner, used) for path, inner in modules}


def _untrained_rows(module: torch.nn.Module, paired: Collection[str]) -> dict[str, int]:
    """Return the row of padding of each embedding table that has one, by name."""
    tables = {
        f"{path}.weight" if path else "weight": inner.padding_idx
        for path, inner in module.named_modules()
        if isinstance(inner, torch.nn.Embedding)
    }
    return {n: row for n, row in tables.items() if row is not None and n in paired}


def _with_results_of(
    program: Program, truth: Records, partners: Sequence[int | None] | None
) -> tuple[Program, list[int | None]]:
    """Return a program with the module's results in their order, and for each output its position in the module's.

    With `partners` None, the program keeps its own structure of results.
    """
    assert truth.result is not None, "torch records its result"
    if partners is None:
        return program, match_results(truth.result, program.result).partners
    if sorted(-1 if place is None else place for place in partners) != list(range(truth.result.tensors)):
        return program, list(partners)
    outputs = [program.outputs[partners.index(place)] for place in range(len(partners))]
    return program.replace(outputs=tuple(outputs), result=truth.result), list(range(len(partners)))


def order_of_inputs(arguments: Arguments, arrange: Arrange) -> list[int]:
    """Return for each input of the file the position among the module's tensors, in flat order."""
    count = -1

    def number(_: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return torch.tensor(count)

    args, kwargs = pytree.tree_map_only(torch.Tensor, number, (arguments[0], dict(arguments[1])))
    return [int(array) for array in arrange(args, kwargs)]


def _fixed(
    program: Program,
    tensors: Sequence[Crossing],
    truth: Records,
    order: Sequence[int],
    outputs: Sequence[int | None],
    module: torch.nn.Module,
    arguments: Arguments,
) -> dict[Crossing, Value]:
    """Return the places of the module's inputs and outputs."""
    crossing = {key: tensor for tensor in tensors for key in tensor.keys}
    slots = [slot for _, slot in sorted(input_slots(module, arguments[0], dict(arguments[1])))]
    places = {Key("", 0, INPUT, slots[place]): v for place, v in zip(order, program.inputs, strict=True)}
    results = truth.slots.get(("", 0, OUTPUT), [])
    places |= {
        Key("", 0, OUTPUT, results[place]): value
        for place, value in zip(outputs, program.outputs, strict=True)
        if place is not None and place < len(results)
    }
    return {crossing[key]: value for key, value in places.items() if key in crossing}
