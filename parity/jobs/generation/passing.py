"""Whether a Cell is given the state that it returned in the step before, or its caller passes something else."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch

from ...sides.records import INPUT, OUTPUT, Key
from .boundaries import Passage

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Passed:
    """A state that a Cell isn't given.

    Attributes:
        caller: path of the Cell that should pass it.
        path: path of the Cell.
        call: index of its call.
        slot: the input that has another value, or else the output that is passed to no input.
        input: what the Cell is given; None if it is given nothing.
        returned: what it returned in the step before.
    """

    caller: str
    path: str
    call: int
    slot: str
    input: torch.Tensor | None
    returned: torch.Tensor


def wrongly_passed(
    path: str, call: int, before: Passage, step: Passage, state: Tensors, compared: Collection[Key]
) -> Passed | None:
    """Return the outermost Cell around a Cell that isn't given its own state; None if all are given it.

    Args:
        path: path of the Cell, whose outputs are wrong.
        call: index of its call.
        before: what crossed boundaries in the step before.
        step: what crosses them in this step.
        state: the tensors of the network's state between the two.
        compared: boundaries whose values belong to positions of the sequence: not states.
    """
    passed = None
    while path:
        passed = next(_of_call(path, call, before, step, state, compared), passed)
        path = step.callers[path, call]
        call = 0  # a Cell around it, which is called once in a step but for rare networks
    return passed


def _of_call(
    path: str, call: int, before: Passage, step: Passage, state: Tensors, compared: Collection[Key]
) -> Iterator[Passed]:
    inputs = _tensors(step, path, call, INPUT, compared)
    returned = _tensors(before, path, call, OUTPUT, ())
    caller = step.callers[path, call]
    for slot, tensor in inputs.items():
        alike = [other for other in returned.values() if other.shape == tensor.shape]
        if alike and not any(torch.equal(tensor, other) for other in alike):
            yield Passed(caller, path, call, slot, tensor, alike[0])
    for slot, tensor in returned.items():
        kept = any(_same(tensor, other) for other in state.values())
        if kept and not any(_same(tensor, other) for other in inputs.values()):
            yield Passed(caller, path, call, slot, None, tensor)


def _tensors(passage: Passage, path: str, call: int, kind: str, left_out: Collection[Key]) -> dict[str, torch.Tensor]:
    return {
        key.slot: tensor
        for key, tensor in passage.values.items()
        if key[:3] == (path, call, kind) and key not in left_out and tensor.is_floating_point()
    }


def _same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return tensor.shape == other.shape and torch.equal(tensor, other)
