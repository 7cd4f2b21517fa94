"""A port's tensors, made of the reference's by a map file: of a checkpoint, or of two networks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import did_you_mean, fill_pattern
from .arrangements import Array
from .assembly import Assembly
from .map_file import WeightMap
from .transfer import Link


@dataclass(frozen=True)
class Ported:
    """A port's tensors.

    Attributes:
        arrays: the tensors by name.
        made_of: names of the reference's tensors that each is made of.
        dropped: names of the reference's tensors that a line drops.
        unused: names of the others that none is made of.
    """

    arrays: dict[str, Array]
    made_of: dict[str, tuple[str, ...]]
    dropped: list[str]
    unused: list[str]


def port_arrays(
    weight_map: WeightMap, arrays: Mapping[str, Array], port_names: Collection[str] | None = None
) -> Ported:
    """Return a port's tensors, those for which the map has a line, or that have one name on both sides.

    Args:
        weight_map: the map.
        arrays: the reference's tensors by name.
        port_names: names of the port's tensors, if they are known: others aren't returned, and a line for another name
            is an error.

    Raises:
        UsageError: a line names nothing, doesn't fit the shapes, or makes a tensor that another line makes, too.
    """
    result: dict[str, Array] = {}
    made_of: dict[str, tuple[str, ...]] = {}
    line_of: dict[str, str] = {}

    def add(name: str, array: Array, line: str, sources: tuple[str, ...]) -> None:
        if name in result:
            raise UsageError(f"{weight_map.where}: both {line_of[name]!r} and {line!r} make {name}: keep one of them")
        result[name], line_of[name], made_of[name] = array, line, sources

    applied: set[str] = set()
    dropped: set[str] = set()
    for name, array in arrays.items():
        match = weight_map.find_for_torch(name)
        if match is None:
            continue
        entry, texts = match
        applied.add(entry.torch)
        if not entry.cells:
            dropped.add(name)
            continue
        cells = tuple(fill_pattern(pattern, texts, entry.torch) for pattern in entry.cells)
        try:
            made = Link(name, cells, entry.layout, "map").to_cells({name: array})
        except UsageError as error:
            raise UsageError(f"{weight_map.where}: {entry.torch!r}: {error}") from error
        for port_name, part in made.items():
            add(port_name, part, entry.torch, (name,))
    if unused := [entry.torch for entry in weight_map.entries if entry.cells and entry.torch not in applied]:
        raise UsageError(
            f"{weight_map.where}: {unused[0]!r}: the reference has no such tensor{did_you_mean(unused[0], arrays)}"
        )
    assemblies = weight_map.assemblies_for(port_names, arrays)
    for name, assembly in assemblies.items():
        if unknown := [source for source in assembly.names if source not in arrays]:
            raise UsageError(
                f"{weight_map.where}: {name!r}: the reference has no {unknown[0]}{did_you_mean(unknown[0], arrays)}"
            )
        add(name, _assembled(weight_map, name, assembly, arrays), name, assembly.names)
    assembled = {source for assembly in assemblies.values() for source in assembly.names}
    for name, array in arrays.items():
        port_name = weight_map.replace_prefix(name)
        is_open = weight_map.find_for_torch(name) is None and name not in assembled and name not in dropped
        if is_open and port_name not in result and (port_names is None or port_name in port_names):
            add(port_name, array, name, (name,))
    if port_names is not None and (unknown := [name for name in result if name not in port_names]):
        raise UsageError(
            f"{weight_map.where}: {line_of[unknown[0]]!r}: the candidate has no {unknown[0]}"
            f"{did_you_mean(unknown[0], port_names)}"
        )
    sources = {source for names in made_of.values() for source in names}
    idle = [name for name in arrays if name not in sources]
    return Ported(
        result,
        made_of,
        [name for name in idle if name in dropped],
        [name for name in idle if name not in dropped],
    )


def _assembled(weight_map: WeightMap, name: str, assembly: Assembly, arrays: Mapping[str, Array]) -> Array:
    try:
        return assembly.assemble(arrays)
    except UsageError as error:
        raise UsageError(f"{weight_map.where}: {name!r}: {error}") from error
