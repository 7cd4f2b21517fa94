"""What crosses the boundaries of Cells at one position of a sequence, on the whole and step by step.

A Cell may be given the state that it returned in the step before, or its caller passes something else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from ....converter.capture.cell_hooks import Visitor
from ....runtime.ir.types import CellCall
from ....runtime.programs.call import as_array
from ...sides.records import INPUT, OUTPUT, Array, Key

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


@dataclass
class Passage(Visitor):
    """The values that crossed boundaries while a network ran, in their order.

    Attributes:
        values: a value by its boundary.
        callers: the path of the Cell that made a call, by path and index.
        classes: class names of the Cells, by path.
        length: the length of the sequence that was given.
        row: the row of the batch that is looked at.
        position: the position that is looked at, in what was given.
    """

    length: int
    row: int
    rows: int
    position: int
    values: dict[Key, torch.Tensor] = field(default_factory=dict)
    callers: dict[tuple[str, int], str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _running: list[tuple[str, int]] = field(default_factory=list)

    def enter(self, number: int, call: CellCall, module: torch.nn.Module, slots: Sequence[str]) -> None:
        """Record a call; a step may call the network several times, and they are counted on."""
        index = self._counts[call.path] = self._counts.get(call.path, -1) + 1
        self.classes[call.path] = call.class_name
        self.callers[call.path, index] = self._running[-1][0] if self._running else ""
        self._running.append((call.path, index))

    def input(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """Record what goes into a Cell."""
        self.values[Key(*self._running[-1], INPUT, slot)] = tensor.detach().clone()
        return tensor

    def output(self, number: int, position: int, slot: str, tensor: torch.Tensor) -> torch.Tensor:
        """Record what comes out of it."""
        self.values[Key(*self._running[-1], OUTPUT, slot)] = tensor.detach().clone()
        return tensor

    def leave(self, number: int, module: torch.nn.Module) -> None:
        """It has returned."""
        self._running.pop()


def aligned(whole: Passage, step: Passage) -> Iterator[tuple[Key, Array, Array]]:
    """Yield the values of both at the position, where it is known which axis of a tensor is the sequence.

    That axis has the lengths of the two sequences, or, in front of a causal convolution, as much more in both; other
    axes are alike, but for the batch, which has one row where all are alike. Where that isn't so, as with masks and
    caches, a value is left out.
    """
    for key, value in whole.values.items():
        other = step.values.get(key)
        if other is None or other.ndim != value.ndim:
            continue
        whole_value, step_value, is_aligned = value, other, whole.length == step.length
        for axis in range(value.ndim):
            sizes = value.shape[axis], other.shape[axis]
            if axis == 0 and sizes[0] in (1, whole.rows) and sizes[1] in (1, step.rows):  # 1: the same for all rows
                whole_value = whole_value.narrow(0, whole.row if sizes[0] == whole.rows else 0, 1)
                step_value = step_value.narrow(0, step.row if sizes[1] == step.rows else 0, 1)
            elif (more := sizes[0] - whole.length) == sizes[1] - step.length and more >= 0 and not is_aligned:
                whole_value, step_value = (
                    whole_value.narrow(axis, whole.position, more + 1),
                    step_value.narrow(axis, step.position, more + 1),
                )
                is_aligned = True
        if is_aligned and whole_value.shape == step_value.shape:
            yield key, as_array(whole_value), as_array(step_value)
