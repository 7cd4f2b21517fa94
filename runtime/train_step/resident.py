"""`Resident`: a compiled program whose buffers stay on the device from run to run."""

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
    """A program that changes its buffers: each run takes them as the run before left them, and none is copied.

    A buffer has two places on the device: a run reads the one and writes the other.

    Args:
        program: the program; its buffers with an update are the state.
        wanted: the values that a run gives, beside the new state: of known shape.
        extra_inputs: other parameters and buffers to pass in each run; the rest is stored in the model.
        provider: "cpu", "cuda", or None for the best that is here.
        further: values that a run gives, too, of any shape.

    Attributes:
        executable: what runs.
        names: of the buffers that are the state.

    Raises:
        UnsupportedOperators: ops that have no ONNX form.
        ConversionError: an op has no ONNX form with these attributes or symbolic sizes.
        UsageError: ONNX Runtime can't run the model, or the provider isn't available here.
    """

    def __init__(
        self,
        program: Program,
        wanted: Sequence[Value],
        extra_inputs: Sequence[Value] = (),
        provider: str | None = None,
        further: Sequence[Value] = (),
    ) -> None:
        self._state = {name: b.value for name, b in program.buffers.items() if b.update is not None}
        self.names = tuple(self._state)
        self._further = len(further)
        results = [*wanted, *further, *program.updates.values()]
        self.executable = Executable(program, results, [*self._state.values(), *extra_inputs], provider)
        self._results = [np.zeros(_known(value.type), value.dtype) for value in wanted]
        self._now: dict[str, ort.OrtValue] = {}
        self._next: dict[str, ort.OrtValue] = {}
        self.load({name: program.constant_data[value] for name, value in self._state.items()})

    def load(self, state: Mapping[str, Array]) -> None:
        """Set the state, or some of it, by name; arrays have the dtypes and shapes of the buffers."""
        for name, array in state.items():
            self._now[name] = self._placed(array)
            if name not in self._next:
                self._next[name] = self._placed(array)
        self._bindings = [self._bound(self._now, self._next), self._bound(self._next, self._now)]

    def _placed(self, array: Array) -> ort.OrtValue:
        """A copy of an array on the device."""
        provider = self.executable.session.provider
        if provider == "cpu":
            return ort_value(np.array(array, order="C"))
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array), provider, 0)

    def _bound(self, now: Mapping[str, ort.OrtValue], following: Mapping[str, ort.OrtValue]) -> ort.IOBinding:
        """A run that reads the state in one place and writes it in the other."""
        binding = self.executable.session.ort.io_binding()
        wanted = len(self._results)
        for name, result in zip(self.executable.outputs[:wanted], self._results, strict=True):
            binding.bind_ortvalue_output(name, ort_value(result))
        for name in self.executable.outputs[wanted : wanted + self._further]:
            binding.bind_output(name, "cpu")
        for name, output in zip(self._state, self.executable.outputs[wanted + self._further :], strict=True):
            binding.bind_ortvalue_output(output, following[name])
            if taken := self.executable.inputs.get(self._state[name]):
                binding.bind_ortvalue_input(taken, now[name])
        return binding

    def run(self, given: Mapping[Value, Array]) -> list[Array]:
        """What is wanted, and what is further, from the inputs and the values that are handed in; the state moves on.

        Raises:
            SessionError: ONNX Runtime fails; the state is what it was.
        """
        session = self.executable.session
        binding = self._bindings[0]
        for value, name in self.executable.inputs.items():
            if value in given:
                binding.bind_ortvalue_input(name, session.value(name, given[value]))
        try:
            session.ort.run_with_iobinding(binding)
        except (*ORT_ERRORS, RuntimeError) as error:  # bound, it raises RuntimeError for any failure
            raise session.explain(error) from error
        self._bindings.reverse()
        self._now, self._next = self._next, self._now
        wanted = len(self._results)
        further = binding.get_outputs()[wanted : wanted + self._further] if self._further else []
        return [*(result.copy() for result in self._results), *(array_of(value).copy() for value in further)]

    def state(self) -> dict[str, Array]:
        """A copy of the buffers, by name."""
        return {name: array_of(value).copy() for name, value in self._now.items()}


def _known(type: Type) -> tuple[int, ...]:
    assert type.sizes is not None, f"a result of a run with a resident state has a known shape: {type}"
    return type.sizes
