"""The correspondence of parameters in two checkpoints: by the user's map, by the record, by the names."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ..correspondence.name_patterns import fill_pattern, match_pattern
from .arrangements import Array
from .assembly import Assembly, Grid
from .layouts import UNCHANGED, CheckpointLayout
from .map_file import WeightMap
from .naming import OF_CELLS, Answer, Drop, Habits, Question, Renaming, Shapes
from .questions import is_module, require_answers

BY_MAP = "by the map"
"""Why a parameter is dropped for which a line of the map says so."""


@dataclass(frozen=True)
class Link:
    """A parameter of torch and its counterpart in Cells.

    Attributes:
        torch: its name.
        cells: its name in Cells; several for equal parts along the first axis.
        layout: its layout in Cells, before it is split.
        how: "name", "map" or "record".
    """

    torch: str
    cells: tuple[str, ...]
    layout: CheckpointLayout
    how: str

    def assemblies(self, shape: tuple[int, ...]) -> dict[str, Assembly]:
        """Return what the Cells' arrays are made of, for torch's of a shape; raise `UsageError` if that doesn't fit."""
        if len(self.cells) == 1 and self.layout == UNCHANGED:
            return {self.cells[0]: Assembly((self.torch,))}
        order = self.layout.order(self.torch, len(shape))
        cells_shape = self.layout.shape_in_cells(self.torch, shape)
        if len(self.cells) > 1 and (not shape or cells_shape[0] % len(self.cells)):
            raise UsageError(
                f"{self.torch}: {list(cells_shape)} can't be split into {len(self.cells)} equal parts along axis 0"
            )
        if not shape:
            return {self.cells[0]: Assembly((self.torch,), cells_shape)}
        if len(self.cells) == 1:
            return {self.cells[0]: Assembly((self.torch,), cells_shape, order)}
        part_shape = (cells_shape[0] // len(self.cells), *cells_shape[1:])
        count = math.prod(part_shape)  # rows of one element
        return {
            cell: Assembly((self.torch,), part_shape, order, (Grid(number * count, (count,), (1,)),))
            for number, cell in enumerate(self.cells)
        }

    def to_cells(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the Cells' arrays, from torch's."""
        assemblies = self.assemblies(arrays[self.torch].shape)
        return {cell: assembly.assemble(arrays) for cell, assembly in assemblies.items()}

    def to_torch(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return torch's array, from the Cells'."""
        parts = [arrays[name] for name in self.cells]
        if len({(part.shape, part.dtype) for part in parts}) > 1 or (len(parts) > 1 and parts[0].ndim == 0):
            shapes = ", ".join(f"{name} {list(arrays[name].shape)}" for name in self.cells)
            raise UsageError(f"{self.torch}: its parts differ in shape or dtype: {shapes}")
        whole = np.concatenate(parts) if len(parts) > 1 else parts[0]
        return {self.torch: self.layout.to_torch(" and ".join(self.cells), whole)}

    def to_map_value(self) -> dict[str, Any]:
        """Return its value in a map file."""
        return {"to": list(self.cells), **self.layout.as_dict()}


@dataclass(frozen=True)
class Plan:
    """All links, in the order of the source, and the dropped parameters."""

    links: tuple[Link, ...]
    drops: tuple[Drop, ...]


def plan_to_cells(shapes: Shapes, weight_map: WeightMap, habits: Habits = OF_CELLS) -> Plan:
    """Plan the conversion from torch to Cells.

    Args:
        shapes: shapes of torch's parameters and buffers, by name.
        weight_map: the user's map.
        habits: those of the other framework, by default of Cells.

    Raises:
        UsageError: some counterparts aren't known (all are listed), two parameters get one name, or a line of the map
            matches nothing.
    """
    weight_map.require_used(shapes, back=False)
    links: dict[str, Link] = {}
    drops: dict[str, Drop] = {}
    for name in shapes:
        if (match := weight_map.find_for_torch(name)) is not None:
            entry, texts = match
            if entry.cells:
                cells = tuple(fill_pattern(pattern, texts, entry.torch) for pattern in entry.cells)
                links[name] = Link(name, cells, entry.layout, "map")
            else:
                drops[name] = Drop(name, BY_MAP)
    remaining = _RemainingAnswers.of(habits.to_other(shapes), links.keys() | drops.keys(), weight_map.prefixes)
    require_answers(remaining.questions, shapes, weight_map, habits.name, back=False)
    for renaming in remaining.renamings:
        other = weight_map.replace_prefix(renaming.other)
        links[renaming.name] = Link(renaming.name, (habits.at_root.get(other, other),), renaming.layout, "name")
    in_order = tuple(links[name] for name in shapes if name in links)
    _require_distinct((name, link.torch) for link in in_order for name in link.cells)
    return Plan(in_order, (*drops.values(), *remaining.drops))


def plan_to_torch(shapes: Shapes, weight_map: WeightMap, record: WeightMap, habits: Habits = OF_CELLS) -> Plan:
    """Plan the conversion from Cells to torch.

    Args:
        shapes: shapes of the Cells' Parameters, by name.
        weight_map: the user's map.
        record: the record of the conversion from torch, if there was one.
        habits: those of the other framework, by default of Cells.

    Raises:
        UsageError: as for `plan_to_cells`.
    """
    weight_map.require_used(shapes, back=True)
    links: dict[str, Link] = {}  # by each name of the Cells
    drops: dict[str, Drop] = {}
    for name in shapes:
        for source, how in ((weight_map, "map"), (record, "record")):
            match = source.find_for_cells(name)
            if match is None:
                continue
            entry, texts = match
            if entry.cells:
                cells = tuple(fill_pattern(pattern, texts, entry.torch) for pattern in entry.cells)
                torch = fill_pattern(entry.torch, texts, entry.torch)
                if missing := [cell for cell in cells if cell not in shapes]:
                    raise UsageError(f"{torch} consists of {', '.join(cells)}; there is no {', '.join(missing)}")
                links[name] = Link(torch, cells, entry.layout, how)
            else:
                drops[name] = Drop(name, BY_MAP)
            break
    resolved = links.keys() | drops.keys()
    remaining = _RemainingAnswers.of(habits.to_torch(shapes), resolved, weight_map.prefixes.values())
    require_answers(remaining.questions, shapes, weight_map, habits.name, back=True)
    for renaming in remaining.renamings:
        other = weight_map.replace_prefix(renaming.other, back=True)
        links[renaming.name] = Link(other, (renaming.name,), renaming.layout, "name")
    distinct = tuple(dict.fromkeys(links[name] for name in shapes if name in links))
    _require_distinct((link.torch, " and ".join(link.cells)) for link in distinct)
    return Plan(distinct, (*drops.values(), *remaining.drops))


@dataclass(frozen=True)
class _RemainingAnswers:
    """The answers of `naming` for parameters that neither map nor record resolves."""

    renamings: list[Renaming]
    drops: list[Drop]
    questions: list[Question]

    @classmethod
    def of(cls, answers: Iterable[Answer], resolved: Collection[str], prefixes: Iterable[str]) -> _RemainingAnswers:
        """Return the answers for unresolved names; a prefix in the map answers the question about a module."""
        open_ = [answer for answer in answers if answer.name not in resolved]
        renamings = [answer for answer in open_ if isinstance(answer, Renaming)]
        modules = {answer.name.rpartition(".")[0] for answer in renamings}
        used_prefixes = [prefix for prefix in prefixes if prefix]
        questions = [
            answer
            for answer in open_
            if isinstance(answer, Question)
            and not (
                is_module(answer)
                and (
                    answer.name.rstrip(".") not in modules
                    or any(match_pattern(p, answer.name) is not None for p in used_prefixes)
                )
            )
        ]
        return cls(renamings, [answer for answer in open_ if isinstance(answer, Drop)], questions)


def _require_distinct(targets: Iterable[tuple[str, str]]) -> None:
    """Raise `UsageError` if two sources get the same name."""
    source_of: dict[str, str] = {}
    for target, source in targets:
        if target in source_of:
            raise UsageError(
                f"both {source_of[target]} and {source} would be named {target}: rename or drop one of them with --map"
            )
        source_of[target] = source
