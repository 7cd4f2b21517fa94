"""ProgramRunner a traced program on the live Parameters: in ONNX Runtime, or in the interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..common.tensor import wrapped
from ..errors import ConversionError, UnsupportedOperators
from ..ir.dims import substituted
from ..ir.program import Program
from ..ir.sizes import input_symbols, symbols_used
from ..ir.types import Node, Value
from ..ops.random import RANDOM_OPS
from ..ops.registry import evaluate, get
from ..programs.interpreter import bind, execute
from ..tree import positional
from .printing import outputs_of, write
from .traced import TracedProgram

Array = np.ndarray[Any, Any]


IN_INTERPRETER = "compiled code runs in the interpreter, not in ONNX Runtime"


class Computation:
    """Values of a program, computed in ONNX Runtime from its inputs and from what it stores, given anew in each run.

    Args:
        program: the program.
        wanted: the values to compute.
        interpreted: whether the interpreter computes them instead.

    Raises:
        ConversionError: an op has no ONNX form with symbolic sizes.

    Warns:
        UserWarning: an op has no ONNX form, so that the interpreter computes them; it is named, with its line.
    """

    def __init__(self, program: Program, wanted: Sequence[Value], *, interpreted: bool = False) -> None:
        self._program = program
        self._wanted = list(dict.fromkeys(wanted))
        self._stored = [item.value for kind in (program.parameters, program.buffers) for item in kind.values()]
        self._executable: Any = None
        if not interpreted and self._wanted:
            from ..compiled.executable import Executable  # which imports ONNX Runtime

            try:
                self._executable = Executable(program, self._wanted, self._stored, provider="cpu")
            except ConversionError as error:
                if input_symbols(program.inputs) and not isinstance(error, UnsupportedOperators):
                    raise
                warnings.warn(f"{IN_INTERPRETER}: {error}", stacklevel=2)

    def run(self, given: Mapping[Value, Array]) -> dict[Value, Array]:
        """What is wanted, from an array for each input and each stored value."""
        if not self._wanted:
            return {}
        if self._executable is not None:
            try:
                return dict(zip(self._wanted, self._executable.run(given), strict=True))
            except IndexError:
                _require_rates(self._program, given)
                raise
        inputs = [given[value] for value in self._program.inputs]
        stored = {value: given[value] for value in self._stored}
        return dict(zip(self._wanted, execute(self._program, inputs, wanted=self._wanted, stored=stored), strict=True))


def _require_rates(program: Program, given: Mapping[Value, Array]) -> None:
    """`RuntimeError`, as in eager mode, if a list of learning rates has none for the next step of its optimizer."""
    from ..nn.optim.rates import ListedRates, require_rate

    stored = {name: item.value for kind in (program.parameters, program.buffers) for name, item in kind.items()}
    for call in program.calls:
        rates = stored.get(f"{call.path}.learning_rate".removeprefix("."))
        if call.class_name != ListedRates.__name__ or rates is None:
            continue
        steps = [value for name, value in stored.items() if name.rpartition(".")[2] == "global_step"]
        arrays = (given[value] for value in steps or program.inputs)
        made = max((int(array.item()) for array in arrays if array.size == 1), default=0)
        require_rate("learning_rate", given[rates].size, made)


class ProgramRunner:
    """A traced program, ready to run.

    Random numbers are drawn here, by the kernels of the interpreter, so that `set_seed` makes them what they are in
    eager mode, and handed to ONNX Runtime. Where that can't be, since what is drawn depends on values that are
    computed, or whether it is (in a branch or loop), the interpreter runs the program.

    Attributes:
        traced: the program, and the Parameters whose values it takes and gives.
        program: the same with what is drawn as further inputs, if ONNX Runtime runs it.
        interpreted: whether the interpreter runs it.
    """

    def __init__(self, traced: TracedProgram, *, interpreted: bool = False) -> None:
        self.traced = traced
        self._draws = None if interpreted else _draws(traced.program)
        if self._draws is None and not interpreted:
            name = traced.program.calls[0].class_name
            warnings.warn(f"{IN_INTERPRETER}: {name} draws numbers that the run decides on", stacklevel=2)
        self.interpreted = self._draws is None
        self.program = traced.program if self._draws is None else _sampled_before(traced.program, self._draws)
        values = {n: item.value for kind in (self.program.parameters, self.program.buffers) for n, item in kind.items()}
        self.parameters = {values[name]: parameter for name, parameter in traced.parameters.items()}
        self.forward = self.computing((*self.program.outputs, *self.program.updates.values()))

    def computing(self, wanted: Sequence[Value]) -> Computation:
        """A computation of other values of the program."""
        return Computation(self.program, wanted, interpreted=self.interpreted)

    def given(self, inputs: Sequence[Array]) -> dict[Value, Array]:
        """What a run takes: the inputs, what the Parameters hold, and new draws."""
        taken = {value: parameter._array for value, parameter in self.parameters.items()}
        taken.update(zip(self.traced.program.inputs, inputs, strict=True))
        if self._draws:
            sizes = bind(self.traced.program, inputs)
            for node in self._draws:
                attributes = {name: substituted(item, sizes) for name, item in node.attributes.items()}
                (taken[node.outputs[0]],) = evaluate(get(node.op), [], attributes)
        return taken

    def keep(self, results: Mapping[Value, Array]) -> list[Array]:
        """Print what the program prints, and give the Parameters their new values; returns the outputs.

        Raises:
            Exception: what the program raises; the Parameters stay as they were.
        """
        outputs = [results[value] for value in self.program.outputs]
        printed = self.traced.printed
        if printed:
            first = len(outputs) - len(outputs_of(printed))
            write(printed, map(wrapped, outputs[first:]))
        for name, update in self.program.updates.items():
            self.traced.parameters[name]._array = results[update]
        return outputs

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the program: one array for each input gives one for each output. Parameters get their new values."""
        return self.keep(self.forward.run(self.given(inputs)))


def _draws(program: Program) -> list[Node] | None:
    """The nodes that draw; None where some can only draw once the program runs."""
    known = input_symbols(program.inputs)
    found = [node for node in program.nodes if node.op in RANDOM_OPS]
    inner = any(
        isinstance(item, Program) and _draws(item) != [] for node in program.nodes for item in node.attributes.values()
    )
    return None if inner or any(node.inputs or symbols_used(node) - known for node in found) else found


def _sampled_before(program: Program, draws: Sequence[Node]) -> Program:
    inputs = (*program.inputs, *(node.outputs[0] for node in draws))
    nodes = tuple(node for node in program.nodes if node not in set(draws))
    return program.replace(inputs=inputs, nodes=nodes, arguments=positional(len(inputs)))
