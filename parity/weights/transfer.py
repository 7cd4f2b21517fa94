"""Which parameter of one checkpoint becomes which of the other: by the map given, by what is recorded, by the names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from . import naming
from .arrangements import Array
from .layouts import Layout
from .map_file import WeightMap
from .naming import AT_ROOT, Answer, Dropped, Named, Question, Shapes
from .questions import ask, is_module
from .rules import filled, matched


@dataclass(frozen=True)
class Link:
    """A parameter of torch and what it is in Cells.

    Attributes:
        torch: its name.
        cells: the name there; several for equal parts along the first axis.
        layout: how it lies there, before it is divided.
        how: "name", "map" or "record".
    """

    torch: str
    cells: tuple[str, ...]
    layout: Layout
    how: str

    def to_cells(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The Cells' arrays, of torch's."""
        array = self.layout.there(self.torch, arrays[self.torch])
        if len(self.cells) == 1:
            return {self.cells[0]: array}
        if array.ndim == 0 or array.shape[0] % len(self.cells):
            raise UsageError(f"{self.torch}: {list(array.shape)} has no {len(self.cells)} equal parts along axis 0")
        return dict(zip(self.cells, np.split(array, len(self.cells)), strict=True))

    def to_torch(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Torch's array, of the Cells'."""
        parts = [arrays[name] for name in self.cells]
        if len({(part.shape, part.dtype) for part in parts}) > 1 or (len(parts) > 1 and parts[0].ndim == 0):
            shapes = ", ".join(f"{name} {list(arrays[name].shape)}" for name in self.cells)
            raise UsageError(f"{self.torch}: its parts are not of one shape and dtype: {shapes}")
        whole = np.concatenate(parts) if len(parts) > 1 else parts[0]
        return {self.torch: self.layout.back(" and ".join(self.cells), whole)}

    def as_form(self) -> dict[str, Any]:
        """As in a map file."""
        return {"to": list(self.cells), **self.layout.as_dict()}


@dataclass(frozen=True)
class Plan:
    """All links, in the order of the source, and what is left behind."""

    links: tuple[Link, ...]
    dropped: tuple[Dropped, ...]


def to_cells(shapes: Shapes, given: WeightMap) -> Plan:
    """From torch to Cells.

    Args:
        shapes: of torch's parameters and buffers, by name.
        given: what the user says.

    Raises:
        UsageError: something isn't known, all of which is listed; two become one; or the map speaks of nothing there.
    """
    given.require_used(shapes, back=False)
    links: dict[str, Link] = {}
    dropped: dict[str, Dropped] = {}
    for name in shapes:
        if (found := given.of_torch(name)) is not None:
            entry, texts = found
            if entry.cells:
                cells = tuple(filled(pattern, texts, entry.torch) for pattern in entry.cells)
                links[name] = Link(name, cells, entry.layout, "map")
            else:
                dropped[name] = Dropped(name, "by the map")
    rest = _Rest.of(naming.to_cells(shapes), links.keys() | dropped.keys(), given.prefixes)
    ask(rest.questions, shapes, given, back=False)
    for named in rest.named:
        other = given.prefixed(named.other)
        links[named.name] = Link(named.name, (AT_ROOT.get(other, other),), named.layout, "name")
    ordered = tuple(links[name] for name in shapes if name in links)
    _require_distinct((name, link.torch) for link in ordered for name in link.cells)
    return Plan(ordered, (*dropped.values(), *rest.dropped))


def to_torch(shapes: Shapes, given: WeightMap, record: WeightMap) -> Plan:
    """From Cells to torch.

    Args:
        shapes: of the Cells' Parameters, by name.
        given: what the user says.
        record: what was done on the way from torch, if this is such a checkpoint.

    Raises:
        UsageError: as for `to_cells`.
    """
    given.require_used(shapes, back=True)
    links: dict[str, Link] = {}  # by each name of the Cells
    dropped: dict[str, Dropped] = {}
    for name in shapes:
        for source, how in ((given, "map"), (record, "record")):
            found = source.of_cells(name)
            if found is None:
                continue
            entry, texts = found
            if entry.cells:
                cells = tuple(filled(pattern, texts, entry.torch) for pattern in entry.cells)
                torch = filled(entry.torch, texts, entry.torch)
                if missing := [cell for cell in cells if cell not in shapes]:
                    raise UsageError(f"{torch} consists of {', '.join(cells)}; there is no {', '.join(missing)}")
                links[name] = Link(torch, cells, entry.layout, how)
            else:
                dropped[name] = Dropped(name, "by the map")
            break
    settled = links.keys() | dropped.keys()
    rest = _Rest.of(naming.to_torch(shapes), settled, given.prefixes.values())
    ask(rest.questions, shapes, given, back=True)
    for named in rest.named:
        other = given.prefixed(named.other, back=True)
        links[named.name] = Link(other, (named.name,), named.layout, "name")
    distinct = tuple(dict.fromkeys(links[name] for name in shapes if name in links))
    _require_distinct((link.torch, " and ".join(link.cells)) for link in distinct)
    return Plan(distinct, (*dropped.values(), *rest.dropped))


@dataclass(frozen=True)
class _Rest:
    """What the names say of parameters that nothing else speaks of."""

    named: list[Named]
    dropped: list[Dropped]
    questions: list[Question]

    @classmethod
    def of(cls, answers: Iterable[Answer], settled: Collection[str], prefixes: Iterable[str]) -> _Rest:
        """The answers, but for what is settled; a module that is in question may be so by a prefix."""
        open_ = [answer for answer in answers if answer.name not in settled]
        named = [answer for answer in open_ if isinstance(answer, Named)]
        left = {answer.name.rpartition(".")[0] for answer in named}
        known = [prefix for prefix in prefixes if prefix]
        questions = [
            answer
            for answer in open_
            if isinstance(answer, Question)
            and not (
                is_module(answer)
                and (answer.name.rstrip(".") not in left or any(matched(p, answer.name) is not None for p in known))
            )
        ]
        return cls(named, [answer for answer in open_ if isinstance(answer, Dropped)], questions)


def _require_distinct(targets: Iterable[tuple[str, str]]) -> None:
    """Raise `UsageError` if two sources get one name."""
    seen: dict[str, str] = {}
    for target, source in targets:
        if target in seen:
            raise UsageError(
                f"both {seen[target]} and {source} would be named {target}: give one another name, or drop it, by --map"
            )
        seen[target] = source
