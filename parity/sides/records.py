"""What a side records when it runs, and what every side can do.

A side runs one network natively (torch eager, the interpreter, ONNX Runtime) and records the values that cross Cell
boundaries. Run *end to end* it computes on its own values; *fed*, each boundary value, once recorded, is replaced by
the one that another side recorded there, so that every Cell computes on the same values as it did there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from ...runtime.ir.types import CellCall, is_floating
from ...runtime.tree import Structure
from ..pairing.structures import Matched, matched
from .resolution import Resolution

Array = np.ndarray[Any, Any]

INPUT, OUTPUT = "input", "output"
INPUT_GRADIENT, OUTPUT_GRADIENT = "input_gradient", "output_gradient"


class Key(NamedTuple):
    """Which value at which boundary: Cell path, number of the call of that path, kind (input, output, ...) and slot."""

    path: str
    call: int
    kind: str
    slot: str


class Draw(NamedTuple):
    """A random draw: path and number of the Cell call that makes it, and which of its draws it is."""

    path: str
    call: int
    number: int


@dataclass(frozen=True)
class Mismatch:
    """A call of a Cell that differs in more than numbers from that of the reference: it raises, or returns more.

    Attributes:
        path: of the Cell.
        call: which call, from 0.
        kind: "call", "output" or "passed value".
        tensor: the slot that it is about; empty for the whole call.
        reason: what is wrong, in words.
        source: where in the user's code, as `file:line: text`.
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
        shares: of the gradient of a parameter that several Cells share, by (qualified name, path of the Cell).
        updates: values of the buffers that the run wrote to, after it, by qualified name.
        buffers: values of the other buffers.
        parameter_users: path of the Cell that uses a parameter, by qualified name, where it is known.
        calls: the Cell calls, in order of entry.
        sources: where a value comes from, as `file:line: text`.
        slots: the slots of each boundary in order, by (path, index, kind).
        result: what the root returned, its tensors taken out; None where that isn't known.
        cotangents: those of the root's outputs that the run used, in order; None for an output without gradient.
        draws: what the run drew at random, by the Cell call that drew it.
        mismatches: calls that differ from the reference's in more than numbers.
        raised: paths of the Cells that raised an exception: nothing else is known of them and of those inside.
        broken: whether the backward pass ended with an exception: gradients that aren't there are not known.
        opaque: paths of the Cells with a backward written by hand: gradients of those inside can't be seen.
        untracked: inputs and outputs that no gradient is asked for: nothing before them is trained, or it was cut off.
        notes: what a reader of the report should know of this side.
        resolutions: how finely the kernels that made values resolve them, where that is known.
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
    raised: set[str] = field(default_factory=set)
    broken: bool = False
    opaque: set[str] = field(default_factory=set)
    untracked: set[Key] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    resolutions: dict[Key, Resolution] = field(default_factory=dict)

    def add(self, key: Key, array: Array) -> None:
        """Record a value, once."""
        self.values[key] = array
        slots = self.slots.setdefault((key.path, key.call, key.kind), [])
        if key.slot not in slots:
            slots.append(key.slot)

    def add_share(self, name: str, path: str, gradient: Array) -> None:
        """Add to the share of a Cell in the gradient of a shared parameter (a Cell called twice adds twice)."""
        before = self.shares.get((name, path))
        self.shares[name, path] = gradient if before is None else before + gradient

    def returns(self, result: Structure, found: Matched) -> None:
        """Keep what the root returned, and how it differs from what the reference's does."""
        self.result = result
        self.mismatches += [Mismatch("", 0, "call", "", difference) for difference in found.differences]
        self.notes += [f"the results are containers of another kind: {note}" for note in found.notes]

    def root(self, kind: str) -> list[Key]:
        """The keys of the root Cell's boundary of that kind, in order."""
        return [Key("", 0, kind, slot) for slot in self.slots.get(("", 0, kind), [])]


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter or buffer of a side, as it is before the run."""

    data: Array
    trainable: bool


@dataclass(frozen=True)
class Run:
    """How a side is to run.

    Attributes:
        dtype: floating-point dtype of parameters and inputs, "float64" for the truth.
        grads: whether to run backward.
        cotangents: of the root's outputs by slot position (float64 arrays); None to find them (by the loss, or drawn).
        draws: random draws to replay, by the Cell call that draws; what isn't there is drawn.
        feed: records whose values replace this side's at every boundary; None for end to end.
        jitter: seed of a random error, applied to every value at a boundary, as another order of operations might make
            it; None for none.
        jitter_units: how large that error may be, in units in the last place.
        slots: what the reference calls the slots of each boundary; empty for the reference's first run.
        result: what the reference's root returns, its tensors taken out; None for its first run.
        inner: whether values at the boundaries of inner Cells are recorded, not only the root's.
        second: run the network twice, forward, its state carried over, and record the second call: on inputs with other
            numbers ("varied") or on the same ("same"). None: a single call.
        moved: whether numbers and tables that may have been rounded to float32 are off by that, and in which of
            `Capabilities.perturbations` ways; 0 for not; see `rounded_numbers`.
        same_codes: whether a quantized model is run from the codes that float64 makes at each of its quantizers.
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
    same_codes: bool = False

    def matched(self, result: Structure, *, is_port: bool = False) -> Matched:
        """The root's result, matched with the reference's; with itself in the reference's first run."""
        return matched(self.result or result, result, is_port=is_port)

    def root_slots(self, own: Sequence[str], partners: Sequence[int | None]) -> list[str]:
        """What the root's outputs are recorded as: by the reference's names, where they have partners there."""
        theirs = self.slots.get(("", 0, OUTPUT))
        if theirs is None:
            return list(own)
        return [additional(slot) if place is None else theirs[place] for slot, place in zip(own, partners, strict=True)]

    def lacks_outputs(self, partners: Sequence[int | None]) -> bool:
        """Whether an output of the reference has no partner: then no gradient is what it would be with all of them."""
        return self.cotangents is not None and not set(range(len(self.cotangents))).issubset(partners)

    def root_cotangents(self, partners: Sequence[int | None]) -> list[Array | None]:
        """The cotangents given, in the order of outputs with these partners in the reference."""
        given = list(self.cotangents or [])
        return [None if place is None or place >= len(given) else given[place] for place in partners]


@dataclass(frozen=True)
class Capabilities:
    """What can be asked of a side.

    Attributes:
        checks: ("meaning", "float64") where it runs in float64, and ("rounding", dtype) where it runs in a dtype whose
            rounding is judged.
        gradients: whether it runs backward.
        cells: whether it is seen, and can be fed, at Cell boundaries; else only at its outputs.
        second_call: whether it carries its state from one call to the next (`Run.second`).
        own_precision: whether its outputs have the floating-point dtypes that the network gives them; else it was
            converted to one dtype as a whole.
        is_port: whether it was written by hand as Cells, whose conventions aren't torch's.
        moves: in how many ways its numbers are moved, each by a rounding.
        quantized: whether it rounds to the codes of quantizers, and can be run from given ones (`Run.same_codes`).
    """

    checks: tuple[tuple[str, str], ...]
    gradients: bool = True
    cells: bool = True
    own_precision: bool = True
    is_port: bool = False
    second_call: bool = False
    perturbations: int = 1
    quantized: bool = False


def native_capabilities(working_dtype: str, *, second_call: bool = False) -> Capabilities:
    """Those of a side that runs in every dtype: in float64 there is no truth beyond it to judge rounding by."""
    rounding = () if working_dtype == "float64" else (("rounding", working_dtype),)
    return Capabilities((("meaning", "float64"), *rounding), second_call=second_call)


class Side(Protocol):
    """One network that can be run and recorded."""

    name: str
    capabilities: Capabilities

    def run(self, run: Run) -> Records:
        """Run once; the network is left as it was."""

    def parameters(self) -> Mapping[str, ParameterInfo]:
        """Parameters by qualified name."""


def additional(slot: str) -> str:
    """What an output is recorded as that the reference hasn't: by no name of the reference's."""
    return f"{slot} (additional)"


def output_slots(own: Sequence[str], reference: Sequence[str]) -> list[str]:
    """What the reference calls the outputs of an inner Cell.

    They are paired by name (keys and fields) where both have the same names; else by position: a Cell that hands its
    results on in another container isn't wrong by that.
    """
    names = {_place(slot): slot for slot in reference}
    if len(names) == len(reference) and {_place(slot) for slot in own} == names.keys():
        return [names[_place(slot)] for slot in own]
    return [reference[i] if i < len(reference) else additional(slot) for i, slot in enumerate(own)]


def _place(slot: str) -> str:
    """A slot, with the fields of objects written as the keys of dicts."""
    return re.sub(r"\.(\w+)", r"['\1']", slot)


def random_cotangents(outputs: Sequence[Array], working_dtype: np.dtype[Any], seed: int) -> list[Array | None]:
    """Standard normal cotangents in float64, one per output, with values that the working dtype holds exactly.

    None for outputs of integers.
    """
    generator = np.random.default_rng(seed)
    return [
        np.asarray(generator.standard_normal(out.shape)).astype(working_dtype).astype(np.float64)
        if is_floating(out.dtype)
        else None
        for out in outputs
    ]


def fed(feed: Records | None, key: Key) -> Array | None:
    """What is fed at `key`: what was recorded there; no gradient that arrived is one of zeros; None for nothing."""
    if feed is None or key in feed.values or key.kind not in (INPUT_GRADIENT, OUTPUT_GRADIENT):
        return None if feed is None else feed.values.get(key)
    value = key._replace(kind=INPUT if key.kind == INPUT_GRADIENT else OUTPUT)
    asked = bool(feed.cotangents) and value in feed.values and value not in feed.untracked
    return np.zeros(feed.values[value].shape) if asked else None


def fed_value(feed: Records | None, key: Key, like: Array) -> Array:
    """What is fed at `key` in the dtype of `like`; `like` itself where nothing of that shape is."""
    recorded = fed(feed, key)
    if recorded is None or recorded.shape != like.shape:
        return like
    return recorded.astype(like.dtype, copy=False)


def reference_slot(slot: str, own: Sequence[str], reference: Sequence[str]) -> str:
    """What the reference calls a slot of a call: tensors are paired by name; what no name pairs, by position.

    Args:
        slot: one of `own`.
        own: the slots of the call, in order.
        reference: those of the same call of the reference.
    """
    names = {plain_slot(name): name for name in reference}
    found = names.get(plain_slot(slot))
    if found is not None:
        return found
    taken = {plain_slot(name) for name in own}
    unpaired = [name for plain, name in names.items() if plain not in taken]
    alone = [name for name in own if plain_slot(name) not in names]
    return dict(zip(alone, unpaired, strict=False)).get(slot, slot)


def plain_slot(slot: str) -> str:
    """The slot as a module that was made of a program names its parameter: `states_0` for `states[0]`."""
    return re.sub(r"\W+", "_", slot).strip("_")
