"""Finds the Cells of two torch modules that can't be compared one by one, because they are called differently.

Both modules are run forward in float64, the candidate on the values that the reference recorded. A Cell is set apart if
the candidate calls it more or less often, with other tensors, or if it returns a tensor of another shape, and the Cell
around it computes the same with that. If a Cell is called from another one, then what contains it on one side alone
is set apart: an attention with its last layer inside, and without. Its work then belongs to the Cell around it on both
sides. This is repeated until all remaining Cells are called alike. Of results that one side alone returns, the
others are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from ...correspondence.same_inputs import Calls, inputs_to_join
from ...sides.records import OUTPUT_GRADIENT, Records
from ...sides.run import FORWARD, ReferenceRun, Run, Wanted
from ...sides.torch_side import TorchSide
from .call_differences import Apart, CallDifferences

CAUTIOUS_ROUNDS = 8
"""Rounds in which a Cell's calls with other tensors are set apart one by one: the first may explain the others."""

Candidate = TypeVar("Candidate", bound=TorchSide)
Sides = Callable[[Collection[str]], tuple[TorchSide, TorchSide]]
"""Makes the reference and the candidate without the Cells at these paths."""


@dataclass(frozen=True)
class Alignment:
    """The result.

    Attributes:
        apart: the Cells that are set apart, by path.
        used_elsewhere: parameters that a Cell uses on either side which doesn't hold them.
        joined: inputs of the reference's and of the candidate's calls that count as one, since they are one tensor.
        unreturned: results that the reference returns and the candidate doesn't, as paths and slots.
    """

    apart: Mapping[str, Apart]
    used_elsewhere: set[str]
    joined: tuple[Calls, Calls]
    unreturned: frozenset[tuple[str, str]] = frozenset()


def align(sides: Sides, *, grads: bool = False) -> Alignment:
    """Compare the calls of both sides until no further Cell has to be set apart.

    Args:
        sides: makes both sides.
        grads: whether gradients are to be compared, too.
    """
    apart: dict[str, Apart] = {}
    joined: tuple[Calls, Calls] = {}, {}
    rounds = 0

    def without(paths: Collection[str]) -> CallDifferences:
        return _observed(*joining(sides({*apart, *paths}), joined))

    while True:
        calls = without(())
        truth, records = calls.truth, calls.records
        new = calls.counted_differently() or calls.made_elsewhere()
        more = (
            ({}, {})
            if new
            else inputs_to_join(truth.slots, truth.boundaries.same, records.slots, records.boundaries.same)
        )
        if any(more):
            joined = {**joined[0], **more[0]}, {**joined[1], **more[1]}
            continue
        new = new or calls.given_others(rounds < CAUTIOUS_ROUNDS) or _returning_other_shapes(calls, without)
        unreturned = calls.unreturned()
        if not new and unreturned and grads:
            with_gradients = joining(sides(apart), joined)[0].run(Run("float64", Wanted()))
            new = calls.returned_fewer({place for place in unreturned if _is_used(*place, with_gradients)})
        if not new:
            elsewhere = truth.users.elsewhere | records.users.elsewhere
            return Alignment(apart, elsewhere, joined, frozenset(unreturned))
        apart |= new
        rounds += 1


def joining(sides: tuple[TorchSide, Candidate], joined: tuple[Calls, Calls]) -> tuple[TorchSide, Candidate]:
    """Return both sides with inputs that count as one."""
    return replace(sides[0], joined=joined[0]), replace(sides[1], joined=joined[1])


def _observed(reference: TorchSide, candidate: TorchSide) -> CallDifferences:
    """Run both sides forward, the candidate on the reference's values."""
    truth = reference.run(Run("float64", FORWARD))
    return CallDifferences(truth, candidate.run(Run("float64", FORWARD, ReferenceRun.of(truth), truth)))


def _returning_other_shapes(
    calls: CallDifferences, without: Callable[[Collection[str]], CallDifferences]
) -> dict[str, Apart]:
    """Return the Cells of one caller that may return tensors of other shapes: without them, it does what it should.

    It computes the same, or raises no more, as it does on the reference's tensors where it expects its own. A Cell
    whose shape is a fault makes it wrong.
    """
    by_caller: dict[str, dict[str, Apart]] = {}
    for path, (caller, why) in calls.returned_in_other_shapes().items():
        by_caller.setdefault(caller, {})[path] = why
    for caller, cells in by_caller.items():
        for tried in _groups(cells):
            trial = without(tried)
            is_right = trial.returns_the_same(caller) and trial.passes_on_the_same(caller)
            if not trial.raises(caller) and (calls.raises(caller) or is_right):
                return {path: cells[path] for path in tried}
    return {}


def _groups(cells: Collection[str]) -> Iterator[list[str]]:
    """Yield all Cells, and each alone."""
    yield list(cells)
    if len(cells) > 1:
        yield from ([path] for path in cells)


def _is_used(path: str, slot: str, truth: Records) -> bool:
    """Whether a gradient arrives at a result."""
    gradients = (truth.values[key] for key in truth.values if key[0] == path and key[2:] == (OUTPUT_GRADIENT, slot))
    return any(np.any(gradient) for gradient in gradients)
