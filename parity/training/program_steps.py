"""Steps of training as our runtime makes them, of a captured network: in the interpreter, and compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ...runtime.common.tensor import from_array
from ...runtime.errors import UsageError
from ...runtime.ir.dims import evaluate
from ...runtime.ir.program import Program
from ...runtime.ir.types import Value
from ...runtime.programs.interpreter import bind, execute
from ...runtime.programs.plan import plan
from ...runtime.programs.random_inputs import draws_as_inputs, random_nodes
from ...runtime.train_step.arguments import training_step
from ...runtime.train_step.resident import Resident
from ...runtime.train_step.training_program import (
    LOSS_SCALE,
    LOSS_SCALE_NAMES,
    NETWORK,
    OPTIMIZER,
    TrainingProgram,
    training_program,
)
from ..dtypes import cast_floating
from ..inputs.sizes import open_axes
from ..sides.names import COMPILED
from ..sides.records import Array, Draw
from .quantities import LOSS, OVERFLOW, Quantities, Quantity, Training, optimizer_state
from .training_config import TrainingConfig


class Executor(Protocol):
    """Runs a training step again and again; what the step keeps goes on from run to run."""

    def run(self, batch: Sequence[Array], draws: Sequence[Array]) -> dict[Value, Array]:
        """Make a step: the outputs of the program, from a batch and what the random nodes are to draw."""

    def state(self) -> dict[str, Array]:
        """What the step changes, by name."""


class InterpretedSteps:
    """A training step in the interpreter."""

    def __init__(self, traced: TrainingProgram) -> None:
        self.program = traced.program
        self.sampled = random_nodes(self.program)
        changed = {n: b for n, b in self.program.buffers.items() if b.update is not None}
        self._values = {name: buffer.value for name, buffer in changed.items()}
        self._state = {name: buffer.data for name, buffer in changed.items()}

    def run(self, batch: Sequence[Array], draws: Sequence[Array]) -> dict[Value, Array]:
        """Make a step."""
        program = self.program
        wanted = [*program.outputs, *program.updates.values()]
        stored = {value: self._state[name] for name, value in self._values.items()}
        sampled = {node.outputs[0].name: draw for node, draw in zip(self.sampled, draws, strict=True)}
        results = execute(program, batch, wanted=wanted, stored=stored, draws=sampled)
        computed = dict(zip(wanted, results, strict=True))
        self._state = {name: computed[value] for name, value in program.updates.items()}
        return computed

    def state(self) -> dict[str, Array]:
        """What the step changes, by name."""
        return dict(self._state)


class CompiledSteps:
    """A training step compiled, its state on the device; random draws are inputs of the model."""

    def __init__(self, traced: TrainingProgram, provider: str) -> None:
        self.program = draws_as_inputs(traced.program)
        self._wanted = list(dict.fromkeys(traced.program.outputs))
        self._resident = Resident(self.program, self._wanted, provider=provider)

    def run(self, batch: Sequence[Array], draws: Sequence[Array]) -> dict[Value, Array]:
        """Make a step."""
        given = dict(zip(self.program.inputs, [*batch, *draws], strict=True))
        return dict(zip(self._wanted, self._resident.run(given), strict=True))

    def state(self) -> dict[str, Array]:
        """What the step changes, by name."""
        return self._resident.state()


class ProgramSteps:
    """A captured network, its loss on top, trained by a `TrainingStep`.

    Args:
        name: `INTERPRETER` or `COMPILED`.
        program: takes the tensors of a batch, gives the loss.
        batches: tensors of each batch, as arrays.
        config: how it is trained.
        dtype: working dtype.
        provider: where it runs, if compiled.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        batches: Sequence[Sequence[Array]],
        config: TrainingConfig,
        dtype: str,
        provider: str = "cpu",
    ) -> None:
        self.name = name
        self.program = program
        self.batches = batches
        self.config = config
        self.dtype = dtype
        self.provider = provider
        if name == COMPILED:  # ONNX Runtime has kernels in float64 for few operators
            self.checks: tuple[tuple[str, str], ...] = (("rounding", "float32" if dtype == "float64" else dtype),)
        else:
            self.checks = (("meaning", "float64"), *([] if dtype == "float64" else [("rounding", dtype)]))

    def perturbed(self, draws: Mapping[Draw, Array]) -> None:
        """Nothing: the numbers of a captured network are torch's."""

    def run(self, dtype: str, draws: Mapping[Draw, Array]) -> Training:
        """Train, with the random draws of torch."""
        # the float64 truth keeps its digits where the network casts to float32: so does this side
        same = dtype == self.dtype and dtype != "float64"
        program = self.program if same else self.program.astype(dtype)
        # through the dtype that the network was captured in, so that every side starts from the same numbers
        dtypes = [(of.dtype, to.dtype) for of, to in zip(self.program.inputs, program.inputs, strict=True)]
        batches = [
            [cast_floating(cast_floating(array, of), to) for array, (of, to) in zip(batch, dtypes, strict=True)]
            for batch in self.batches
        ]
        step = training_step(program, None, **self.config.step_arguments())
        traced = training_program(step, tuple(map(from_array, batches[0])), open_axes(program))
        executor: Executor = CompiledSteps(traced, self.provider) if self.name == COMPILED else InterpretedSteps(traced)
        replayed = _replayed(self.program, traced.program, batches, draws)
        fixed = {name: np.asarray(kept.parameter._array) for name, kept in traced.state_tensors.items()}
        found = Training(_kept(traced, program, fixed))
        found.trained = dict.fromkeys(program.parameters, False)
        found.trained |= dict.fromkeys((weight.name for weight in step.weights), True)
        each = self.config.accumulate
        for first in range(0, len(batches), each):
            losses: Quantities = {}
            for number in range(first, first + each):
                computed = executor.run(batches[number], replayed[number])
                name = LOSS.name if each == 1 else f"{LOSS.name} of batch {number - first + 1}"
                losses[Quantity(LOSS.kind, name)] = computed[traced.loss].reshape(())
            state = _kept(traced, program, fixed | executor.state())
            found.steps.append(losses | _computed(traced, computed, self.config) | state)
        found.draws = dict(draws)
        return found


def _computed(traced: TrainingProgram, computed: Mapping[Value, Array], config: TrainingConfig) -> Quantities:
    """What a step gives besides the loss, as far as there is such a thing in torch's."""
    found = {Quantity("gradient", name): computed[value] for name, value in traced.gradients.items()}
    if config.clip_norm is not None:
        found |= {Quantity("clipped gradient", name): computed[value] for name, value in traced.clipped.items()}
    if config.loss_scale is not None:
        found[OVERFLOW] = computed[traced.overflow]
    return found


def _kept(traced: TrainingProgram, program: Program, state: Mapping[str, Array]) -> Quantities:
    """What a step keeps, as far as torch's does."""
    found: Quantities = {}
    for name, kept in traced.state_tensors.items():
        array = state[name]
        if kept.role == NETWORK:
            found[Quantity("parameter" if name in program.parameters else "buffer", name)] = array
        elif kept.role == LOSS_SCALE:
            found[Quantity("loss scale", LOSS_SCALE_NAMES[kept.parameter.name])] = array
        elif kept.role == OPTIMIZER and kept.parameter.name == "global_step":
            found[Quantity("optimizer state", "step")] = array.reshape(())
        elif kept.role == OPTIMIZER and name.partition(".")[2] in program.parameters:
            found |= optimizer_state(name, array)
    return found


def _replayed(
    captured: Program, traced: Program, batches: Sequence[Sequence[Array]], draws: Mapping[Draw, Array]
) -> list[list[Array]]:
    """For each batch, what the random nodes of the traced step draw: what torch drew there, in order.

    Raises:
        UsageError: torch drew something else.
    """
    live = {step.node for step in plan(captured, (*captured.outputs, *captured.updates.values()), every_boundary=True)}
    all_drawing = random_nodes(captured)
    places = [place for place, node in enumerate(all_drawing) if node in live]
    types = [node.outputs[0].type for node in random_nodes(traced)]
    found: list[list[Array]] = []
    for number, batch in enumerate(batches):
        sizes = bind(traced, batch)
        sampled = [draw for draw in draws if draw.call == number]
        shapes = [draws[Draw("", number, place)].shape for place in places if place < len(sampled)]
        needed = [tuple(evaluate(dim, sizes) for dim in type.shape) for type in types]
        if len(sampled) != len(all_drawing) or shapes != needed:
            raise UsageError(
                f"torch draws random numbers {len(sampled)} times in batch {number + 1}, of shapes {shapes}; the "
                f"captured network {len(all_drawing)} times, of shapes {needed}: they can't be replayed"
            )
        found.append([draws[Draw("", number, p)].astype(type.dtype) for p, type in zip(places, types, strict=True)])
    return found
