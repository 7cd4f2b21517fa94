"""The reference's weights in a candidate: found by structure or read from a map, and brought in for a comparison."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import torch

from ....converter.structure.program_names import named_parameters
from ....runtime.errors import CellbridgeError, UsageError
from ....runtime.ir.program import Program
from ....runtime.programs.call import as_array
from ....runtime.tree import match_call
from ...report.globs import list_names
from ...sides.records import Array
from ...weights.assembly import Assembly
from ...weights.computed import Computed
from ...weights.map_file import read_map
from ...weights.map_text import map_text
from ...weights.port_map import plan_port
from ..by_values.crossings import other_sample
from ..by_values.flat import without_boundaries
from ..by_values.written_scans import with_scans_written_out
from .describing import describe
from .gathered_data import gathers_products, with_columns_as_matrices, with_products_before_gathers
from .joined_constants import with_constants_apart
from .joined_data import with_products_apart
from .joined_layers import with_layers_apart
from .joined_norms import with_norms_apart
from .joined_stacks import with_stacks_apart
from .network import Network, statistics
from .ports import ModulePort, Port, names_of_tied, tensors_of
from .recurrences import layers_in, with_steps
from .reference import Reference
from .state import Result
from .symmetry import Exchange, exchanges
from .units import Unit
from .walk import Walk
from .written_transposed import transposed_in, with_zeros_between
from .zero_rows import BY_PLACE, with_zero_rows

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


@dataclass(frozen=True)
class Loading:
    """Weights that a candidate is given for a comparison.

    Attributes:
        arrays: the tensors by name.
        notes: how they were found, and what wasn't.
        assemblies: what they are made of, by name; empty if a map says it.
        comments: remarks for the map, by name of a tensor.
        remarks: remarks for the map that belong to no tensor.
        dropped: names of the reference's tensors that the candidate doesn't have.
        reference: all names of the reference's tensors.
        candidate: all names of the candidate's.
    """

    arrays: Mapping[str, Array]
    notes: list[str]
    assemblies: Mapping[str, Assembly] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    reference: Collection[str] = ()
    candidate: Collection[str] = ()

    def text(self) -> str:
        """Return the text of a map file."""
        return map_text(self.assemblies, self.comments, self.remarks, self.dropped, self.reference, self.candidate)


def load_by_structure(
    reference: torch.nn.Module, candidate: Port, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Loading:
    """Find which of the reference's weights belong where in a candidate, whatever weights that has.

    Args:
        reference: the module that has weights.
        candidate: its port; it isn't changed.
        args: positional arguments of both.
        kwargs: keyword arguments.

    Raises:
        UsageError: a network can't be captured, or has sizes that depend on numbers.
    """
    second_sample = other_sample(args, kwargs)
    samples: list[Arguments] = [(args, kwargs), *([second_sample] if second_sample is not None else [])]
    networks = _networks(ModulePort(reference), candidate, samples)
    try:
        of_reference = _reference(networks)
        walk = Walk(of_reference, networks[1])
        result = walk.run()
        zero_rows = with_zero_rows(of_reference, networks[1], result.numbers)
        result = replace(result, numbers={**result.numbers, **zero_rows})
    except CellbridgeError as error:
        raise _refusal("a network can't be followed", error) from error
    described = {name: describe(numbers, of_reference.sources) for name, numbers in result.numbers.items()}
    of_program = {name: assembly for name, assembly in described.items() if assembly is not None}
    assemblies = _with_aliases(reference, candidate, of_program)
    tensors = tensors_of(reference)
    stored = {name: as_array(tensor) for name, tensor in tensors.items()}
    arrays = {name: assembly.assemble(stored) for name, assembly in assemblies.items()}
    equal = exchanges(walk, result)
    of_zeros = [name for name in assemblies if name in zero_rows]
    left = [name for name in candidate.parameters if name not in assemblies]
    return Loading(
        arrays,
        [
            *_notes(reference, candidate, assemblies, result, equal, left),
            *([f"{BY_PLACE}: {list_names(of_zeros)}"] if of_zeros else []),
            *(_of_norms(networks) if left else []),
        ],
        assemblies,
        {**dict.fromkeys(of_zeros, BY_PLACE), **{exchange.names[0]: exchange.sentence for exchange in equal}},
        [f"not loaded: {name}" for name in left],
        [name for name in reference.state_dict() if not any(name in a.names for a in assemblies.values())],
        tensors.keys(),
        candidate.shapes,
    )


def _reference(networks: list[Network]) -> Reference:
    """Return the reference; where a table has no row for an index of the second sample, only the first is left."""
    try:
        return Reference(networks[0])
    except CellbridgeError:
        if len(networks[0].samples) == 1:
            raise
        for network in networks:
            del network.samples[1:]
        return Reference(networks[0])


def _with_aliases(
    reference: torch.nn.Module, candidate: Port, assemblies: Mapping[str, Assembly]
) -> dict[str, Assembly]:
    """Return assemblies for all names of tied parameters, made of those of the reference where it has several."""
    of_reference = names_of_tied(reference)
    result: dict[str, Assembly] = {}
    for name, assembly in assemblies.items():
        (source, *more) = assembly.names
        others = iter(
            () if more else [second_sample for second_sample in of_reference.get(source, ()) if second_sample != source]
        )
        result[name] = assembly
        for alias in candidate.tied.get(name, ()):
            if alias != name:
                second_sample = next(others, source)
                result[alias] = (
                    replace(assembly, sources=(second_sample,)) if assembly.sources == (source,) else assembly
                )
    return result


def load_by_map(reference: torch.nn.Module, candidate: Port, path: str | PathLike[str]) -> Loading:
    """Read which of the reference's weights belong where in a candidate.

    Args:
        reference: the module that has weights.
        candidate: its port; it isn't changed.
        path: a map file; see `weights.map_file`.

    Raises:
        UsageError: the file can't be read, a line names nothing or doesn't fit the shapes, or nothing is loaded.
    """
    weight_map = read_map(str(path))
    stored = {name: as_array(tensor) for name, tensor in tensors_of(reference).items()}
    plan = plan_port(weight_map, {name: array.shape for name, array in stored.items()}, candidate.shapes)
    arrays = {name: plan.make(name, stored) for name in plan.assemblies}
    if not arrays:
        raise UsageError(
            f"{path}: no line makes a tensor of the candidate, and no tensor has one name in both networks\n"
            "  what to do: --load-weights --write-map FILE (load_weights=True, write_map=) finds a map"
        )
    for name, array in arrays.items():
        if array.shape != candidate.shapes[name]:
            raise UsageError(
                f"{path}: {name!r}: the candidate's has shape {list(candidate.shapes[name])}, and the line makes "
                f"{list(array.shape)}\n"
                "  what to do: say in the line how it is made (`from_axes`, `rows`, `axes`, `shape`; docs/weights.md)"
            )
    parameters = candidate.parameters
    left = [name for name in parameters if name not in arrays]
    notes = [f"{len(parameters) - len(left)} of {len(parameters)} parameters were loaded by {path}"]
    if left:
        notes.append(f"not loaded, since the map doesn't name them: {list_names(left)}")
    return Loading(arrays, notes)


def _networks(reference: Port, candidate: Port, samples: list[Arguments]) -> list[Network]:
    """Return both networks; what one computes step by step, or in parts, isn't a whole in the other."""
    programs = [_captured("reference", reference, samples[0]), _captured("candidate", candidate, samples[0])]
    if layers_in(programs[0]) != layers_in(programs[1]):
        programs = [with_steps(program) for program in programs]
    if transposed_in(programs[0]) != transposed_in(programs[1]):
        programs = [with_zeros_between(program) for program in programs]
    if any(gathers_products(program) for program in programs):
        programs = [with_columns_as_matrices(program) for program in programs]
    for with_parts in (
        with_norms_apart,
        with_constants_apart,
        with_products_apart,
        with_stacks_apart,
        with_products_before_gathers,
    ):
        programs = [with_parts(*programs), with_parts(*reversed(programs))]
    return [_network(name, p, samples) for name, p in zip(("reference", "candidate"), programs, strict=True)]


def _captured(name: str, network: Port, sample: Arguments) -> Program:
    args, kwargs = sample
    try:
        program = network.capture(args, kwargs)
        if program.symbol_readings:
            raise UsageError("sizes of its tensors depend on numbers that it computes")
    except CellbridgeError as error:
        raise _refusal(f"the {name} can't be followed", error) from error
    return with_layers_apart(with_scans_written_out(without_boundaries(program), divide=False))


def _network(name: str, program: Program, samples: list[Arguments]) -> Network:
    try:
        return Network(
            program, [[as_array(tensor) for tensor in match_call(program.arguments, *sample)] for sample in samples]
        )
    except CellbridgeError as error:
        raise _refusal(f"the {name} can't be followed", error) from error


def _refusal(reason: str, error: CellbridgeError) -> UsageError:
    said, _, advice = str(error).partition("\n  what to do: ")
    return UsageError(
        f"weights can't be loaded by structure, since {reason}: {said}\n"
        "  what to do: write a map file (docs/howto/port.md), and give it as --map"
        + (f"\n  or: {advice}" if advice else "")
    )


def _notes(
    reference: torch.nn.Module,
    candidate: Port,
    assemblies: Mapping[str, Assembly],
    result: Result,
    equal: list[Exchange],
    left: list[str],
) -> list[str]:
    """Return what a report says of the weights."""
    count = len(candidate.parameters)
    tried = "1 other arrangement was" if result.tried == 1 else f"{result.tried} other arrangements were"
    notes = [f"{count - len(left)} of {count} parameters were loaded by structure; {tried} tried"]
    if left:
        notes.append(f"not loaded, since nothing in the reference takes their place: {list_names(left)}")
    absent = [name for name, assembly in assemblies.items() if all(map(_is_zero, assembly.sources))]
    if absent:
        notes.append(f"zero, since the reference adds nothing there: {list_names(absent)}")
    used = {name for assembly in assemblies.values() for name in assembly.names}
    idle = [name for name, _ in named_parameters(reference) if name not in used]
    if idle:
        notes.append(f"parameters of the reference that nothing was loaded from: {list_names(idle)}")
    if result.differences:
        places = list(dict.fromkeys(map(_place, result.differences)))
        notes.append(f"whatever is loaded before, no value of the reference enters {list_names(places)}")
    notes += [exchange.sentence for exchange in equal]
    return notes


def _of_norms(networks: list[Network]) -> list[str]:
    """Return what a report says if the candidate's norms have statistics, and the reference has none for them."""
    of_reference, of_candidate = (statistics(network.program) for network in networks)
    if of_reference or not of_candidate:
        return []
    return [
        f"the reference has no statistics of norms, as if they were folded into its weights, and the candidate has "
        f"{list_names(list(of_candidate))}: load weights from before they were folded, or fold the candidate's norms "
        "(torch.nn.utils.fuse_conv_bn_eval)"
    ]


def _is_zero(source: str | Computed) -> bool:
    return isinstance(source, Computed) and source.form == "zeros"


def _place(unit: Unit) -> str:
    source = unit.node.source
    where = f" ({source.file}:{source.line})" if source is not None and source.file else ""
    return f"{unit.node.op} of {unit.path or '(root)'}{where}"
