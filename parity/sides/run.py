"""The settings of one run of a side.

*End to end*, a side computes with its own values; *fed*, each boundary value is recorded and then replaced by the value
that another run recorded there, so that every Cell computes with the same inputs on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch

from ...runtime.ir.types import is_floating
from ...runtime.tree import Structure
from ..correspondence.structures import ResultMatch, match_results
from .choices import Choice
from .kept_state import StateName
from .records import OUTPUT, Array, Draw, Key, Records
from .slots import additional_slot

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments of a call of the reference."""
GivenInputs = tuple[Arguments, dict[int, tuple[str, torch.Tensor]]]
"""Such arguments, and their tensors with their names, by their places among all leaves."""


@dataclass(frozen=True)
class Wanted:
    """What is wanted of a run.

    Attributes:
        grads: whether to run backward.
        inner: whether values at the boundaries of inner Cells are recorded, not only the root's.
        passes: called with each value at a boundary when it is known; a side needn't keep those for which it returns
            true, so that large networks take less memory.
    """

    grads: bool = True
    inner: bool = True
    passes: Callable[[Key, Array], bool] | None = None


FORWARD = Wanted(grads=False)
"""The values at all boundaries, without gradients."""
OUTPUTS = Wanted(grads=False, inner=False)
"""The values at the root's boundary, without gradients."""


@dataclass(frozen=True)
class Call:
    """The calls that a run consists of; the last is recorded, and fed.

    Attributes:
        arguments: the reference's arguments to run on, in place of those that the side was made with; None for those.
        before: arguments of calls that are made before, keeping the network's state.
        second: run the network forward twice, keeping its state, and record the second call, on inputs with other
            numbers ("varied") or on the same ("same"). None for a single call.
        forget: what is put back, before the call that is recorded, to what it was before the first call; None to look
            for no state that is kept.
        other_mode: run in train mode where the side runs in eval mode, and the other way round.
    """

    arguments: Arguments | None = None
    before: Sequence[Arguments] = ()
    second: Literal["varied", "same"] | None = None
    forget: frozenset[StateName] | None = None
    other_mode: bool = False


@dataclass(frozen=True)
class Jitter:
    """A random error in every boundary value, as another order of operations might cause.

    Attributes:
        seed: seed of the error.
        units: size of the error, in units in the last place.
    """

    seed: int
    units: float = 0.5


@dataclass(frozen=True)
class Numbers:
    """How the numbers that a run computes with differ from the side's.

    Attributes:
        jitter: the error in every boundary value; None for no error.
        perturbed: number, from 1 to `Capabilities.numbers.perturbations`, of the perturbation of numbers and tables
            that may have been rounded to float32; 0 for none; see `rounded_numbers`.
        same_codes: whether a quantized model is run from the codes that float64 yields at each of its quantizers.
        parameter_steps: arrays to add to the parameters, by the reference's names; for a run in float64 without
            gradients.
    """

    jitter: Jitter | None = None
    perturbed: int = 0
    same_codes: bool = False
    parameter_steps: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class ReferenceRun:
    """What the reference's run has settled for other runs; empty for its first run, which settles it.

    Attributes:
        slots: the slots of each boundary, by (path, index, kind).
        result: structure of the result, without its tensors.
        cotangents: cotangents of the root's outputs by slot position (float64 arrays); None to compute them from the
            loss, or to draw them.
        draws: random draws to replay; those missing are drawn.
        choices: choices, such as the signs of eigenvectors, which are replayed; see `Replay`.
    """

    slots: Mapping[tuple[str, int, str], Sequence[str]] = field(default_factory=dict)
    result: Structure | None = None
    cotangents: Sequence[Array | None] | None = None
    draws: Mapping[Draw, Array] = field(default_factory=dict)
    choices: Mapping[Key, Choice] = field(default_factory=dict)

    @classmethod
    def of(cls, truth: Records, cotangents: Sequence[Array | None] | None = None) -> ReferenceRun:
        """Return what a run of the reference has settled, for runs with these cotangents."""
        return cls(truth.slots, truth.result, cotangents, truth.draws)

    def match_result(self, result: Structure, *, is_port: bool = False) -> ResultMatch:
        """Match the root's result with the reference's; with itself in the reference's first run."""
        return match_results(self.result or result, result, is_port=is_port)

    def root_slots(self, own_slots: Sequence[str], partners: Sequence[int | None]) -> list[str]:
        """Return the names to record the root's outputs under: the reference's, for outputs with a partner there."""
        reference_slots = self.slots.get(("", 0, OUTPUT))
        if reference_slots is None:
            return list(own_slots)
        return [
            additional_slot(slot) if partner is None else reference_slots[partner]
            for slot, partner in zip(own_slots, partners, strict=True)
        ]

    def lacks_outputs(self, partners: Sequence[int | None]) -> bool:
        """Whether an output of the reference has no partner, so that all gradients differ from the reference's."""
        return self.cotangents is not None and not set(range(len(self.cotangents))).issubset(partners)

    def root_cotangents(self, partners: Sequence[int | None]) -> list[Array | None]:
        """Return the cotangents in the order of outputs with these partners in the reference."""
        cotangents = list(self.cotangents or [])
        return [None if partner is None or partner >= len(cotangents) else cotangents[partner] for partner in partners]


@dataclass(frozen=True)
class Run:
    """The settings of one run of a side.

    Attributes:
        dtype: floating-point dtype of parameters and inputs, "float64" for the truth.
        wanted: what is recorded.
        reference: what the reference's run has settled.
        feed: records whose values replace this side's at every boundary; None for end to end.
        call: what is called.
        numbers: how the numbers differ from the side's.
    """

    dtype: str
    wanted: Wanted = field(default_factory=Wanted)
    reference: ReferenceRun = field(default_factory=ReferenceRun)
    feed: Records | None = None
    call: Call = field(default_factory=Call)
    numbers: Numbers = field(default_factory=Numbers)

    def want(self, *, grads: bool | None = None, inner: bool | None = None) -> Run:
        """Return this run with gradients, or with inner values, or without."""
        wanted = self.wanted
        grads, inner = wanted.grads if grads is None else grads, wanted.inner if inner is None else inner
        return replace(self, wanted=replace(wanted, grads=grads, inner=inner))


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
