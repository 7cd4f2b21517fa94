"""`Recording`: a recording that was opened, and what each of its runs recorded."""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ....recorder import INDEX
from ....runtime.errors import UsageError
from ....runtime.ir.types import CellCall, as_dtype
from ....runtime.visible import visible_name
from ...sides.kinds import PATHS, Kind, file_of, is_of_its_name
from ...sides.opening import in_words, kind_of
from ...sides.records import INPUT, Array, Gradients, Key, Records, value_key
from ...sides.slots import output_slots, reference_slot
from .equal_parts import are_of_one_form, is_close
from .index import CELL_ROLES, CallEntry, Index, Summary, TensorEntry, read_index
from .names import NameMap
from .npy_folder import has_arrays, read_folder
from .renaming import Packing, renamed
from .shards import MappedArrays, Shards, require_regular_files

LARGEST_ABSENT = 2**24
"""Elements of a gradient that never arrived, of which nothing is on the disk, that need no other tensors as large."""
PARAMETER_ROLES = ("parameter", "parameter_gradient")
Boundary = Key | tuple[str, str]
"""A boundary of a Cell; or ("parameter_gradient", name) and the like for what has a name of its own."""


@dataclass
class RecordedRun:
    """What was recorded in one run.

    Attributes:
        records: the values, in the names of the reference.
        parameters: the parameters before the run, by name.
        summaries: what is kept of the tensors that weren't written.
    """

    records: Records
    parameters: dict[str, Array] = field(default_factory=dict)
    summaries: dict[Boundary, Summary] = field(default_factory=dict)

    @property
    def named(self) -> Mapping[str, dict[str, Any]]:
        """What has a name of its own, by role."""
        return {
            "parameter": self.parameters,
            "parameter_gradient": self.records.gradients.parameters,
            "buffer": self.records.state.buffers,
            "buffer_update": self.records.state.updates,
        }


@dataclass
class Recording:
    """A recording.

    Attributes:
        index: its index.
        shards: its files.
    """

    index: Index
    shards: Shards
    _arrays: dict[tuple[str, str, str], Array] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the folder, as it is shown."""
        return visible_name(self.index.path.name or str(self.index.path))

    @property
    def notes(self) -> list[str]:
        """Remarks for the reader of a report."""
        return [] if self.index.complete else [f"{self.name} is incomplete: its writer stopped before the end"]

    @cached_property
    def runs(self) -> list[str]:
        """The dtypes of its runs."""
        return list(dict.fromkeys([entry.run for entry in self.index.tensors]))

    @cached_property
    def steps(self) -> list[int]:
        """The numbers of its training steps; after the last, the parameters alone may have been recorded."""
        return sorted({entry.step for entry in self.index.tensors})

    @property
    def working_dtype(self) -> str:
        """The dtype that rounding is judged in: its own, or that of its only run."""
        if self.index.dtype in self.runs and (self.index.dtype != "float64" or len(self.runs) == 1):
            return self.index.dtype
        return next((run for run in self.runs if run != "float64"), self.index.dtype)

    @property
    def parameter_names(self) -> dict[str, str]:
        """The first name of each parameter, by all of its names."""
        names = [entry.slot for entry in self.index.tensors if entry.role in PARAMETER_ROLES]
        return {name: self.aliases.get(name, name) for name in names}

    @cached_property
    def aliases(self) -> dict[str, str]:
        """The first name of each shared parameter by its other ones: the same tensor of a file, and one gradient."""
        entries = [entry for entry in self.index.tensors if entry.role in PARAMETER_ROLES]
        with_gradient = {entry.slot for entry in entries if entry.role != "parameter"}
        values = [entry for entry in entries if entry.role == "parameter" and entry.file]
        first = {(entry.file, entry.key): entry.slot for entry in reversed(values)}
        mains = {entry.slot: first[entry.file, entry.key] for entry in values if entry.slot not in with_gradient}
        return {name: main for name, main in mains.items() if name != main}

    def run(
        self,
        dtype: str,
        step: int = 0,
        like: Records | None = None,
        names: NameMap | None = None,
        parameters: Mapping[str, tuple[int, ...]] = MappingProxyType({}),
    ) -> RecordedRun:
        """Read what was recorded in one run; checksums are verified.

        Args:
            dtype: dtype of the run.
            step: number of the training step.
            like: the reference's records, whose names Cells, inputs and outputs get; None to keep their own.
            names: what the reference's Cells and parameters are called in this recording; None for the same names.
            parameters: the shapes of the reference's parameters, by name; a shared one has several.

        Raises:
            UsageError: a file is missing or damaged.
            ShapeError: a tensor has no such part as the names say.
        """
        entries = [entry for entry in self.index.tensors if (entry.run, entry.step) == (dtype, step)]
        calls = [
            (number, call) for number, call in enumerate(self.index.calls) if (call.run, call.step) == (dtype, step)
        ]
        if names is not None and like is not None:
            entries, calls = renamed(entries, like, names, parameters, self.aliases), []
        else:
            entries = [entry for entry in entries if entry.role != "parameter" or entry.slot not in self.aliases]
        gradients = Gradients(MappedArrays([self.shards]))
        records = Records(MappedArrays([self.shards]), calls=_calls(calls, entries), gradients=gradients)
        result = RecordedRun(records, MappedArrays([self.shards]))
        slots = _Slots(entries, like, self._array if names is None or names.mask is None else None)
        packing = None
        if like is not None and names is not None and names.mask is not None:
            packing = Packing.of(names.mask, like, names.where)
        for entry in entries:
            value = self._array(entry) if entry.summary is None else _summary_of(entry)
            if value is None:
                continue
            if entry.role not in CELL_ROLES:
                if not isinstance(value, Summary):
                    value = entry.view.in_shape(value, parameters.get(entry.slot))
                if isinstance(value, Summary):
                    result.summaries[entry.role, entry.slot] = value
                else:
                    result.named[entry.role][entry.slot] = value
                continue
            key = slots.key(entry)
            reference_value = None if like is None else like.values.get(value_key(key))
            if reference_value is not None and not isinstance(value, Summary):
                value = entry.view.in_shape(value, reference_value.shape)
            if packing is not None and like is not None:
                whole = None if isinstance(value, Summary) else packing.unpack(key, value, like)
                if whole is None:
                    continue
                value = whole
            if not entry.tracked:
                result.records.boundaries.untracked.add(key)
            if isinstance(value, Summary):
                result.summaries[key] = value
                result.records.add_slot(key)
            else:
                result.records.add(key, value)
        return result

    def _array(self, entry: TensorEntry) -> Array:
        """Return the array of an entry; the same for the same part of the same tensor."""
        if entry.absent:
            if (count := math.prod(entry.shape)) > max(LARGEST_ABSENT, self._bytes):
                raise UsageError(
                    f"{self.index.path}: the gradient that never arrived at {visible_name(entry.cell) or '(root)'} "
                    f"{visible_name(entry.slot)} is said to have {count} elements, which is more than the "
                    f"{self._bytes} bytes of the recording's tensors"
                )
            return np.broadcast_to(np.zeros((), as_dtype(entry.dtype)), entry.shape)
        place = entry.file, entry.key, str(entry.view)
        if place not in self._arrays:
            whole = self._whole(entry)
            name = f"{visible_name(entry.cell) or '(root)'} {entry.role} {visible_name(entry.slot)}"
            self._arrays[place] = whole if entry.view.is_whole else entry.view.of(whole, name)
        return self._arrays[place]

    @cached_property
    def _bytes(self) -> int:
        """Size of all tensors on the disk."""
        return sum(path.stat().st_size for path in self.index.path.parent.glob("*.safetensors"))

    def _whole(self, entry: TensorEntry) -> Array:
        """Return the tensor of an entry, put together from the parts of all processes if they share it."""
        if entry.placement is None or entry.placement.axis is None:
            return self.shards.array(entry)
        parts = [process.shards.array(process.same_as(entry)) for process in self.processes]
        whole = np.concatenate(parts, entry.placement.axis)
        if whole.shape != entry.placement.shape:
            raise UsageError(
                f"{self.index.path.parent}: the parts of {visible_name(entry.slot)} make {list(whole.shape)}, and it "
                f"is {list(entry.placement.shape)}"
            )
        return whole

    def same_as(self, entry: TensorEntry) -> TensorEntry:
        """Return the entry of this process for a tensor of another one."""
        if (own := self._of_boundary.get(entry.boundary)) is None:
            raise UsageError(f"{self.index.path} lacks its part of {visible_name(entry.slot)}")
        return own

    @cached_property
    def _of_boundary(self) -> dict[tuple[Any, ...], TensorEntry]:
        """The tensors that are in files, by boundary."""
        return {entry.boundary: entry for entry in self.index.tensors if entry.file}

    @cached_property
    def processes(self) -> list[Recording]:
        """The recordings of all processes, in order, beside this one."""
        own = self.index.path.resolve()
        folders = (own.parent / f"rank-{number}" for number in range(self.index.ranks))  # as many as a file claims
        return [self if folder == own else open_recording(folder) for folder in folders]


def open_recording(path: str | PathLike[str]) -> Recording:
    """Open a recording, or a folder of `.npy` files.

    Raises:
        UsageError: there is none, or it isn't one.
    """
    kind = kind_of(path)
    if kind not in PATHS:
        raise UsageError(
            f"needed the folder of a recording, given {type(path).__name__}\n"
            "  what to do: parity.compare takes a torch module and a recording, parity.record makes one"
        )
    folder = Path(path)
    if kind is not Kind.RECORDING:
        is_model = kind is Kind.MODEL_FILE and is_of_its_name(path) and Path(file_of(str(path))).exists()
        hint = f"\n  what to do: parity record {path} -o FOLDER makes one" if is_model else ""
        raise UsageError(f"a recording is a folder, given {in_words(path)}{hint}")
    shards = Shards(folder)
    require_regular_files(folder)
    if (folder / INDEX).exists():
        return Recording(read_index(folder, shards.parts), shards)
    ranks = sorted(inner.name for inner in folder.glob("rank-*") if (inner / INDEX).exists())
    if ranks:
        raise UsageError(f"{path} is a recording of {len(ranks)} processes: give the folder of one, {path}/{ranks[0]}")
    if has_arrays(folder):
        return Recording(*read_folder(folder))
    raise UsageError(
        f"{path} isn't a recording: it has neither {INDEX} nor .npy files\n"
        "  what to do: parity record MODEL -o FOLDER makes one; docs/recordings.md says how other programs do"
    )


def _summary_of(entry: TensorEntry) -> Summary | None:
    """Return the summary of the tensor that an entry is; None where each process has summarized a part of it."""
    if entry.summary is None or (entry.placement is not None and entry.placement.axis is not None):
        return None
    return entry.summary.transposed(entry.view.transpose)


class _Slots:
    """The reference's names of inputs and outputs, which are paired by name, and then by position.

    A Cell of another name may take more, and other things: there, what isn't the reference's input keeps its own name.
    """

    def __init__(
        self, entries: list[TensorEntry], like: Records | None, array: Callable[[TensorEntry], Array] | None
    ) -> None:
        self.like = like
        self.own: dict[tuple[str, int, str], list[str]] = {}
        for entry in entries:
            if entry.role in CELL_ROLES:
                slots = self.own.setdefault((entry.cell, entry.call, entry.role.removesuffix("_gradient")), [])
                if entry.slot not in slots:
                    slots.append(entry.slot)
        named = [entry for entry in entries if entry.role == INPUT and entry.view.reshapes and entry.summary is None]
        others = (
            entry for entry in named if array is not None and not self._is_input(self._key(entry), entry, array(entry))
        )
        self.others = {(entry.cell, entry.call, entry.slot) for entry in others}

    def key(self, entry: TensorEntry) -> Key:
        """Return the boundary of a tensor, by the reference's name."""
        if entry.role.startswith(INPUT) and (entry.cell, entry.call, entry.slot) in self.others:
            return Key(entry.cell, entry.call, entry.role, f"{entry.slot} (another)")
        return self._key(entry)

    def _key(self, entry: TensorEntry) -> Key:
        if self.like is None:
            return Key(entry.cell, entry.call, entry.role, entry.slot)
        kind = entry.role.removesuffix("_gradient")
        own = self.own[entry.cell, entry.call, kind]
        reference = self.like.slots.get((entry.cell, entry.call, kind), [])
        if kind == INPUT:
            return Key(entry.cell, entry.call, entry.role, reference_slot(entry.slot, own, reference))
        return Key(
            entry.cell, entry.call, entry.role, dict(zip(own, output_slots(own, reference), strict=True))[entry.slot]
        )

    def _is_input(self, key: Key, entry: TensorEntry, value: Array) -> bool:
        """Whether a tensor may be the reference's input: by its form, and where only its position says so by values."""
        reference_input = None if self.like is None else self.like.values.get(key)
        if reference_input is None:
            return True
        value = entry.view.in_shape(value, reference_input.shape)
        if not are_of_one_form(value, reference_input):
            return False
        is_first = self.own[entry.cell, entry.call, INPUT][0] == entry.slot
        return is_first or entry.slot == key.slot or is_close(reference_input, value)


def _calls(calls: list[tuple[int, CallEntry]], tensors: list[TensorEntry]) -> list[CellCall]:
    """Return the calls of a run, parents before children; a parent that isn't known is found by the paths.

    A recording that wasn't completed may lack calls, of which there are tensors.
    """
    known = {(call.cell, call.index) for _, call in calls}
    lacking = dict.fromkeys((entry.cell, entry.call) for entry in tensors if entry.role in CELL_ROLES)
    entries: list[tuple[int | None, CallEntry]] = [*calls]
    for path, index in lacking:
        if (path, index) not in known:
            entries.append((None, CallEntry("", 0, path, index, "", None)))
    places = {number: place for place, (number, _) in enumerate(entries) if number is not None}
    of_path: dict[str, list[int]] = {}
    for place, (_, call) in enumerate(entries):
        of_path.setdefault(call.cell, []).append(place)
    parents = [
        places.get(call.parent) if call.parent is not None else _parent(place, call.cell, of_path)
        for place, (_, call) in enumerate(entries)
    ]
    order = _parents_first(parents)
    rank = {place: number for number, place in enumerate(order)}
    result = []
    for place in order:
        _, call = entries[place]
        parent = parents[place]
        result.append(CellCall(call.cell, call.class_name, call.index, None if parent is None else rank[parent]))
    return result


def _parent(place: int, path: str, of_path: Mapping[str, list[int]]) -> int | None:
    """Return the place of the call that made a call, which returned before it did: the innermost Cell around it."""
    while path:
        path = path.rpartition(".")[0]
        if path in of_path:
            own = of_path[path]
            return own[min(bisect(own, place), len(own) - 1)]
    return None


def _parents_first(parents: list[int | None]) -> list[int]:
    """Return the places of the calls with each parent before its children, otherwise in order."""
    children: dict[int | None, list[int]] = {}
    for place, parent in enumerate(parents):
        children.setdefault(parent, []).append(place)
    order: list[int] = []
    waiting = list(reversed(children.get(None, [])))
    while waiting:
        place = waiting.pop()
        order.append(place)
        waiting += reversed(children.get(place, []))
    return order
