"""`CompiledStep`: a training step compiled for batches of some dtypes and ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..common.tensor import wrapped
from ..errors import UsageError
from ..graph.cache import MUST_BE_NUMBERS
from ..graph.printing import write
from ..nn.wrap.training_step import TrainingStep
from .resident import Resident
from .training_program import training_program

Array = np.ndarray[Any, Any]


class CompiledStep:
    """A training step compiled for batches of some dtypes and ranks.

    Attributes:
        batches: dtypes and shapes of the batches that it was compiled for, one after the other. An axis that had one
            size in all of them has it for ever; those that always had the same size as one another must have it still.
        opens_sizes: whether sizes that differ can be left open; where not, each is compiled by itself.
        extra_inputs: what each run is given beside the batch, by name: learning rates, and what was said to change.
        fixed: the names of what has its value in what was compiled.
        traced: the program, without the data of what is kept: the device has that.
        resident: what runs it.
    """

    def __init__(
        self,
        step: TrainingStep,
        batch: Sequence[Array],
        state: Mapping[str, Array],
        before: CompiledStep | None,
        changing: Collection[str],
        provider: str,
    ) -> None:
        this = _kinds(batch)
        if before is not None and _ranks(before.batches[0]) != _ranks(this):
            before = None
        self.opens_sizes: bool = before is None or before.opens_sizes
        earlier = before.batches if before is not None and self.opens_sizes else []
        self.batches: list[list[tuple[np.dtype[Any], tuple[int, ...]]]] = [*earlier, this]
        specs = [
            {axis: f"size{'_'.join(map(str, sizes))}" for axis, sizes in axes.items() if len(set(sizes)) > 1}
            for axes in self._sizes()
        ]
        tensors = tuple(map(wrapped, batch))
        try:
            traced = training_program(step, tensors, specs).holding(state)
        except (*MUST_BE_NUMBERS, UsageError):
            if not any(specs):
                raise
            self.opens_sizes, self.batches = False, [this]
            traced = training_program(step, tensors, [{} for _ in specs]).holding(state)
        program = traced.program
        not_kept = {name: p.value for name, p in program.parameters.items()}
        not_kept |= {name: b.value for name, b in program.buffers.items() if b.update is None}
        extra_inputs = {*traced.learning_rates, *changing}
        self.extra_inputs = {name: value for name, value in not_kept.items() if name in extra_inputs}
        self.fixed = not_kept.keys() - extra_inputs
        wanted = [traced.loss, traced.overflow]
        self.resident = Resident(program, wanted, list(self.extra_inputs.values()), provider, traced.printed_values)
        self.traced = replace(traced, program=program.without_data())

    def _sizes(self) -> list[dict[int, tuple[int, ...]]]:
        """By tensor and axis: the sizes that it had."""
        shapes = [[shape for _, shape in batch] for batch in self.batches]
        return [dict(enumerate(zip(*of_one, strict=True))) for of_one in zip(*shapes, strict=True)]

    def takes(self, batch: Sequence[Array]) -> bool:
        """Whether a batch is of these dtypes, ranks and sizes, and all that Python decided on is as it was."""
        if not self.traced.dependencies.hold() or _ranks(_kinds(batch)) != _ranks(self.batches[0]):
            return False
        known: dict[tuple[int, ...], int] = {}
        return all(
            array.shape[axis] == (known.setdefault(sizes, array.shape[axis]) if len(set(sizes)) > 1 else sizes[0])
            for array, axes in zip(batch, self._sizes(), strict=True)
            for axis, sizes in axes.items()
        )

    def run(self, batch: Sequence[Array], extra_inputs: Mapping[str, Array]) -> list[Array]:
        """Loss and overflow; what the step prints is printed."""
        given = dict(zip(self.traced.program.inputs, batch, strict=True))
        results = self.resident.run(given | {value: extra_inputs[name] for name, value in self.extra_inputs.items()})
        write(self.traced.printed, map(wrapped, results[2:]))
        return results[:2]


def _kinds(batch: Sequence[Array]) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
    return [(array.dtype, array.shape) for array in batch]


def _ranks(batch: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> list[tuple[np.dtype[Any], int]]:
    return [(dtype, len(shape)) for dtype, shape in batch]
