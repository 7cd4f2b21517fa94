"""`Resident`: a compiled program whose buffers stay on the device between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from ..compiled.executable import Executable
from ..compiled.session import ORT_ERRORS, array_of, ort_value
from ..ir.program import Program
from ..ir.types import Type, Value

Array = np.ndarray[Any, Any]


class Resident:
    """A program that updates its buffers: each run starts from the buffers of the previous run, without a copy.

    Each buffer has two copies on the device: a run reads one and writes the other.

    Args:
        program: the program; its buffers with an update are the state.
        wanted: the values that a run returns, with known shapes.
        extra_inputs: other parameters and buffers whose data each run gets; the rest is constant in the model.
        provider: "cpu", "cuda", or None for the best one available.
        extra_outputs: additional values that a run returns, of any shape.

    Attributes:
        executable: the compiled program.
        names: the names of the buffers that are the state.

    Raises:
        UnsupportedOperators: ops have no ONNX form.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
        UsageError: ONNX Runtime can't run the model, or the provider isn't available.
    """

    def __init__(
        self,
        program: Program,
        wanted: Sequence[Value],
        extra_inputs: Sequence[Value] = (),
        provider: str | None = None,
        extra_outputs: Sequence[Value] = (),
    ) -> None:
        self._state = {name: b.value for name, b in program.buffers.items() if b.update is not None}
        self.names = tuple(self._state)
        self._extra_outputs = len(extra_outputs)
        results = [*wanted, *extra_outputs, *program.updates.values()]
        self.executable = Executable(program, results, [*self._state.values(), *extra_inputs], provider)
        self._results = [np.zeros(_known_shape(value.type), value.dtype) for value in wanted]
        self._now: dict[str, ort.OrtValue] = {}
        self._next: dict[str, ort.OrtValue] = {}
        self.load({name: program.constant_data[value] for name, value in self._state.items()})

    def load(self, state: Mapping[str, Array]) -> None:
        """Set the state, or a part of it, by name; arrays have the dtypes and shapes of the buffers."""
        for name, array in state.items():
            self._now[name] = self._to_device(array)
            if name not in self._next:
                self._next[name] = self._to_device(array)
        self._bindings = [self._bind(self._now, self._next), self._bind(self._next, self._now)]

    def _to_device(self, array: Array) -> ort.OrtValue:
        """Copy an array to the device."""
        provider = self.executable.session.provider
        if provider == "cpu":
            return ort_value(np.array(array, order="C"))
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), provider, 0)

    def _bind(self, now: Mapping[str, ort.OrtValue], following: Mapping[str, ort.OrtValue]) -> ort.IOBinding:
        """Return a binding that reads the state from `now` and writes it to `following`."""
        binding = self.executable.session.ort.io_binding()
        wanted = len(self._results)
        for name, result in zip(self.executable.outputs[:wanted], self._results, strict=True):
            binding.bind_ortvalue_output(name, ort_value(result))
        for name in self.executable.outputs[wanted : wanted + self._extra_outputs]:
            binding.bind_output(name, "cpu")
        for name, output in zip(self._state, self.executable.outputs[wanted + self._extra_outputs :], strict=True):
            binding.bind_ortvalue_output(output, following[name])
            if source := self.executable.inputs.get(self._state[name]):
                binding.bind_ortvalue_input(source, now[name])
        return binding

    def run(self, feeds: Mapping[Value, Array]) -> list[Array]:
        """Run the program on inputs and `extra_inputs`, update the state, and return wanted values and extra outputs.

        Raises:
            SessionError: ONNX Runtime fails; the state stays unchanged.
        """
        session = self.executable.session
        binding = self._bindings[0]
        for value, name in self.executable.inputs.items():
            if value in feeds:
                binding.bind_ortvalue_input(name, session.value(name, feeds[value]))
        try:
            session.ort.run_with_iobinding(binding)
        except (*ORT_ERRORS, RuntimeError) as error:  # with a binding, any failure raises RuntimeError
            raise session.explain(error) from error
        self._bindings.reverse()
        self._now, self._next = self._next, self._now
        wanted = len(self._results)
        extra_outputs = binding.get_outputs()[wanted : wanted + self._extra_outputs] if self._extra_outputs else []
        return [*(result.copy() for result in self._results), *(array_of(value).copy() for value in extra_outputs)]

    def state(self) -> dict[str, Array]:
        """Return a copy of the buffers, by name."""
        return {name: array_of(value).copy() for name, value in self._now.items()}


def _known_shape(type: Type) -> tuple[int, ...]:
    assert type.sizes is not None, f"a result of a run with a resident state has a known shape: {type}"
    return type.sizes
