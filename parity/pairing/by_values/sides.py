"""A module and the program of a file as sides with the same boundaries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...sides.interpreter_side import InterpreterSide
from ...sides.records import Key, Records, gradient_key, value_key
from ...sides.run import Run
from ...sides.side import Capabilities, ParameterInfo
from ...sides.torch_side import TorchSide
from .divided_products import PART
from .odd_shapes import Excused


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ModuleSide(TorchSide):
    """A module, of which only the boundaries, and the parameters, are recorded that a file has too.

    Attributes:
        kept: the boundaries.
        aliases: for a tensor that a Cell is given several times, its first boundary, at which the file has the sum of
            the gradients.
        paired: names of the parameters.
        untrained_rows: as in `FileSide`.
    """

    kept: Collection[Key]
    aliases: Mapping[Key, Key]
    paired: Collection[str]
    untrained_rows: Mapping[str, int]
    _slots: dict[tuple[str, int, str], list[str]] = field(default_factory=dict, init=False)
    """All slots of the module, since its first run."""

    @property
    def shares(self) -> Mapping[torch.nn.Module, Mapping[str, str]]:
        """None: a file doesn't tell which Cell uses a parameter."""
        return {}

    def parameters(self) -> dict[str, ParameterInfo]:
        """The parameters that the file has too."""
        return {name: info for name, info in super().parameters().items() if name in self.paired}

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        # torch's own slots are those of all boundaries
        torch_slots = run.reference.slots
        if torch_slots:
            settled = replace(run.reference, slots=self._slots | _root_only(torch_slots))
            records = super().run(replace(run, reference=settled))
        else:
            records = super().run(run)
            self._slots.clear()
            self._slots.update({place: list(slots) for place, slots in records.slots.items()})
        for alias, first in self.aliases.items():
            gradient = records.values.pop(gradient_key(alias), None)
            key = gradient_key(first)
            if gradient is not None:
                records.values[key] = records.values[key] + gradient if key in records.values else gradient
                records.boundaries.untracked.discard(first)
        records.values = {key: array for key, array in records.values.items() if self.keeps(key)}
        records.slots = {
            (path, call, kind): [slot for slot in slots if self.keeps(Key(path, call, kind, slot))]
            for (path, call, kind), slots in records.slots.items()
        }
        _clear_rows(records, self.untrained_rows)
        return records

    def keeps(self, key: Key) -> bool:
        """Whether the file has a boundary, or the boundary is the network's own."""
        return not key.path or value_key(key) in self.kept


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FileSide(InterpreterSide):
    """The program of a file with the boundaries of a module.

    Attributes:
        aliases: as in `ModuleSide`.
        paired: as in `ModuleSide`.
        excused: what isn't judged Cell by Cell.
        untrained_rows: by name of a table, the row of padding, which lookups don't train; a file can't say so.
        reference_in_a_file: returns the module as a side read from an ONNX file, too, or raises `CellbridgeError`; None
            if it isn't known.
    """

    aliases: Mapping[Key, Key]
    paired: Collection[str]
    excused: Excused
    untrained_rows: Mapping[str, int]
    reference_in_a_file: Callable[[], InterpreterSide] | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Those of a program whose Cells were found by the values at their boundaries."""
        return replace(super().capabilities, cells="found")

    def is_computed(self, name: str) -> bool:
        """Whether a parameter of the file, or a part of it, has numbers that the module has nowhere."""
        return any(value == name or value.startswith(f"{name}{PART}") for value in self.rounded)

    def parameters(self) -> dict[str, ParameterInfo]:
        """The parameters that the module has too."""
        return {name: info for name, info in super().parameters().items() if name in self.paired}

    def run(self, run: Run) -> Records:
        """Run once; see `Run`."""
        records = super().run(run)
        for alias, first in self.aliases.items():
            if first in records.values:
                records.add(alias, records.values[first])
                records.boundaries.sources[alias] = records.boundaries.sources.get(first, "")
        gradients = records.gradients.parameters.items()
        records.gradients.parameters = {name: gradient for name, gradient in gradients if name in self.paired}
        _clear_rows(records, self.untrained_rows)
        if run.feed is not None and self.excused.gradients:
            self._excuse(records, run.feed)
        return records

    def _excuse(self, records: Records, feed: Records) -> None:
        """Replace what isn't judged by the reference's."""
        for key, array in feed.values.items():
            value = value_key(key)
            if value in (self.excused.keys if value == key else self.excused.gradients):
                records.boundaries.excused.add(key)
                records.values[key] = array.astype(records.values[key].dtype) if key in records.values else array
        for name in records.gradients.parameters:
            if self._cell_of(name) in self.excused.paths:
                records.boundaries.excused.add(("parameter", name))
                records.gradients.parameters[name] = feed.gradients.parameters.get(name)

    def _cell_of(self, name: str) -> str:
        """Return the path of the Cell in which a parameter is judged: its own, or the nearest around it."""
        paths = {call.path for call in self.program.calls}
        path = name.rpartition(".")[0]
        while path and path not in paths:
            path = path.rpartition(".")[0]
        return path


def _clear_rows(records: Records, rows: Mapping[str, int]) -> None:
    """Set the gradients of these rows of parameters to zero."""
    for name, row in rows.items():
        gradient = records.gradients.parameters.get(name)
        if gradient is not None:
            records.gradients.parameters[name] = gradient = gradient.copy()
            gradient[row] = 0


def _root_only(slots: Mapping[tuple[str, int, str], Any]) -> dict[tuple[str, int, str], Any]:
    return {place: names for place, names in slots.items() if not place[0]}
