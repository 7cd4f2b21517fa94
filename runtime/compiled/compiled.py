"""`compile`: turns a program into a function that runs in ONNX Runtime, with its gradient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import UsageError
from ..ir.program import Gradients, Program, require_program
from ..ir.types import Node, is_floating
from ..programs.call import check_cotangents, flat_inputs, gradient_program, result_of
from ..programs.interpreter import bind
from .executable import Executable
from .session import choose_provider

Array = np.ndarray[Any, Any]


def compile(program: Program, provider: str | None = None) -> Compiled:
    """Compile a program: one ONNX model of standard operators, run by ONNX Runtime.

    Args:
        program: the program to compile. The result has the current values of its parameters.
        provider: "cpu", "cuda", or None for the best available one, which `Compiled.provider` names.

    Returns:
        A function with the arguments and the result of `program`. ONNX Runtime loads the model in the first call.

    Raises:
        UnsupportedOperators: ops have no ONNX form; lists all of them, with Cell path and source line.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
        UsageError: the program returns no tensor, or the provider isn't available.
    """
    require_program(program, "; a Cell or function is compiled by `jit`")
    if not program.outputs:
        raise UsageError(f"{program.calls[0].class_name} returns no tensor: there is nothing to compile")
    return Compiled(program, choose_provider(provider))


class Compiled:
    """A compiled program, created by `compile`.

    Symbolic dimensions stay symbolic, so other sizes run without another compilation.

    Attributes:
        program: the program.
        provider: where it runs: name of the execution provider (`runtime.providers`).
    """

    def __init__(self, program: Program, provider: str) -> None:
        self.program = program
        self.provider = provider
        self._forward = Executable(program, program.outputs, provider=provider)
        self._backward: dict[bool, _Backward] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run forward, with the arguments, result and errors of `Program.__call__`.

        Raises:
            UsageError: ONNX Runtime can't run the model, in the first call.
        """
        inputs = flat_inputs(self.program, args, kwargs)
        bind(self.program, inputs)
        results = self._forward.run(dict(zip(self.program.inputs, inputs, strict=True)))
        return result_of(self.program, inputs, results)

    def value_and_grad(
        self, *args: Any, cotangents: Iterable[Any] | None = None, **kwargs: Any
    ) -> tuple[Any, Gradients]:
        """Run forward and backward, with the arguments, result and errors of `Program.value_and_grad`.

        The gradient is compiled in the first call; the model that runs forward alone isn't loaded for it.
        """
        inputs = flat_inputs(self.program, args, kwargs)
        bind(self.program, inputs)
        seeds = None if cotangents is None else check_cotangents(self.program, cotangents)
        has_cotangents = seeds is not None
        if has_cotangents not in self._backward:
            self._backward[has_cotangents] = _Backward(self.program, self.provider, has_cotangents)
        return self._backward[has_cotangents].run(inputs, seeds or [])

    def __reduce__(self) -> Any:  # a session can't be copied: a copy compiles the program once more
        return Compiled, (self.program, self.provider)

    def __repr__(self) -> str:
        return f"<compiled {self.program!r} on {self.provider}>"


class _Backward:
    """The compiled gradient program; if `has_cotangents`, the cotangents are inputs, otherwise they are ones."""

    def __init__(self, program: Program, provider: str, has_cotangents: bool) -> None:
        self.program = program
        self.gradients = gradient_program(program)
        of_all = [*self.gradients.input_gradients, *self.gradients.parameter_gradients.values()]
        self.values = list(dict.fromkeys([*program.outputs, *(value for value in of_all if value is not None)]))
        whole = self.gradients.program
        self.inputs = whole.inputs
        self.executable = Executable(
            whole if has_cotangents else _with_unit_cotangents(program, whole), self.values, (), provider
        )

    def run(self, inputs: Sequence[Array], seeds: Sequence[Array]) -> tuple[Any, Gradients]:
        """Return the result and the gradients."""
        results = self.executable.run(dict(zip(self.inputs, [*inputs, *seeds], strict=False)))
        computed = dict(zip(self.values, results, strict=True))
        of_inputs = tuple(
            None if not is_floating(array.dtype) else np.zeros_like(array) if value is None else computed[value]
            for value, array in zip(self.gradients.input_gradients, inputs, strict=True)
        )
        stored = self.program.parameters
        of_parameters = {
            name: np.zeros_like(self.program.constant_data[stored[name].value]) if value is None else computed[value]
            for name, value in self.gradients.parameter_gradients.items()
        }
        result = result_of(self.program, inputs, [computed[value] for value in self.program.outputs])
        return result, Gradients(of_inputs, of_parameters)


def _with_unit_cotangents(program: Program, whole: Program) -> Program:
    """Return the gradient program with ones for its cotangents, created after the forward part."""
    seeds = whole.inputs[len(program.inputs) :]
    ones = tuple(Node("full", (), {"shape": seed.shape, "value": 1.0, "dtype": seed.dtype}, (seed,)) for seed in seeds)
    forward, backward = whole.nodes[: len(program.nodes)], whole.nodes[len(program.nodes) :]
    return whole.replace(inputs=program.inputs, nodes=forward + ones + backward)
