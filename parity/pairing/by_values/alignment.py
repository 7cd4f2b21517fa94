"""A torch module aligned with the program of a file: the sides to compare, and notes on what could be aligned."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ....converter.capture.cell_hooks import input_slots
from ....converter.structure.program_names import named_buffers, named_modules, named_parameters
from ....runtime.errors import CellbridgeError, UsageError
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value, as_dtype
from ....runtime.programs.call import as_array
from ....runtime.tree import positional_arguments
from ...correspondence.structures import match_results
from ...dtypes import cast_floating
from ...inputs.affordable import require_affordable, require_room_for_values
from ...options import Options
from ...report.globs import list_names, summarize_paths
from ...results.cell_report import CarriedWeight, PairedCell
from ...results.comparison import PASSED_ON, UNPAIRED
from ...sides.imported import is_imported
from ...sides.interpreter_side import Arrange
from ...sides.records import INPUT, OUTPUT, Key, Records
from ...sides.reported_cells import presence_without_calls, used_parameters
from ...sides.run import FORWARD, Run, Wanted
from ...sides.side import ParameterInfo
from ...sides.torch_side import TorchSide
from .corrected_parameters import corrected_program, with_own_numbers
from .crossings import Crossing, other_sample
from .flat import FlatProgram, without_boundaries
from .found_cells import FoundCells, find_cells
from .likely_places import LikelyPlaces, likely_places
from .merged_weights import Merged, without_merged_weights
from .odd_shapes import constant_boundaries
from .pairs import cell_pairs, merged_parameters, parameter_pairs, passed_on
from .parameters import ModuleParameters, PairedParameters
from .sides import FileSide, ModuleSide
from .wrong_parameters import pair_all_parameters

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
        pairs: the Cells of the module, with those of the file.
        weights: the parameters of the file, with those of the module.
        presence: why modules that aren't judged by themselves aren't, by path: a status of `results.comparison`.
    """

    reference: ModuleSide
    side: FileSide
    notes: list[str]
    pairs: list[PairedCell]
    weights: list[CarriedWeight]
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
    how: dict[str, Any] = {
        "train": options.train, "loss": options.loss, "working_dtype": options.dtype, "seed": options.seed,
    }  # fmt: skip
    first = arrange(args, kwargs)
    require_affordable(program, first, grads=options.grads)
    plain = TorchSide(reference, module, args, kwargs, **how)
    truth = plain.run(Run("float64", Wanted(options.grads)))
    program, outputs = _with_results_of(program, truth, pair_results(truth))
    program = program.replace(arguments=positional_arguments(len(program.inputs)))
    flat = FlatProgram(program)
    samples, records = [first], [truth]
    if (other := other_sample(args, kwargs)) is not None:
        try:
            records.append(TorchSide(reference, module, *other, **how).run(Run("float64", FORWARD)))
            samples.append(arrange(*other))
        except UsageError:  # the module doesn't take these numbers
            del records[1:]
    require_room_for_values(flat.program, first, samples=len(samples))
    dtype = as_dtype(options.dtype)
    given = [[cast_floating(array, dtype) for array in arrays] for arrays in samples]
    order = order_of_inputs(arguments, arrange)
    parameters = plain.parameters()
    buffers = [as_array(buffer) for _, buffer in named_buffers(module)]
    of_module = ModuleParameters(parameters, buffers, _shared(module))

    def ends(program: Program, tensors: Sequence[Crossing]) -> dict[Crossing, Value]:
        return _fixed(program, tensors, truth, order, outputs, module, arguments)

    def file_side(cells: FoundCells, paired: PairedParameters, untrained: Mapping[str, int]) -> FileSide:
        return FileSide(
            name, paired.program, tuple(first), {}, aliases=cells.marked.aliases, paired=paired.paired,
            excused=cells.excused, untrained_rows=untrained, arrange=arrange, working_dtype=options.dtype,
            seed=options.seed, rounded=paired.rounded, computed=paired.computed,
        )  # fmt: skip

    def find(program: Program, likely: Mapping[Key, Value] | None = None) -> tuple[FoundCells, PairedParameters]:
        arrays = {name: info.data for name, info in parameters.items()}
        cells = find_cells(program, given, records, ends, arrays, likely or {})
        side_of = functools.partial(file_side, cells, untrained={})
        return cells, pair_all_parameters(cells.marked.program, of_module, side_of, truth)

    whole = flat.program
    cells, paired = find(whole)
    merged = None if keeps_merged else _without_merged_weights(whole, plain, _lacking(parameters, paired), paired)
    if merged is not None:
        whole = merged.program
        cells, paired = find(whole)
        paired = replace(paired, rounded=paired.rounded | merged.replaced)
    unplaced = {name for name in parameters if name.rpartition(".")[0] in cells.ownership.left_out}
    may_be_elsewhere = not keeps_merged and not cells.is_right and not cells.moved
    likely = _likely_places(whole, plain, unplaced, paired) if may_be_elsewhere else None
    if likely is not None:
        others, again = find(likely.program, likely.places)
        if len(others.ownership.left_out) < len(cells.ownership.left_out):
            whole, cells = likely.program, others
            paired = replace(again, rounded=again.rounded | (merged.replaced if merged is not None else set()))
    if paired.corrected:
        others, corrected = find(corrected_program(whole, cells.marked.program, paired))
        if (own := with_own_numbers(corrected, paired)) is not None:
            cells, paired = others, own
    found, marked = cells.ownership, cells.marked
    paths = {call.path for call in found.calls}
    cells = replace(cells, excused=cells.excused.with_gradients(constant_boundaries(paired.program)))
    untrained = _untrained_rows(module, paired.paired) if is_imported(program) else {}
    side = file_side(cells, paired, untrained)
    side_of_module = ModuleSide(
        reference, module, args, kwargs, **how, cell_paths=paths, kept=marked.kept, aliases=marked.aliases,
        paired=paired.paired, ignored=parameters.keys() - paired.paired, untrained_rows=untrained,
    )  # fmt: skip
    notes: list[str] = []
    if merged is not None:
        holders = list(dict.fromkeys(parameter.rpartition(".")[0] for parameter in merged.parameters))
        notes.append(
            f"weights of {name} have parameters of several Cells of {reference} merged, and were compared as these "
            f"parameters: {summarize_paths(holders)}"
        )
    idle = passed_on(found, truth, cells.tensors, marked.kept)
    if around := sorted(found.left_out.keys() - set(idle)):
        notes.append(
            f"judged in the Cells around them, because {name} doesn't compute them by themselves: "
            f"{summarize_paths(around)}"
        )
    if cells.excused.keys:
        after = list(dict.fromkeys(key.path for key in truth.values if key in cells.excused.keys))
        notes.append(f"not judged by themselves, after a tensor of another shape: {summarize_paths(after)}")
    passed_by = ({key.path for key in cells.bypassed} | cells.bypassed_paths) & paths
    if options.grads and passed_by:
        listed = summarize_paths([path or "(root)" for path in sorted(passed_by)])
        notes.append(f"gradients not judged by themselves, since values of {name} get past these Cells: {listed}")
    if options.grads and untrained:
        rows = list_names([f"{parameter}[{row}]" for parameter, row in untrained.items()])
        notes.append(f"gradients not compared, of rows that the module doesn't train, which a file can't say: {rows}")
    if options.grads and paired.copies:
        copies = [f"{parameter} ({', '.join(names)})" for parameter, names in paired.copies.items()]
        notes.append(f"tied in {reference} and not in {name}, whose gradients were added up: {list_names(copies)}")
    unpaired = [n for n, info in parameters.items() if info.trainable and n not in paired.paired]
    if options.grads and unpaired:
        notes.append(
            f"gradients not compared, of parameters that {name} doesn't hold as they are: {list_names(unpaired)}"
        )
    of_merged = merged_parameters(program, marked.program)
    pairs = cell_pairs(program, cells.flat, found, cells.places, of_merged)
    called = {call.path for call in truth.calls}
    uncalled = [one for one in named_modules(module) if one[0] not in called]
    weights = parameter_pairs(
        marked.program, paired.program, [n for n in parameters if n in paired.paired], of_merged, pairs
    )
    presence = {path: presence_without_calls(path, inner, used_parameters(truth)) for path, _, inner in uncalled}
    presence |= dict.fromkeys(found.left_out, UNPAIRED) | dict.fromkeys(idle, PASSED_ON)
    return Alignment(side_of_module, side, notes, pairs, weights, presence)


def _without_merged_weights(
    program: Program, module: TorchSide, lacking: Collection[str], paired: PairedParameters
) -> Merged | None:
    """Return the program without merged weights; None if it has none, or the module can't be captured."""
    captured = _captured(module) if lacking else None
    if captured is None:
        return None
    return without_merged_weights(program, without_boundaries(captured), lacking, paired.rounded, _known(paired))


def _likely_places(
    program: Program, module: TorchSide, unplaced: Collection[str], paired: PairedParameters
) -> LikelyPlaces | None:
    """Return where Cells with these parameters may be; None if nowhere, or the module can't be captured."""
    captured = _captured(module) if unplaced else None
    return None if captured is None else likely_places(program, captured, unplaced, paired.rounded, _known(paired))


def _captured(module: TorchSide) -> Program | None:
    try:
        return module.in_interpreter().program
    except CellbridgeError:
        return None


def _known(paired: PairedParameters) -> dict[str, str]:
    """Return by name of a parameter of the module the name of the file's value with its numbers."""
    return {name: paired.program.parameters[name].value.name for name in paired.paired}


def _lacking(parameters: Mapping[str, ParameterInfo], paired: PairedParameters) -> set[str]:
    """Return the names of the trained parameters of the module that the file doesn't have as they are."""
    return {name for name, info in parameters.items() if info.trainable and name not in paired.paired}


def _shared(module: torch.nn.Module) -> set[str]:
    """Return the names of the parameters that several modules use."""
    count = Counter(id(parameter) for _, parameter in named_parameters(module, remove_duplicate=False))
    return {name for name, parameter in named_parameters(module) if count[id(parameter)] > 1}


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
    crossing = {key: one for one in tensors for key in one.keys}
    slots = [slot for _, slot in sorted(input_slots(module, arguments[0], dict(arguments[1])))]
    places = {Key("", 0, INPUT, slots[place]): v for place, v in zip(order, program.inputs, strict=True)}
    results = truth.slots.get(("", 0, OUTPUT), [])
    places |= {
        Key("", 0, OUTPUT, results[place]): value
        for place, value in zip(outputs, program.outputs, strict=True)
        if place is not None and place < len(results)
    }
    return {crossing[key]: value for key, value in places.items() if key in crossing}
