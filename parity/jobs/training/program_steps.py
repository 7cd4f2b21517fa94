"""The runtime's training steps of a captured network, in the interpreter and compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ....runtime.common.tensor import from_array
from ....runtime.errors import UsageError
from ....runtime.ir.dims import evaluate
from ....runtime.ir.program import Program
from ....runtime.ir.types import Value
from ....runtime.programs.interpreter import bind, execute
from ....runtime.programs.plan import plan
from ....runtime.programs.random_inputs import draws_as_inputs, random_nodes
from ....runtime.train_step.arguments import training_step
from ....runtime.train_step.resident import Resident
from ....runtime.train_step.training_program import (
    LOSS_SCALE,
    LOSS_SCALE_NAMES,
    NETWORK,
    OPTIMIZER,
    TrainingProgram,
    training_program,
)
from ...dtypes import cast_floating
from ...inputs.sizes import open_axes
from ...sides.names import COMPILED
from ...sides.records import Array, Draw
from ...sides.side import native_checks
from .quantities import LOSS, OVERFLOW, Quantities, Quantity, TrainingRecord, optimizer_state
from .training_config import TrainingConfig


class Executor(Protocol):
    """Runs a training step repeatedly, and keeps its state between runs."""

    def run(self, batch: Sequence[Array], draws: Sequence[Array]) -> dict[Value, Array]:
        """Make a step with a batch and the draws of the random nodes; return the outputs of the program."""

    def state(self) -> dict[str, Array]:
        """The state that the step changes, by name."""


class InterpretedSteps:
    """A training step run by the interpreter."""

    def __init__(self, traced: TrainingProgram) -> None:
        self.program = traced.program
        self.random_nodes = random_nodes(self.program)
        changed = {n: b for n, b in self.program.buffers.items() if b.update is not None}
        self._values = {name: buffer.value for name, buffer in changed.items()}
        self._state = {name: buffer.data for name, buffer in changed.items()}

    def run(self, batch: Sequence[Array], draws: Sequence[Array]) -> dict[Value, Array]:
        """Make a step."""
        program = self.program
        values = [*program.outputs, *program.updates.values()]
        stored = {value: self._state[name] for name, value in self._values.items()}
        sampled = {node.outputs[0].name: draw for node, draw in zip(self.random_nodes, draws, strict=True)}
        results = execute(program, batch, wanted=values, stored=stored, draws=sampled)
        computed = dict(zip(values, results, strict=True))
        self._state = {name: computed[value] for name, value in program.updates.items()}
        return computed

    def state(self) -> dict[str, Array]:
        """The state that the step changes, by name."""
        return dict(self._state)


class CompiledSteps:
    """A compiled training step with its state on the device; random draws are inputs of the model."""

    def __init__(self, traced: TrainingProgram, provider: str) -> None:
        self.program = draws_as_inputs(traced.program)
        self._outputs = list(dict.fromkeys(traced.program.outputs))
        self._resident = Resident(self.program, self._outputs, provider=provider)

    def run(self, batch: Sequence[Array], draws: Sequence[Array]) -> dict[Value, Array]:
        """Make a step."""
        inputs = dict(zip(self.program.inputs, [*batch, *draws], strict=True))
        return dict(zip(self._outputs, self._resident.run(inputs), strict=True))

    def state(self) -> dict[str, Array]:
        """The state that the step changes, by name."""
        return self._resident.state()


@dataclass(eq=False)
class ProgramSteps:
    """A captured network with its loss, trained by a `TrainingStep`.

    Attributes:
        name: `INTERPRETER` or `COMPILED`.
        program: takes the tensors of a batch, returns the loss.
        batches: tensors of each batch, as arrays.
        config: the training configuration.
        dtype: working dtype.
        provider: ONNX Runtime's provider, if compiled.
    """

    name: str
    program: Program
    batches: Sequence[Sequence[Array]]
    config: TrainingConfig
    dtype: str
    provider: str

    def __post_init__(self) -> None:
        self.checks = native_checks(self.dtype)
        if self.name == COMPILED:  # ONNX Runtime has kernels in float64 for few operators
            self.checks = (("rounding", "float32" if self.dtype == "float64" else self.dtype),)

    def run_perturbed(self, draws: Mapping[Draw, Array]) -> None:
        """Do nothing: the numbers of a captured network are torch's."""

    def run(self, dtype: str, draws: Mapping[Draw, Array]) -> TrainingRecord:
        """Train with torch's random draws."""
        # the float64 truth keeps its precision where the network casts to float32; so does this side
        same = dtype == self.dtype and dtype != "float64"
        program = self.program if same else self.program.astype(dtype)
        # rounded to the dtype that the network was captured in first, so that all sides start from the same numbers
        dtypes = [(of.dtype, to.dtype) for of, to in zip(self.program.inputs, program.inputs, strict=True)]
        batches = [
            [cast_floating(cast_floating(array, of), to) for array, (of, to) in zip(batch, dtypes, strict=True)]
            for batch in self.batches
        ]
        step = training_step(program, None, **self.config.step_arguments())
        traced = training_program(step, tuple(map(from_array, batches[0])), open_axes(program))
        executor: Executor = CompiledSteps(traced, self.provider) if self.name == COMPILED else InterpretedSteps(traced)
        batch_draws = _draws_by_batch(self.program, traced.program, batches, draws)
        fixed = {name: np.asarray(kept.parameter._array) for name, kept in traced.state_tensors.items()}
        training = TrainingRecord(_state_quantities(traced, program, fixed))
        training.trained = dict.fromkeys(program.parameters, False)
        training.trained |= dict.fromkeys((weight.name for weight in step.weights), True)
        each = self.config.accumulate
        for first in range(0, len(batches), each):
            losses: Quantities = {}
            for number in range(first, first + each):
                computed = executor.run(batches[number], batch_draws[number])
                name = LOSS.name if each == 1 else f"{LOSS.name} of batch {number - first + 1}"
                losses[Quantity(LOSS.kind, name)] = computed[traced.loss].reshape(())
            state = _state_quantities(traced, program, fixed | executor.state())
            training.steps.append(losses | _computed_quantities(traced, computed, self.config) | state)
        training.draws = dict(draws)
        return training


def _computed_quantities(
    traced: TrainingProgram, computed: Mapping[Value, Array], config: TrainingConfig
) -> Quantities:
    """The quantities, besides the loss, that both this step and torch's compute."""
    result = {Quantity("gradient", name): computed[value] for name, value in traced.gradients.items()}
    if config.clip_norm is not None:
        result |= {Quantity("clipped gradient", name): computed[value] for name, value in traced.clipped.items()}
    if config.loss_scale is not None:
        result[OVERFLOW] = computed[traced.overflow]
    return result


def _state_quantities(traced: TrainingProgram, program: Program, state: Mapping[str, Array]) -> Quantities:
    """The quantities of the state that both this step and torch's keep."""
    result: Quantities = {}
    for name, tensor in traced.state_tensors.items():
        array = state[name]
        if tensor.role == NETWORK:
            result[Quantity("parameter" if name in program.parameters else "buffer", name)] = array
        elif tensor.role == LOSS_SCALE:
            result[Quantity("loss scale", LOSS_SCALE_NAMES[tensor.parameter.name])] = array
        elif tensor.role == OPTIMIZER and tensor.parameter.name == "global_step":
            result[Quantity("optimizer state", "step")] = array.reshape(())
        elif tensor.role == OPTIMIZER and name.partition(".")[2] in program.parameters:
            result |= optimizer_state(name, array)
    return result


def _draws_by_batch(
    captured: Program, traced: Program, batches: Sequence[Sequence[Array]], draws: Mapping[Draw, Array]
) -> list[list[Array]]:
    """Return, for each batch, torch's draws for the random nodes of the traced step, in order.

    Raises:
        UsageError: torch's draws differ in number or shape.
    """
    live = {step.node for step in plan(captured, (*captured.outputs, *captured.updates.values()), every_boundary=True)}
    all_drawing = random_nodes(captured)
    indices = [index for index, node in enumerate(all_drawing) if node in live]
    types = [node.outputs[0].type for node in random_nodes(traced)]
    result: list[list[Array]] = []
    for number, batch in enumerate(batches):
        sizes = bind(traced, batch)
        sampled = [draw for draw in draws if draw.call == number]
        shapes = [draws[Draw("", number, index)].shape for index in indices if index < len(sampled)]
        needed = [tuple(evaluate(dim, sizes) for dim in type.shape) for type in types]
        if len(sampled) != len(all_drawing) or shapes != needed:
            raise UsageError(
                f"torch draws random numbers {len(sampled)} times in batch {number + 1}, of shapes {shapes}; the "
                f"captured network {len(all_drawing)} times, of shapes {needed}: they can't be replayed"
            )
        result.append([draws[Draw("", number, p)].astype(type.dtype) for p, type in zip(indices, types, strict=True)])
    return result
