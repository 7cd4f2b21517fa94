"""The boundaries of a program: the keys of the values there, in the names of the reference, and what records them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.programs.call import result_structure
from ...runtime.tree import Structure
from ..correspondence.structures import ResultMatch
from .feeding import feed_value_like
from .records import OUTPUT, Array, Key, Records
from .replay import Replay
from .run import Run
from .slots import output_slots, reference_slot


@dataclass(frozen=True)
class BoundaryKeys:
    """The keys of the boundaries of a program in a run.

    Attributes:
        program: the program, or its gradient program.
        run: the run, which has the reference's slots.
        root_names: the names that each output of the root is recorded under, by the slot of its boundary.
        slots: the program's own slots of each call's inputs and outputs, by (number of the call, kind).
    """

    program: Program
    run: Run
    root_names: dict[str, list[str]]
    slots: dict[tuple[int, str], list[str]]

    @classmethod
    def of(cls, program: Program, run: Run, names: Sequence[str], marked: Program | None = None) -> BoundaryKeys:
        """Return the keys of a program whose outputs are recorded under these names, in flat order.

        Args:
            program: the program.
            run: the run.
            names: names of the root's outputs.
            marked: the gradient program whose boundaries are to be named; by default the program itself.
        """
        marked = marked or program
        return cls(marked, run, _root_outputs(program, names), _marks(marked).slots)

    def keys(self, node: Node) -> list[Key]:
        """Return the keys of a boundary; a value that the root returns several times has several."""
        call, kind = self.program.calls[node.attributes["call"]], node.attributes["kind"]
        first = Key(call.path, call.index, kind, self._reference_slot(node))
        again = self.root_names.get(str(node.attributes["slot"]), [])[1:] if (kind, call.path) == (OUTPUT, "") else []
        return [first, *(first._replace(slot=name) for name in again)]

    def _reference_slot(self, node: Node) -> str:
        call, kind = self.program.calls[node.attributes["call"]], node.attributes["kind"].removesuffix("_gradient")
        slots, slot = self.slots.get((node.attributes["call"], kind), []), str(node.attributes["slot"])
        if kind == OUTPUT and node.attributes["call"] == 0:
            return (self.root_names.get(slot) or [slot])[0]
        reference = self.run.reference.slots.get((call.path, call.index, kind), slots)
        if kind == OUTPUT:
            return output_slots(slots, reference)[slots.index(slot)]
        return reference_slot(slot, slots, reference)


def own_key(program: Program, node: Node) -> Key:
    """Return the boundary that a node of the op `boundary` marks, in the program's own names."""
    call = program.calls[node.attributes["call"]]
    return Key(call.path, call.index, node.attributes["kind"], node.attributes["slot"])


def match_root(program: Program, inputs: Sequence[Array], run: Run) -> tuple[Structure, ResultMatch, list[str]]:
    """Return the structure of the result, how it matches the reference's, and the names of outputs in flat order."""
    result = result_structure(program, inputs)
    match = run.reference.match_result(result)
    return result, match, run.reference.root_slots([path or "result" for path in result.paths()], match.partners)


def _root_outputs(program: Program, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the names of the root's outputs, which are in flat order, by the slots of their boundaries.

    A value that is returned twice may cross only one boundary.
    """
    of_value: dict[Value, list[str]] = {}
    for value, name in zip(program.outputs, names, strict=True):
        of_value.setdefault(value, []).append(name)
    return {str(node.attributes["slot"]): of_value.get(node.outputs[0], []) for node in _marks(program).ends}


@dataclass(frozen=True)
class _Marks:
    """The boundaries of a program: the slots of each call's inputs and outputs, in order, and the root's outputs."""

    slots: dict[tuple[int, str], list[str]]
    ends: list[Node]


def _marks(program: Program) -> _Marks:
    """Return the boundaries of a program, which are looked for once: it is run many times."""
    cached = program.__dict__.get("_marks")
    if isinstance(cached, _Marks):
        return cached
    slots: dict[tuple[int, str], list[str]] = {}
    ends: list[Node] = []
    for node in program.nodes:
        if node.op == "boundary":
            call, kind = node.attributes["call"], node.attributes["kind"]
            slots.setdefault((call, kind), []).append(node.attributes["slot"])
            if (call, kind) == (0, OUTPUT):
                ends.append(node)
    marks = program.__dict__["_marks"] = _Marks(slots, ends)
    return marks


class BoundaryObserver:
    """Records the value at each boundary node, or replaces it."""

    def __init__(self, keys: BoundaryKeys, records: Records) -> None:
        self.keys = keys
        self.run = keys.run
        self.records = records
        self.producers = keys.program.producers
        self.source_lines: dict[Node, str] = keys.program.__dict__.setdefault("_source_lines", {})
        self.replay = Replay(keys.run)
        self._fed: dict[tuple[int, np.dtype[Any]], tuple[Array, Array]] = {}

    def __call__(self, node: Node, array: Array) -> Array:
        """Return what replaces a value at a boundary."""
        if self.is_passed_on(node):
            return array
        keys = self.keys.keys(node)
        key = keys[0]
        if key.kind == "parameter_gradient":
            self.records.gradients.add_share(key.slot, key.path, array)
        if key.kind in ("parameter", "parameter_gradient"):
            return array
        array = self.replay.value(key, array)
        if self.run.wanted.inner or not key.path:
            for boundary_key in keys:
                if self.run.wanted.passes is None or not self.run.wanted.passes(boundary_key, array):
                    self.records.add(boundary_key, array)
                self.records.boundaries.sources[boundary_key] = self._source_line(node)
            array = self._feed_or_keep(key, array)
        return self.replay.gradient(key, array)

    def _feed_or_keep(self, key: Key, array: Array) -> Array:
        """Return the value to feed; values at several boundaries that are one array are converted once."""
        value = feed_value_like(self.run.feed, key, array)
        if value is None:
            return array
        identity = id(value), array.dtype
        if identity not in self._fed:
            self._fed[identity] = value, value.astype(array.dtype, copy=False)
        return self._fed[identity][1]

    def is_passed_on(self, node: Node) -> bool:
        """Whether nothing is recorded or replaced at a boundary."""
        attributes, run = node.attributes, self.run
        if run.wanted.inner or run.reference.choices or attributes["kind"] == "parameter_gradient":
            return False
        return self.keys.program.calls[attributes["call"]].path != ""

    def _source_line(self, node: Node) -> str:
        """The source line of the op that computed the value at the boundary, looked up once for all runs."""
        line = self.source_lines.get(node)
        if line is None:
            line = self.source_lines[node] = self._look_up_source(node)
        return line

    def _look_up_source(self, node: Node) -> str:
        """The source line of the op that computed the value at the boundary."""
        value: Value | None = node.inputs[0]
        producer = self.producers.get(value) if value is not None else None
        while producer is not None and producer.op == "boundary":
            node, value = producer, producer.inputs[0]
            producer = self.producers.get(value) if value is not None else None
        source = (producer or node).source
        return str(source) if source is not None else ""
