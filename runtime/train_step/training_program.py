"""A training step as one program: its inputs, outputs and state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..common.parameter import Parameter
from ..graph.dependencies import Dependencies
from ..graph.printing import Entry
from ..graph.sizes import tensor_arguments
from ..graph.traced import run_trace, warn_about_writes
from ..ir.program import Program
from ..ir.types import Value
from ..namespace import Namespace
from ..nn.cell import Cell
from ..nn.wrap.training_step import TrainingStep

LOSS_SCALE_NAMES = {"scale_value": "loss_scale", "counter": "steps_without_overflow"}
NETWORK, OPTIMIZER, LEARNING_RATE = "network", "optimizer", "learning rate"
LOSS, LOSS_SCALE, ACCUMULATION = "loss", "loss scale", "accumulation"


@dataclass(frozen=True)
class StateTensor:
    """A tensor of a training step's state.

    Attributes:
        name: its name; for tensors of the network, their path in it.
        role: the part of the step that it belongs to.
        parameter: its Parameter outside of the compiled step.
    """

    name: str
    role: str
    parameter: Parameter


def state_tensors(step: TrainingStep) -> dict[str, StateTensor]:
    """The state of a training step, by name."""
    result: dict[str, StateTensor] = {}
    identities: set[int] = set()
    names = Namespace()
    for role, name, parameter in _parameters(step):
        if id(parameter) in identities:
            continue
        identities.add(id(parameter))
        unique_name = names.unique(name)
        result[unique_name] = StateTensor(unique_name, role, parameter)
    return result


def _parameters(step: TrainingStep) -> Iterator[tuple[str, str, Parameter]]:
    """Yield the role, name and Parameter of each tensor; the most specific role of a Parameter comes first."""
    for name, parameter in step.network.parameters_and_names():
        yield NETWORK, name, parameter
    if isinstance(step.loss, Cell):
        for name, parameter in step.loss.parameters_and_names():
            yield LOSS, f"loss.{name}", parameter
    rates = step.optimizer.learning_rate
    rates = rates if isinstance(rates, tuple) else (rates,)
    for rate in (rate for rate in rates if isinstance(rate, Parameter)):
        yield LEARNING_RATE, rate.name, rate
    for parameter in step.optimizer.get_parameters():
        yield OPTIMIZER, parameter.name, parameter
    if step.loss_scaler is not None:
        for name, item in vars(step.loss_scaler).items():
            if isinstance(item, Parameter):
                yield LOSS_SCALE, LOSS_SCALE_NAMES.get(name, name), item
    for parameter in step.get_parameters():
        yield ACCUMULATION, parameter.name, parameter


@dataclass(frozen=True)
class TrainingProgram:
    """A traced training step.

    Attributes:
        program: takes a batch and returns the outputs of `TrainingStep`; its buffers are the state that it updates.
        state_tensors: the state, by name.
        dependencies: the Python state that the program relies on.
        print_entries: the messages that each run prints.
        printed_values: the values of the program that are printed.
    """

    program: Program
    state_tensors: dict[str, StateTensor]
    dependencies: Dependencies
    print_entries: tuple[Entry, ...]
    printed_values: tuple[Value, ...]

    @property
    def loss(self) -> Value:
        """The loss, without the loss scale."""
        return self.program.outputs[0]

    @property
    def overflow(self) -> Value:
        """Whether the update was skipped: a 0-d bool tensor."""
        return self.program.outputs[1]

    @property
    def gradients(self) -> dict[str, Value]:
        """The gradients, without the loss scale, by Parameter."""
        names = self.program.result.children[2].keys
        return dict(zip(map(str, names), self.program.outputs[2:], strict=False))

    @property
    def clipped(self) -> dict[str, Value]:
        """The clipped gradients, which the optimizer gets, by Parameter."""
        count = len(self.gradients)
        return dict(zip(self.gradients, self.program.outputs[2 + count :], strict=True))

    @property
    def learning_rates(self) -> dict[str, Value]:
        """The learning rates that the program reads, by name."""
        return {
            name: parameter.value
            for name, parameter in self.program.parameters.items()
            if name in self.state_tensors and self.state_tensors[name].role == LEARNING_RATE
        }

    def with_state(self, state: Mapping[str, Any]) -> TrainingProgram:
        """Return the step with another initial state, by name."""

        def replace_data(stored: Mapping[str, Any]) -> dict[str, Any]:
            return {name: replace(item, data=state[name]) for name, item in stored.items()}

        program = self.program
        return replace(
            self,
            program=program.replace(parameters=replace_data(program.parameters), buffers=replace_data(program.buffers)),
        )


def training_program(step: TrainingStep, batch: tuple[Any, ...], dynamic_shapes: Any = None) -> TrainingProgram:
    """Trace a training step on a batch.

    Args:
        step: the step; it doesn't change.
        batch: tensors with the dtypes and shapes of a batch.
        dynamic_shapes: for each tensor of the batch a dict from axes to names, or None; None: all sizes are fixed.
    """
    kept = state_tensors(step)
    by_parameter = {id(item.parameter): item.name for item in kept.values()}
    specs = None if dynamic_shapes is None else {"batch": tuple(dynamic_shapes)}
    traced = run_trace(step, batch, {}, tensor_arguments(step, batch, {}, specs), with_effects=True)
    program, values = traced.program, traced.program.outputs[:0]
    if traced.written_inputs or traced.print_entries:
        of_step = program.result.children[0]
        values = program.outputs[of_step.tensors + len(traced.written_inputs) :]
        program = program.replace(outputs=program.outputs[: of_step.tensors], result=of_step)
    if traced.written_inputs:
        warn_about_writes([program.inputs[i].name for i in traced.written_inputs], stacklevel=2)
    names = {name: by_parameter.get(id(parameter), name) for name, parameter in traced.parameters.items()}
    program = program.replace(parameters=_rename(program.parameters, names), buffers=_rename(program.buffers, names))
    return TrainingProgram(program, kept, traced.dependencies, traced.print_entries, values)


def _rename(stored: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {
        names[name]: replace(item, aliases=()) if hasattr(item, "aliases") else item for name, item in stored.items()
    }
