"""A port's tensors, made of the reference's by a map file: of a checkpoint, or of two networks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import did_you_mean, fill_pattern
from .arrangements import Array, Arrays
from .assembly import Assembly
from .map_file import WeightMap
from .naming import Shapes
from .transfer import Link


@dataclass(frozen=True)
class PortPlan:
    """What a port's tensors are made of.

    Attributes:
        where: name of the map in messages.
        assemblies: how each is made, by its name.
        lines: the left side of the line that says so, by name; a name itself where none does.
        dropped: names of the reference's tensors that a line drops.
        unused: names of the others that none is made of.
    """

    where: str
    assemblies: Mapping[str, Assembly]
    lines: Mapping[str, str]
    dropped: tuple[str, ...]
    unused: tuple[str, ...]

    def make(self, name: str, arrays: Arrays) -> Array:
        """Return a tensor of the port, made of the reference's; raise `UsageError` if its line doesn't fit them."""
        try:
            return self.assemblies[name].assemble(arrays)
        except UsageError as error:
            raise UsageError(f"{self.where}: {self.lines[name]!r}: {error}") from error


def plan_port(weight_map: WeightMap, shapes: Shapes, port_names: Collection[str] | None = None) -> PortPlan:
    """Return what a port's tensors are made of: those with a line, and those that have one name on both sides.

    Args:
        weight_map: the map.
        shapes: the shapes of the reference's tensors by name.
        port_names: names of the port's tensors, if they are known: others aren't made, and a line for another name is
            an error.

    Raises:
        UsageError: a line names nothing, doesn't fit the shapes, or makes a tensor that another line makes, too.
    """
    result: dict[str, Assembly] = {}
    line_of: dict[str, str] = {}

    def add(name: str, assembly: Assembly, line: str) -> None:
        if name in result:
            raise UsageError(f"{weight_map.where}: both {line_of[name]!r} and {line!r} make {name}: keep one of them")
        result[name], line_of[name] = assembly, line

    applied: set[str] = set()
    dropped: set[str] = set()
    for name, shape in shapes.items():
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
            made = Link(name, cells, entry.layout, "map").assemblies(shape)
        except UsageError as error:
            raise UsageError(f"{weight_map.where}: {entry.torch!r}: {error}") from error
        for port_name, assembly in made.items():
            add(port_name, assembly, entry.torch)
    if unused := [entry.torch for entry in weight_map.entries if entry.cells and entry.torch not in applied]:
        raise UsageError(
            f"{weight_map.where}: {unused[0]!r}: the reference has no such tensor{did_you_mean(unused[0], shapes)}"
        )
    assemblies = weight_map.assemblies_for(port_names, shapes)
    for name, assembly in assemblies.items():
        if unknown := [source for source in assembly.names if source not in shapes]:
            raise UsageError(
                f"{weight_map.where}: {name!r}: the reference has no {unknown[0]}{did_you_mean(unknown[0], shapes)}"
            )
        add(name, assembly, name)
    assembled = {source for assembly in assemblies.values() for source in assembly.names}
    for name in shapes:
        port_name = weight_map.replace_prefix(name)
        is_open = weight_map.find_for_torch(name) is None and name not in assembled and name not in dropped
        if is_open and port_name not in result and (port_names is None or port_name in port_names):
            add(port_name, Assembly((name,)), name)
    if port_names is not None and (unknown := [name for name in result if name not in port_names]):
        raise UsageError(
            f"{weight_map.where}: {line_of[unknown[0]]!r}: the candidate has no {unknown[0]}"
            f"{did_you_mean(unknown[0], port_names)}"
        )
    sources = {source for assembly in result.values() for source in assembly.names}
    idle = [name for name in shapes if name not in sources]
    return PortPlan(
        weight_map.where,
        result,
        line_of,
        tuple(name for name in idle if name in dropped),
        tuple(name for name in idle if name not in dropped),
    )
