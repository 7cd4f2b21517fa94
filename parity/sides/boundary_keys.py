"""`BoundaryKeys`: the keys under which the values at a program's boundaries are recorded, in the reference's names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...runtime.ir.program import Program
from ...runtime.ir.types import Node, Value
from ...runtime.programs.call import result_structure
from ...runtime.tree import Structure
from ..correspondence.structures import ResultMatch
from .records import OUTPUT, Array, Key
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
