"""`CompiledStep`: a training step compiled for batches of some dtypes and ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..common.tensor import from_array
from ..errors import UsageError
from ..graph.cache import SYMBOLIC_SIZE_ERRORS
from ..graph.printing import write
from ..nn.wrap.training_step import TrainingStep
from .resident import Resident
from .training_program import training_program

Array = np.ndarray[Any, Any]


class CompiledStep:
    """A training step compiled for batches of some dtypes and ranks.

    Attributes:
        batches: dtypes and shapes of the batches that it was compiled for, in order. An axis with the same size in all
            of them is fixed; axes that had equal sizes in each of them must have equal sizes in later batches too.
        allows_symbolic_sizes: whether sizes that differ can be symbolic; if not, each size is compiled separately.
        extra_inputs: the values that each run gets beside the batch, by name: learning rates, and variable state.
        fixed: the names of the state whose values are constants of the compiled program.
        traced: the program, without the data of its state, which the device has.
        resident: runs the program.
    """

    def __init__(
        self,
        step: TrainingStep,
        batch: Sequence[Array],
        state: Mapping[str, Array],
        previous: CompiledStep | None,
        variable: Collection[str],
        provider: str,
    ) -> None:
        this = _kinds(batch)
        if previous is not None and _ranks(previous.batches[0]) != _ranks(this):
            previous = None
        self.allows_symbolic_sizes: bool = previous is None or previous.allows_symbolic_sizes
        earlier = previous.batches if previous is not None and self.allows_symbolic_sizes else []
        self.batches: list[list[tuple[np.dtype[Any], tuple[int, ...]]]] = [*earlier, this]
        specs = [
            {axis: f"size{'_'.join(map(str, sizes))}" for axis, sizes in axes.items() if len(set(sizes)) > 1}
            for axes in self._sizes()
        ]
        tensors = tuple(map(from_array, batch))
        try:
            traced = training_program(step, tensors, specs).with_state(state)
        except (*SYMBOLIC_SIZE_ERRORS, UsageError):
            if not any(specs):
                raise
            self.allows_symbolic_sizes, self.batches = False, [this]
            traced = training_program(step, tensors, [{} for _ in specs]).with_state(state)
        program = traced.program
        constant = {name: p.value for name, p in program.parameters.items()}
        constant |= {name: b.value for name, b in program.buffers.items() if b.update is None}
        extra_inputs = {*traced.learning_rates, *variable}
        self.extra_inputs = {name: value for name, value in constant.items() if name in extra_inputs}
        self.fixed = constant.keys() - extra_inputs
        self._scaled = step.loss_scaler is not None
        results = [traced.loss, traced.overflow] if self._scaled else [traced.loss]
        self.resident = Resident(program, results, list(self.extra_inputs.values()), provider, traced.printed_values)
        self.traced = replace(traced, program=program.without_data())

    def _sizes(self) -> list[dict[int, tuple[int, ...]]]:
        """The sizes of each axis of each tensor in all batches."""
        shapes = [[shape for _, shape in batch] for batch in self.batches]
        return [dict(enumerate(zip(*of_one, strict=True))) for of_one in zip(*shapes, strict=True)]

    def accepts(self, batch: Sequence[Array]) -> bool:
        """Whether the compiled program fits a batch, and nothing has changed that the traced code depends on."""
        if not self.traced.dependencies.are_unchanged() or _ranks(_kinds(batch)) != _ranks(self.batches[0]):
            return False
        size_of: dict[tuple[int, ...], int] = {}
        return all(
            array.shape[axis] == (size_of.setdefault(sizes, array.shape[axis]) if len(set(sizes)) > 1 else sizes[0])
            for array, axes in zip(batch, self._sizes(), strict=True)
            for axis, sizes in axes.items()
        )

    def run(self, batch: Sequence[Array], extra_inputs: Mapping[str, Array]) -> tuple[Array, bool]:
        """Run a step, print its messages, and return the loss, and whether the update was skipped."""
        inputs = dict(zip(self.traced.program.inputs, batch, strict=True))
        results = self.resident.run(inputs | {value: extra_inputs[name] for name, value in self.extra_inputs.items()})
        loss, *others = results
        overflow = bool(others.pop(0)) if self._scaled else False
        write(self.traced.print_entries, map(from_array, others))
        return loss, overflow


def _kinds(batch: Sequence[Array]) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
    return [(array.dtype, array.shape) for array in batch]


def _ranks(batch: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> list[tuple[np.dtype[Any], int]]:
    return [(dtype, len(shape)) for dtype, shape in batch]
