"""The records of a side's run, and the interface of every side.

A side runs one network natively (torch eager, the interpreter, ONNX Runtime) and records the values that cross Cell
boundaries. *End to end*, it computes with its own values; *fed*, each boundary value is recorded and then replaced by
the value that another side recorded there, so that every Cell computes with the same inputs on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from ...runtime.ir.types import CellCall, is_floating
from ...runtime.tree import Structure
from ..pairing.structures import ResultMatch, match_results
from .choices import Choice
from .kept_state import StateName
from .resolution import Resolution

if TYPE_CHECKING:
    from .operator_faults import OperatorFault

Array = np.ndarray[Any, Any]

INPUT, OUTPUT = "input", "output"
INPUT_GRADIENT, OUTPUT_GRADIENT = "input_gradient", "output_gradient"

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call of the reference."""


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
class Records:
    """The values that one run recorded.

    Attributes:
        values: arrays by boundary.
        parameter_gradients: by qualified name; None where no gradient arrives.
        shares: each Cell's share of the gradient of a parameter that several Cells use, by (qualified name, path of the
            Cell).
        updates: final values of the buffers that the run wrote to, by qualified name.
        buffers: values of the other buffers.
        parameter_users: path of the Cell that uses a parameter, by qualified name, if known.
        calls: the Cell calls, in order of entry.
        sources: source line of a value, as `file:line: text`.
        slots: the slots of each boundary in order, by (path, index, kind).
        result: structure of the root's result, without its tensors; None if unknown.
        cotangents: cotangents of the root's outputs, in order; None for an output without a gradient.
        draws: random numbers, by draw.
        mismatches: calls that differ from the reference's in more than numbers.
        raising_cells: paths of the Cells that raised an exception: nothing is known of them and of Cells inside.
        broken: whether the backward pass raised an exception, so that missing gradients are unknown.
        used_elsewhere: parameters that a Cell uses which doesn't hold them, if known.
        opaque: paths of the Cells with a custom backward: gradients of Cells inside can't be observed.
        untracked: inputs and outputs without a gradient: nothing before them is trained, or they were detached.
        same: inputs of a call that are the same tensor as one before; the root's are those that were given.
        notes: remarks on this side for the reader of the report.
        resolutions: resolution of the kernels that computed values, if known.
        kept: what the calls before changed and left for the recorded one (`Run.forget`), with its value if that is a
            number.
        earlier: records of the root in the call before, if a second one was recorded (`Run.second`).
        operator_faults: gradients that operators of torch computed wrongly, in whose place right ones were recorded.
    """

    values: dict[Key, Array] = field(default_factory=dict)
    parameter_gradients: dict[str, Array | None] = field(default_factory=dict)
    shares: dict[tuple[str, str], Array] = field(default_factory=dict)
    updates: dict[str, Array] = field(default_factory=dict)
    buffers: dict[str, Array] = field(default_factory=dict)
    parameter_users: dict[str, str] = field(default_factory=dict)
    calls: list[CellCall] = field(default_factory=list)
    sources: dict[Key, str] = field(default_factory=dict)
    slots: dict[tuple[str, int, str], list[str]] = field(default_factory=dict)
    result: Structure | None = None
    cotangents: list[Array | None] = field(default_factory=list)
    draws: dict[Draw, Array] = field(default_factory=dict)
    mismatches: list[Mismatch] = field(default_factory=list)
    raising_cells: set[str] = field(default_factory=set)
    broken: bool = False
    operator_faults: list[OperatorFault] = field(default_factory=list)
    used_elsewhere: set[str] = field(default_factory=set)
    opaque: set[str] = field(default_factory=set)
    untracked: set[Key] = field(default_factory=set)
    same: dict[tuple[str, int], dict[int, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    resolutions: dict[Key, Resolution] = field(default_factory=dict)
    kept: dict[StateName, int | float | None] = field(default_factory=dict)
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

    def add_share(self, name: str, path: str, gradient: Array) -> None:
        """Add to a Cell's share of the gradient of a shared parameter; a Cell that is called twice adds twice."""
        before = self.shares.get((name, path))
        self.shares[name, path] = gradient if before is None else before + gradient

    def record_result(self, result: Structure, match: ResultMatch) -> None:
        """Record the structure of the root's result, and its differences from the reference's."""
        self.result = result
        self.mismatches += [Mismatch("", 0, "call", "", difference) for difference in match.differences]
        self.notes += [f"the results are containers of another kind: {note}" for note in match.notes]

    def root_keys(self, kind: str) -> list[Key]:
        """The keys of the root Cell's boundary of that kind, in order."""
        return [Key("", 0, kind, slot) for slot in self.slots.get(("", 0, kind), [])]


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter or buffer of a side, before the run."""

    data: Array
    trainable: bool


@dataclass(frozen=True)
class Run:
    """The settings of one run of a side.

    Attributes:
        dtype: floating-point dtype of parameters and inputs, "float64" for the truth.
        grads: whether to run backward.
        cotangents: cotangents of the root's outputs by slot position (float64 arrays); None to compute them from the
            loss, or to draw them.
        draws: random draws to replay; those missing are drawn.
        feed: records whose values replace this side's at every boundary; None for end to end.
        jitter: seed of a random error in every boundary value, as another order of operations might cause; None for
            no error.
        jitter_units: size of that error, in units in the last place.
        slots: the reference's slots of each boundary; empty for the reference's first run.
        result: structure of the reference's result, without its tensors; None for the reference's first run.
        inner: whether values at the boundaries of inner Cells are recorded, not only the root's.
        second: run the network forward twice, keeping its state, and record the second call, on inputs with other
            numbers ("varied") or on the same ("same"). None for a single call.
        arguments: the reference's arguments to run on, in place of those that the side was made with; None for those.
        before: arguments of calls that are made before, keeping the network's state; only the last call is recorded,
            and fed.
        forget: what is put back, before the call that is recorded, to what it was before the first call; None to look
            for no state that is kept.
        other_mode: run in train mode where the side runs in eval mode, and the other way round.
        perturbed: number, from 1 to `Capabilities.perturbations`, of the perturbation of numbers and tables that may
            have been rounded to float32; 0 for none; see `rounded_numbers`.
        same_codes: whether a quantized model is run from the codes that float64 yields at each of its quantizers.
        parameter_steps: arrays to add to the parameters, by the reference's names; for a run in float64 without
            gradients.
        choices: the reference's choices, such as the signs of eigenvectors, which are replayed; see `Replay`.
        passes: called with each value at a boundary when it is known; a side needn't keep those for which it returns
            true, so that large networks take less memory.
    """

    dtype: str
    grads: bool = True
    cotangents: Sequence[Array | None] | None = None
    draws: Mapping[Draw, Array] = field(default_factory=dict)
    feed: Records | None = None
    jitter: int | None = None
    jitter_units: float = 0.5
    inner: bool = True
    slots: Mapping[tuple[str, int, str], Sequence[str]] = field(default_factory=dict)
    result: Structure | None = None
    perturbed: int = 0
    second: Literal["varied", "same"] | None = None
    arguments: Arguments | None = None
    before: Sequence[Arguments] = ()
    forget: frozenset[StateName] | None = None
    other_mode: bool = False
    same_codes: bool = False
    parameter_steps: Mapping[str, Array] = field(default_factory=dict)
    choices: Mapping[Key, Choice] = field(default_factory=dict)
    passes: Callable[[Key, Array], bool] | None = None

    def match_result(self, result: Structure, *, is_port: bool = False) -> ResultMatch:
        """Match the root's result with the reference's; with itself in the reference's first run."""
        return match_results(self.result or result, result, is_port=is_port)

    def root_slots(self, own: Sequence[str], partners: Sequence[int | None]) -> list[str]:
        """Return the names to record the root's outputs under: the reference's, for outputs with a partner there."""
        theirs = self.slots.get(("", 0, OUTPUT))
        if theirs is None:
            return list(own)
        return [
            additional_slot(slot) if place is None else theirs[place] for slot, place in zip(own, partners, strict=True)
        ]

    def lacks_outputs(self, partners: Sequence[int | None]) -> bool:
        """Whether an output of the reference has no partner, so that all gradients differ from the reference's."""
        return self.cotangents is not None and not set(range(len(self.cotangents))).issubset(partners)

    def root_cotangents(self, partners: Sequence[int | None]) -> list[Array | None]:
        """Return the cotangents in the order of outputs with these partners in the reference."""
        cotangents = list(self.cotangents or [])
        return [None if place is None or place >= len(cotangents) else cotangents[place] for place in partners]


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a side.

    Attributes:
        checks: ("meaning", "float64") if it runs in float64, and ("rounding", dtype) if it runs in a dtype whose
            rounding is judged.
        gradients: whether it runs backward.
        cells: whether it can be observed and fed at Cell boundaries; else only its outputs are visible.
        own_precision: whether its outputs have the network's own floating-point dtypes; else it was converted to one
            dtype as a whole.
        is_port: whether it is a port, whose conventions differ from torch's.
        second_call: whether it keeps its state from one call to the next (`Run.second`, `Run.before`).
        known_cells: whether its boundaries are those of its own Cells, not places found by the values there.
        live: whether it runs the user's own code: it takes inputs of other sizes, and has both modes.
        perturbations: number of ways in which its numbers can be perturbed (`Run.perturbed`).
        recorded: whether its runs were recorded elsewhere: it can't be run again.
        quantized: whether it rounds to the codes of quantizers, and can be run from given codes (`Run.same_codes`).
    """

    checks: tuple[tuple[str, str], ...]
    gradients: bool = True
    cells: bool = True
    own_precision: bool = True
    is_port: bool = False
    second_call: bool = False
    known_cells: bool = True
    live: bool = False
    perturbations: int = 1
    quantized: bool = False
    recorded: bool = False


def native_capabilities(working_dtype: str, *, second_call: bool = False, live: bool = False) -> Capabilities:
    """Capabilities of a side that runs in every dtype; in float64 there is no truth to judge rounding by."""
    rounding = () if working_dtype == "float64" else (("rounding", working_dtype),)
    return Capabilities((("meaning", "float64"), *rounding), second_call=second_call, live=live)


class Side(Protocol):
    """A network that can be run and recorded."""

    name: str
    capabilities: Capabilities

    def run(self, run: Run) -> Records:
        """Run once and return the records; the network is left unchanged."""

    def parameters(self) -> Mapping[str, ParameterInfo]:
        """Parameters by qualified name."""


def additional_slot(slot: str) -> str:
    """The slot to record an output under that the reference doesn't have."""
    return f"{slot} (additional)"


def output_slots(own: Sequence[str], reference: Sequence[str]) -> list[str]:
    """Return the reference's slots for the outputs of an inner Cell.

    They are paired by name (keys and fields) if both have the same names; else by position: returning results in
    another container isn't an error.
    """
    if list(own) == list(reference):  # mostly: and this is asked at every boundary of every run
        return list(own)
    names = {_place(slot): slot for slot in reference}
    if len(names) == len(reference) and {_place(slot) for slot in own} == names.keys():
        return [names[_place(slot)] for slot in own]
    return [reference[i] if i < len(reference) else additional_slot(slot) for i, slot in enumerate(own)]


def _place(slot: str) -> str:
    """Return a slot with the fields of objects written as keys of dicts."""
    return re.sub(r"\.(\w+)", r"['\1']", slot)


def random_cotangents(outputs: Sequence[Array], working_dtype: np.dtype[Any], seed: int) -> list[Array | None]:
    """Return standard normal cotangents in float64, one per output, with values that the working dtype holds exactly.

    Integer outputs get None.
    """
    generator = np.random.default_rng(seed)
    return [
        np.asarray(generator.standard_normal(out.shape)).astype(working_dtype).astype(np.float64)
        if is_floating(out.dtype)
        else None
        for out in outputs
    ]


def feed_value(feed: Records | None, key: Key) -> Array | None:
    """Return the value to feed at `key`: the recorded one, zeros for a gradient that didn't arrive, or None."""
    if feed is None or key in feed.values or key.kind not in (INPUT_GRADIENT, OUTPUT_GRADIENT):
        return None if feed is None else feed.values.get(key)
    value = value_key(key)
    has_gradient = bool(feed.cotangents) and value in feed.values and value not in feed.untracked
    return np.zeros(feed.values[value].shape) if has_gradient else None


def feed_value_like(feed: Records | None, key: Key, like: Array) -> Array | None:
    """Return the value to feed at `key`; None if there is none of the shape of `like`."""
    value = feed_value(feed, key)
    return value if value is not None and value.shape == like.shape else None


def feed_or_keep(feed: Records | None, key: Key, like: Array) -> Array:
    """Return the value to feed at `key` in the dtype of `like`; `like` itself if there is none of that shape."""
    value = feed_value_like(feed, key, like)
    return like if value is None else value.astype(like.dtype, copy=False)


def reference_slot(slot: str, own: Sequence[str], reference: Sequence[str]) -> str:
    """Return the reference's name for a slot of a call: tensors are paired by name, the remaining ones by position.

    Args:
        slot: one of `own`.
        own: the slots of the call, in order.
        reference: the slots of the same call of the reference.
    """
    if slot in own and list(own) == list(reference):  # mostly: and this is asked at every boundary of every run
        return slot
    names = {plain_slot(name): name for name in reference}
    match = names.get(plain_slot(slot))
    if match is not None:
        return match
    own_names = {plain_slot(name) for name in own}
    unpaired = [name for plain, name in names.items() if plain not in own_names]
    alone = [name for name in own if plain_slot(name) not in names]
    return dict(zip(alone, unpaired, strict=False)).get(slot, slot)


def plain_slot(slot: str) -> str:
    """The slot as a module made from a program names its parameter: `states_0` for `states[0]`."""
    return re.sub(r"\W+", "_", slot).strip("_")
