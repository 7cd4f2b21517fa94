"""Gradients through compiled code: a run is one entry on the tape, and its backward pass is compiled too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..common import tape
from ..common.parameter import Parameter
from ..common.tensor import Tensor, from_array, zeros_like
from ..errors import UsageError
from ..ir.program import Program
from ..ir.sizes import input_symbols, symbols_used
from ..ir.types import Value, is_floating
from ..programs.gradient_program import GradientProgram, differentiate
from ..programs.random_inputs import random_nodes
from ..programs.subprograms import evaluate_program
from ..tree import positional_arguments
from .program_runner import Computation, ProgramRunner

Array = np.ndarray[Any, Any]


class TrackedRunner:
    """Runs a program, and keeps the values that its backward pass needs."""

    def __init__(self, runner: ProgramRunner) -> None:
        self.runner = runner
        self.gradients: GradientProgram = differentiate(runner.program)
        whole = self.gradients.program
        count = len(runner.program.nodes)
        forward = {value for node in whole.nodes[:count] for value in node.outputs}
        gradients = (*self.gradients.input_gradients, *self.gradients.parameter_gradients.values())
        gradient_values = [value for value in gradients if value is not None]
        used_values = [value for node in whole.nodes[count:] for value in node.inputs if value is not None]
        sampled = [value for node in random_nodes(whole) for value in node.outputs]
        saved = [value for value in dict.fromkeys((*used_values, *gradient_values, *sampled)) if value in forward]
        self._saved = [*saved, *_size_sources(whole, count, saved)]
        self._seeds = whole.inputs[len(runner.program.inputs) :]
        self._gradient_values = gradient_values
        self._backward_program = _backward(whole, count, self._saved)

    @cached_property
    def _forward(self) -> Computation:
        program = self.runner.program
        return self.runner.computation((*program.outputs, *program.updates.values(), *self._saved))

    @cached_property
    def _backward(self) -> Computation:
        return Computation(self._backward_program, self._gradient_values, interpreted=self.runner.interpreted)

    def run(self, recording: tape.Tape, tensors: Sequence[Any], inputs: Sequence[Array]) -> list[Tensor]:
        """Run the program on `inputs`, the arrays of `tensors`, record the run, and return the outputs.

        Raises:
            UsageError: the program updates a Parameter that is differentiated.
        """
        operands, values = self._operands(recording, tensors)
        feeds = self.runner.feeds(inputs)
        results = feeds | self._forward.run(feeds)
        outputs = self.runner.finish(results)
        numbers = tuple(recording.number() if is_floating(array.dtype) else None for array in outputs)
        floating = [i for i, array in enumerate(outputs) if is_floating(array.dtype)]

        def pull(output_cotangents: list[Any]) -> list[Any]:
            seeds = [
                zeros_like(from_array(outputs[i])) if output_cotangents[i] is None else output_cotangents[i]
                for i in floating
            ]
            now = tape.current()
            if now is not None:
                return self._tracked_gradients(now, results, dict(zip(values, operands, strict=True)), seeds)
            by_seed = {seed: g._data for seed, g in zip(self._seeds, seeds, strict=True)}
            computed = {**results, **by_seed, **self._backward.run(results | by_seed)}
            return [None if g is None else from_array(computed[g]) for g in map(self._gradient_of, values)]

        recording.append(tape.Entry(operands, numbers, pull))
        return [from_array(array, recording, number) for array, number in zip(outputs, numbers, strict=True)]

    def _operands(self, recording: tape.Tape, tensors: Sequence[Any]) -> tuple[tuple[int, ...], list[Value]]:
        """The tape numbers and values of the tensors and Parameters that are tracked."""
        numbers: dict[Value, int] = {}
        for value, tensor in zip(self.runner.traced.program.inputs, tensors, strict=True):
            number = tensor.number_on(recording) if isinstance(tensor, Tensor) else None
            if number is not None:
                numbers[value] = number
        updated = {id(self.runner.traced.parameters[name]) for name in self.runner.program.updates}
        for value, parameter in self.runner.parameters.items():
            number = parameter.number_on(recording)
            if number is not None:
                _require_not_updated(parameter, updated)
                numbers[value] = number
        return tuple(numbers.values()), list(numbers)

    def _gradient_of(self, value: Value) -> Value | None:
        program = self.runner.program
        by_value = dict(zip(program.inputs, self.gradients.input_gradients, strict=True))
        named = self.gradients.parameter_gradients
        by_value |= {program.parameters[name].value: gradient for name, gradient in named.items()}
        return by_value.get(value)

    def _tracked_gradients(
        self, now: tape.Tape, results: dict[Value, Array], numbers: dict[Value, int], seeds: list[Any]
    ) -> list[Any]:
        """Compute the gradients node by node as tracked tensors, for a gradient of the gradient."""
        whole = self.gradients.program
        inputs: dict[Value, Any] = dict(zip(self._seeds, seeds, strict=True))
        for value in (*self.runner.program.inputs, *self.runner.parameters):
            inputs[value] = from_array(results[value], now, numbers.get(value))
        sampled = {value for node in random_nodes(whole) for value in node.outputs}
        values = evaluate_program(whole, inputs, {value: from_array(results[value]) for value in sampled})
        gradients = (None if g is None else values[g] for g in map(self._gradient_of, numbers))
        return [x if x is None or isinstance(x, Tensor) else from_array(x) for x in gradients]


def _require_not_updated(parameter: Parameter, updated: set[int]) -> None:
    if id(parameter) in updated:
        raise UsageError(
            f"Parameter '{parameter.name}' is differentiated outside of a compiled function that assigns it a new "
            "value: compute the gradient inside the function, or compile the whole step"
        )


def _size_sources(whole: Program, count: int, saved: Sequence[Value]) -> list[Value]:
    """Values of the first `count` nodes whose shapes determine sizes that the other nodes need and `saved` lacks."""
    result: list[Value] = []
    symbols = input_symbols((*whole.inputs, *saved))
    for name in sorted({name for node in whole.nodes[count:] for name in symbols_used(node)} - symbols):
        values = (value for node in whole.nodes[:count] for value in node.outputs)
        result += [value for value in values if name in input_symbols([value])][:1]
    return result


def _backward(whole: Program, count: int, saved: Sequence[Value]) -> Program:
    """The part of a gradient program after its first `count` nodes; their results in `saved` are its inputs."""
    inputs = (*whole.inputs, *saved)
    return whole.replace(inputs=inputs, nodes=whole.nodes[count:], arguments=positional_arguments(len(inputs)))
