"""`ProgramRunner` runs a traced program on the live Parameters, in ONNX Runtime or in the interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..common.tensor import from_array
from ..errors import ConversionError, UnsupportedOperators
from ..ir.dims import substitute_nested
from ..ir.program import Program
from ..ir.sizes import input_symbols, symbols_used
from ..ir.types import Node, Value
from ..ops.registry import evaluate, get
from ..programs.interpreter import bind, execute
from ..programs.random_inputs import draws_as_inputs, random_nodes
from .printing import outputs_of, write
from .traced import TracedProgram

Array = np.ndarray[Any, Any]


IN_INTERPRETER = "compiled code runs in the interpreter, not in ONNX Runtime"


class Computation:
    """Computes some values of a program in ONNX Runtime, from its inputs and stored tensors, which each run supplies.

    Args:
        program: the program.
        values: the values to compute.
        interpreted: whether to compute them in the interpreter instead.

    Raises:
        ConversionError: an op has no ONNX form with symbolic sizes.

    Warns:
        UserWarning: an op has no ONNX form, so the interpreter computes the values; the warning names op and line.
    """

    def __init__(self, program: Program, values: Sequence[Value], *, interpreted: bool = False) -> None:
        self._program = program
        self._values = list(dict.fromkeys(values))
        self._stored = [item.value for kind in (program.parameters, program.buffers) for item in kind.values()]
        self._executable: Any = None
        if not interpreted and self._values:
            from ..compiled.executable import Executable  # which imports ONNX Runtime

            try:
                self._executable = Executable(program, self._values, self._stored, provider="cpu")
            except ConversionError as error:
                if input_symbols(program.inputs) and not isinstance(error, UnsupportedOperators):
                    raise
                warnings.warn(f"{IN_INTERPRETER}: {error}", stacklevel=2)

    def run(self, feeds: Mapping[Value, Array]) -> dict[Value, Array]:
        """Compute the values from an array for each input and each stored value."""
        if not self._values:
            return {}
        if self._executable is not None:
            try:
                return dict(zip(self._values, self._executable.run(feeds), strict=True))
            except IndexError:
                _require_rates(self._program, feeds)
                raise
        inputs = [feeds[value] for value in self._program.inputs]
        stored = {value: feeds[value] for value in self._stored}
        return dict(zip(self._values, execute(self._program, inputs, wanted=self._values, stored=stored), strict=True))


def _require_rates(program: Program, feeds: Mapping[Value, Array]) -> None:
    """Raise `RuntimeError`, as in eager mode, if a list of learning rates has none for the optimizer's next step."""
    from ..nn.optim.rates import ListedRates, require_rate

    stored = {name: item.value for kind in (program.parameters, program.buffers) for name, item in kind.items()}
    for call in program.calls:
        rates = stored.get(f"{call.path}.learning_rate".removeprefix("."))
        if call.class_name != ListedRates.__name__ or rates is None:
            continue
        steps = [value for name, value in stored.items() if name.rpartition(".")[2] == "global_step"]
        arrays = (feeds[value] for value in steps or program.inputs)
        step = max((int(array.item()) for array in arrays if array.size == 1), default=0)
        require_rate("learning_rate", feeds[rates].size, step)


class ProgramRunner:
    """A traced program, ready to run.

    The kernels of the interpreter draw the random numbers before each run, so that `set_seed` has the same effect as
    in eager mode, and ONNX Runtime gets them as inputs. Where the draws depend on computed values, or happen in a
    branch or loop, that is impossible, and the interpreter runs the program.

    Attributes:
        traced: the program, and the Parameters that it reads and updates.
        program: the program with the random numbers as additional inputs, if ONNX Runtime runs it.
        interpreted: whether the interpreter runs it.
    """

    def __init__(self, traced: TracedProgram, *, interpreted: bool = False) -> None:
        self.traced = traced
        self._random_nodes = None if interpreted else _random_nodes(traced.program)
        if self._random_nodes is None and not interpreted:
            name = traced.program.calls[0].class_name
            warnings.warn(f"{IN_INTERPRETER}: {name} draws random numbers that depend on computed values", stacklevel=2)
        self.interpreted = self._random_nodes is None
        self.program = (
            traced.program if self._random_nodes is None else draws_as_inputs(traced.program, self._random_nodes)
        )
        values = {n: item.value for kind in (self.program.parameters, self.program.buffers) for n, item in kind.items()}
        self.parameters = {values[name]: parameter for name, parameter in traced.parameters.items()}
        self.forward = self.computation((*self.program.outputs, *self.program.updates.values()))

    def computation(self, values: Sequence[Value]) -> Computation:
        """Return a `Computation` of other values of the program."""
        return Computation(self.program, values, interpreted=self.interpreted)

    def feeds(self, inputs: Sequence[Array]) -> dict[Value, Array]:
        """Return the values that a run needs: inputs, values of the Parameters, and new random numbers."""
        result = {value: parameter._array for value, parameter in self.parameters.items()}
        result.update(zip(self.traced.program.inputs, inputs, strict=True))
        if self._random_nodes:
            sizes = bind(self.traced.program, inputs)
            for node in self._random_nodes:
                attributes = {name: substitute_nested(item, sizes) for name, item in node.attributes.items()}
                (result[node.outputs[0]],) = evaluate(get(node.op), [], attributes)
        return result

    def finish(self, results: Mapping[Value, Array]) -> list[Array]:
        """Print the program's messages, update the Parameters, and return the outputs.

        Raises:
            Exception: the exception that the program raises; the Parameters keep their values.
        """
        outputs = [results[value] for value in self.program.outputs]
        entries = self.traced.print_entries
        if entries:
            first = len(outputs) - len(outputs_of(entries))
            write(entries, map(from_array, outputs[first:]))
        for name, update in self.program.updates.items():
            self.traced.parameters[name]._array = results[update]
        return outputs

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Run the program on one array per input, update the Parameters, and return one array per output."""
        return self.finish(self.forward.run(self.feeds(inputs)))


def _random_nodes(program: Program) -> list[Node] | None:
    """The nodes that draw random numbers; None if some of them can only draw while the program runs."""
    symbols = input_symbols(program.inputs)
    result = random_nodes(program)
    inner = any(
        isinstance(item, Program) and _random_nodes(item) != []
        for node in program.nodes
        for item in node.attributes.values()
    )
    return None if inner or any(node.inputs or symbols_used(node) - symbols for node in result) else result
