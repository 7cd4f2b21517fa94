"""The records of a side's run: the values that cross Cell boundaries, and what happened on the way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...runtime.ir.types import CellCall
from ...runtime.tree import Structure
from ..correspondence.structures import ResultMatch
from .kept_state import StateName
from .resolution import Resolution

if TYPE_CHECKING:
    from .operator_faults import OperatorFault

Array = np.ndarray[Any, Any]

INPUT, OUTPUT = "input", "output"
INPUT_GRADIENT, OUTPUT_GRADIENT = "input_gradient", "output_gradient"


class Key(NamedTuple):
    """Identifies a value at a boundary: Cell path, index of that Cell's call, kind (input, output, ...) and slot."""

    path: str
    call: int
    kind: str
    slot: str


def gradient_key(key: Key) -> Key:
    """The boundary at which the gradient of a tensor passes."""
    return key._replace(kind=INPUT_GRADIENT if key.kind == INPUT else OUTPUT_GRADIENT)


def value_key(key: Key) -> Key:
    """The boundary at which the tensor of a gradient passes; a tensor's own boundary for a tensor."""
    return key._replace(kind={INPUT_GRADIENT: INPUT, OUTPUT_GRADIENT: OUTPUT}.get(key.kind, key.kind))


class Draw(NamedTuple):
    """Identifies a random draw: path and index of the Cell call, and number of the draw within that call."""

    path: str
    call: int
    number: int


@dataclass(frozen=True)
class Mismatch:
    """A call of a Cell that differs from the reference's other than in numbers: for example, it raises or returns more.

    Attributes:
        path: path of the Cell.
        call: index of the call, from 0.
        kind: "call", "output" or "passed value".
        tensor: slot of the tensor concerned; empty for the whole call.
        reason: explanation of the difference.
        source: place in the user's code, as `file:line: text`.
    """

    path: str
    call: int
    kind: str
    tensor: str
    reason: str
    source: str = ""


@dataclass
class Boundaries:
    """What is known of boundaries beside their values.

    Attributes:
        sources: source line of a value, as `file:line: text`.
        untracked: inputs and outputs without a gradient: nothing before them is trained, or they were detached.
        same: inputs of a call that are the same tensor as one before, by (path, index of the call); the root's are
            those that were given.
        changing: calls that change one of their inputs in place and don't return it, by (path, index of the call).
        resolutions: resolution of the kernels that computed values, if known.
        unreturned: results of inner Cells, as paths and slots, that this side doesn't return, which is no failure.
        excused: what isn't judged on this side: values and gradients at boundaries, and ("parameter", name) for the
            gradient of a parameter. The reference's stand in their place.
    """

    sources: dict[Key, str] = field(default_factory=dict)
    untracked: set[Key] = field(default_factory=set)
    same: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    changing: set[tuple[str, int]] = field(default_factory=set)
    resolutions: dict[Key, Resolution] = field(default_factory=dict)
    unreturned: Collection[tuple[str, str]] = ()
    excused: set[Key | tuple[str, str]] = field(default_factory=set)


@dataclass
class Gradients:
    """The gradients of parameters, and what the backward pass started from.

    Attributes:
        parameters: by qualified name; None where no gradient arrives.
        shares: each Cell's share of the gradient of a parameter that several Cells use, by (qualified name, path of the
            Cell).
        cotangents: cotangents of the root's outputs, in order; None for an output without a gradient.
        opaque: paths of the Cells with a custom backward: gradients of Cells inside can't be observed.
    """

    parameters: dict[str, Array | None] = field(default_factory=dict)
    shares: dict[tuple[str, str], Array] = field(default_factory=dict)
    cotangents: list[Array | None] = field(default_factory=list)
    opaque: set[str] = field(default_factory=set)

    def add_share(self, name: str, path: str, gradient: Array) -> None:
        """Add to a Cell's share of the gradient of a shared parameter; a Cell that is called twice adds twice."""
        before = self.shares.get((name, path))
        self.shares[name, path] = gradient if before is None else before + gradient


@dataclass
class State:
    """The buffers as the run left them.

    Attributes:
        updates: final values of the buffers that the run wrote to, by qualified name.
        buffers: values of the other buffers.
        kept: what the calls before changed and left for the recorded one (`Call.forget`), with its value if that is a
            number.
    """

    updates: dict[str, Array] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)
    kept: dict[StateName, int | float | None] = field(default_factory=dict)


@dataclass
class Faults:
    """What went wrong in the run other than in numbers.

    Attributes:
        mismatches: calls that differ from the reference's in more than numbers.
        raising: paths of the Cells that raised an exception: nothing is known of them and of Cells inside.
        broken: whether the backward pass raised an exception, so that missing gradients are unknown.
        operators: gradients that operators of torch computed wrongly, in whose place right ones were recorded.
    """

    mismatches: list[Mismatch] = field(default_factory=list)
    raising: set[str] = field(default_factory=set)
    broken: bool = False
    operators: list[OperatorFault] = field(default_factory=list)


@dataclass
class ParameterUsers:
    """Which Cells use which parameters.

    Attributes:
        cells: path of the Cell that uses a parameter, by qualified name, if known.
        elsewhere: parameters that a Cell uses which doesn't hold them, if known.
    """

    cells: dict[str, str] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)


@dataclass
class Records:
    """The values that one run recorded.

    Attributes:
        values: arrays by boundary.
        slots: the slots of each boundary in order, by (path, index, kind).
        boundaries: what else is known of boundaries.
        calls: the Cell calls, in order of entry.
        result: structure of the root's result, without its tensors; None if unknown.
        gradients: gradients of parameters; those of values are values.
        state: buffers after the run.
        users: the Cells that use parameters.
        draws: random numbers, by draw.
        faults: what went wrong other than in numbers.
        notes: remarks on this side for the reader of the report.
        earlier: records of the root in the call before, if a second one was recorded (`Call.second`).
    """

    values: dict[Key, Array] = field(default_factory=dict)
    slots: dict[tuple[str, int, str], list[str]] = field(default_factory=dict)
    boundaries: Boundaries = field(default_factory=Boundaries)
    calls: list[CellCall] = field(default_factory=list)
    result: Structure | None = None
    gradients: Gradients = field(default_factory=Gradients)
    state: State = field(default_factory=State)
    users: ParameterUsers = field(default_factory=ParameterUsers)
    draws: dict[Draw, Array] = field(default_factory=dict)
    faults: Faults = field(default_factory=Faults)
    notes: list[str] = field(default_factory=list)
    earlier: Records | None = None

    def add(self, key: Key, array: Array) -> None:
        """Record a value."""
        self.values[key] = array
        self.add_slot(key)

    def add_slot(self, key: Key) -> None:
        """Record that there is a value, which isn't kept."""
        slots = self.slots.setdefault((key.path, key.call, key.kind), [])
        if key.slot not in slots:
            slots.append(key.slot)

    def record_result(self, result: Structure, match: ResultMatch) -> None:
        """Record the structure of the root's result, and its differences from the reference's."""
        self.result = result
        self.faults.mismatches += [Mismatch("", 0, "call", "", difference) for difference in match.differences]
        self.notes += [f"the results are containers of another kind: {note}" for note in match.notes]

    def root_keys(self, kind: str) -> list[Key]:
        """The keys of the root Cell's boundary of that kind, in order."""
        return [Key("", 0, kind, slot) for slot in self.slots.get(("", 0, kind), [])]
