"""Gradients through compiled code: one step on the tape, whose backward pass is compiled too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ..common.parameter import Parameter
from ..common.tensor import Tensor, wrapped, zeros_like
from ..eager import tape
from ..errors import UsageError
from ..ir.program import Program
from ..ir.sizes import input_symbols, symbols_used
from ..ir.types import Value, is_floating
from ..ops.random import RANDOM_OPS
from ..programs.gradient_program import GradientProgram, differentiate
from ..programs.subprograms import evaluated
from ..tree import positional
from .program_runner import Computation, ProgramRunner

Array = np.ndarray[Any, Any]


class Tracking:
    """Runs a program so that a gradient can be asked for; what the backward pass needs of the forward one is kept."""

    def __init__(self, runner: ProgramRunner) -> None:
        self.runner = runner
        self.gradients: GradientProgram = differentiate(runner.program)
        whole = self.gradients.program
        count = len(runner.program.nodes)
        made = {value for node in whole.nodes[:count] for value in node.outputs}
        found = (*self.gradients.input_gradients, *self.gradients.parameter_gradients.values())
        wanted = [value for value in found if value is not None]
        used = [value for node in whole.nodes[count:] for value in node.inputs if value is not None]
        sampled = [value for node in whole.nodes if node.op in RANDOM_OPS for value in node.outputs]
        kept = [value for value in dict.fromkeys((*used, *wanted, *sampled)) if value in made]
        self._kept = [*kept, *_telling(whole, count, kept)]
        self._seeds = whole.inputs[len(runner.program.inputs) :]
        self._wanted = wanted
        self._backward_program = _backward(whole, count, self._kept)

    @cached_property
    def _forward(self) -> Computation:
        program = self.runner.program
        return self.runner.computing((*program.outputs, *program.updates.values(), *self._kept))

    @cached_property
    def _backward(self) -> Computation:
        return Computation(self._backward_program, self._wanted, interpreted=self.runner.interpreted)

    def run(self, recording: tape.Tape, tensors: Sequence[Any], inputs: Sequence[Array]) -> list[Tensor]:
        """Run the program on `inputs`, the arrays of `tensors`, and record it; the outputs.

        Raises:
            UsageError: a Parameter that is differentiated is given a new value by the program.
        """
        operands, values = self._operands(recording, tensors)
        given = self.runner.given(inputs)
        results = given | self._forward.run(given)
        outputs = self.runner.keep(results)
        numbers = tuple(recording.number() if is_floating(array.dtype) else None for array in outputs)
        floating = [i for i, array in enumerate(outputs) if is_floating(array.dtype)]

        def pull(output_cotangents: list[Any]) -> list[Any]:
            seeds = [
                zeros_like(wrapped(outputs[i])) if output_cotangents[i] is None else output_cotangents[i]
                for i in floating
            ]
            now = tape.current()
            if now is not None:
                return self._again(now, results, dict(zip(values, operands, strict=True)), seeds)
            by_seed = {seed: g._data for seed, g in zip(self._seeds, seeds, strict=True)}
            computed = {**results, **by_seed, **self._backward.run(results | by_seed)}
            return [None if g is None else wrapped(computed[g]) for g in map(self._gradient_of, values)]

        recording.append(tape.Entry(operands, numbers, pull))
        return [wrapped(array, recording, number) for array, number in zip(outputs, numbers, strict=True)]

    def _operands(self, recording: tape.Tape, tensors: Sequence[Any]) -> tuple[tuple[int, ...], list[Value]]:
        """Numbers and values of what is tracked among the tensors and the Parameters."""
        found: dict[Value, int] = {}
        for value, tensor in zip(self.runner.traced.program.inputs, tensors, strict=True):
            number = tensor.number_on(recording) if isinstance(tensor, Tensor) else None
            if number is not None:
                found[value] = number
        updated = {id(self.runner.traced.parameters[name]) for name in self.runner.program.updates}
        for value, parameter in self.runner.parameters.items():
            number = parameter.number_on(recording)
            if number is not None:
                _require_kept(parameter, updated)
                found[value] = number
        return tuple(found.values()), list(found)

    def _gradient_of(self, value: Value) -> Value | None:
        program = self.runner.program
        by_value = dict(zip(program.inputs, self.gradients.input_gradients, strict=True))
        named = self.gradients.parameter_gradients
        by_value |= {program.parameters[name].value: gradient for name, gradient in named.items()}
        return by_value.get(value)

    def _again(
        self, now: tape.Tape, results: dict[Value, Array], numbers: dict[Value, int], seeds: list[Any]
    ) -> list[Any]:
        """The gradients as tensors that are tracked in turn, for a gradient of the gradient: computed node by node."""
        whole = self.gradients.program
        given: dict[Value, Any] = dict(zip(self._seeds, seeds, strict=True))
        for value in (*self.runner.program.inputs, *self.runner.parameters):
            given[value] = wrapped(results[value], now, numbers.get(value))
        sampled = {value for node in whole.nodes if node.op in RANDOM_OPS for value in node.outputs}
        values = evaluated(whole, given, {value: wrapped(results[value]) for value in sampled})
        found = (None if g is None else values[g] for g in map(self._gradient_of, numbers))
        return [x if x is None or isinstance(x, Tensor) else wrapped(x) for x in found]


def _require_kept(parameter: Parameter, updated: set[int]) -> None:
    if id(parameter) in updated:
        raise UsageError(
            f"Parameter '{parameter.name}' is differentiated outside of a compiled function that gives it a new value: "
            "ask for the gradient within the function, or compile the whole step"
        )


def _telling(whole: Program, count: int, kept: Sequence[Value]) -> list[Value]:
    """Values of the first `count` nodes whose shapes tell sizes that the others need, and that nothing else tells."""
    found: list[Value] = []
    known = input_symbols((*whole.inputs, *kept))
    for name in sorted({name for node in whole.nodes[count:] for name in symbols_used(node)} - known):
        values = (value for node in whole.nodes[:count] for value in node.outputs)
        found += [value for value in values if name in input_symbols([value])][:1]
    return found


def _backward(whole: Program, count: int, kept: Sequence[Value]) -> Program:
    """The part of a gradient program after its first `count` nodes, whose results in `kept` are inputs."""
    inputs = (*whole.inputs, *kept)
    return whole.replace(inputs=inputs, nodes=whole.nodes[count:], arguments=positional(len(inputs)))
