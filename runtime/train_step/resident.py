"""`Resident`: a compiled program whose buffers stay on the device between runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from ..compiled.executable import Executable
from ..compiled.session import ORT_ERRORS, array_of, choose_provider, ort_value
from ..ir.program import Program
from ..ir.types import Type, Value
from ..programs.random_inputs import draws_as_inputs
from ..providers import find
from .draws import Draws, independent_draws

Array = np.ndarray[Any, Any]


class Resident:
    """A program that updates its buffers: each run starts from the buffers of the previous run, without a copy.

    Each buffer has two places on the device: a run reads from one and writes to the other. On a GPU, inputs and results
    have a place too if all sizes are known, so that a run can be recorded as a CUDA graph: one for each direction.

    Args:
        program: the program; its buffers with an update are the state.
        results: the values that a run returns, with known shapes.
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
        results: Sequence[Value],
        extra_inputs: Sequence[Value] = (),
        provider: str | None = None,
        extra_outputs: Sequence[Value] = (),
    ) -> None:
        self._provider = choose_provider(provider)
        self._state = {name: b.value for name, b in program.buffers.items() if b.update is not None}
        self.names = tuple(self._state)
        self._extra_outputs = len(extra_outputs)
        inputs = [*program.inputs, *extra_inputs]
        fixed = self._provider == "cuda" and not extra_outputs and all(v.type.sizes is not None for v in inputs)
        draws = independent_draws(program) if fixed else []
        self.executable = Executable(
            draws_as_inputs(program, draws),
            [*results, *extra_outputs, *program.updates.values()],
            [*self._state.values(), *extra_inputs],
            provider,
            cuda_graph=fixed,
        )
        drawn = [node.outputs[0] for node in draws]
        used_inputs = self.executable.inputs if fixed else {}
        self._inputs = {value: self._place(value.type) for value in (*inputs, *drawn) if value in used_inputs}
        self._results = [self._place(value.type) for value in results]
        self._draws = Draws(program, {node: self._inputs[node.outputs[0]] for node in draws}, self._provider)
        self._places = [{name: self._place(value.type) for name, value in self._state.items()} for _ in range(2)]
        self._prepare()
        self.load({name: program.constant_data[value] for name, value in self._state.items()})

    def _place(self, type: Type) -> ort.OrtValue:
        """Return memory on the device for a tensor of known size."""
        assert type.sizes is not None, f"a tensor that stays on the device has a known shape: {type}"
        dtype = onnx.helper.np_dtype_to_tensor_dtype(type.dtype)
        return ort.OrtValue.ortvalue_from_shape_and_type(type.sizes, dtype, find(self._provider).device, 0)

    def _prepare(self) -> None:
        """Bind the tensors of the next run and of the one after it."""
        self._bindings = [self._bind(*self._places), self._bind(*reversed(self._places))]
        self._options = [self._run_options(graph) for graph in (1, 2)]

    def _bind(self, now: Mapping[str, ort.OrtValue], following: Mapping[str, ort.OrtValue]) -> ort.IOBinding:
        """Return a binding that reads the state from `now` and writes it to `following`."""
        binding = self.executable.session.ort.io_binding()
        count = len(self._results)
        for name, result in zip(self.executable.outputs[:count], self._results, strict=True):
            binding.bind_ortvalue_output(name, result)
        for name in self.executable.outputs[count : count + self._extra_outputs]:
            binding.bind_output(name, "cpu")
        for name, output in zip(self._state, self.executable.outputs[count + self._extra_outputs :], strict=True):
            binding.bind_ortvalue_output(output, following[name])
            if source := self.executable.inputs.get(self._state[name]):
                binding.bind_ortvalue_input(source, now[name])
        for value, buffer in self._inputs.items():
            binding.bind_ortvalue_input(self.executable.inputs[value], buffer)
        return binding

    def _run_options(self, graph: int) -> ort.RunOptions | None:
        """Return the options of the runs that are the CUDA graph of this number."""
        if not self.executable.session.cuda_graph:
            return None
        options = ort.RunOptions()
        options.add_run_config_entry("gpu_graph_id", str(graph))
        return options

    def load(self, state: Mapping[str, Array]) -> None:
        """Set the state, or a part of it, by name; arrays have the dtypes and shapes of the buffers."""
        for name, array in state.items():
            self._places[0][name].update_inplace(ort_value(array))

    def run(self, feeds: Mapping[Value, Array]) -> list[Array]:
        """Run the program on inputs and `extra_inputs`, update the state, and return results and extra outputs.

        Raises:
            SessionError: ONNX Runtime fails; the state stays unchanged.
        """
        session = self.executable.session
        binding = self._bindings[0]
        for value, name in self.executable.inputs.items():
            if value in feeds:
                tensor = session.value(name, feeds[value])
                if value in self._inputs:
                    self._inputs[value].update_inplace(tensor)
                else:
                    binding.bind_ortvalue_input(name, tensor)
        self._draws.run()
        try:
            session.ort.run_with_iobinding(binding, self._options[0])
        except (*ORT_ERRORS, RuntimeError) as error:  # with a binding, any failure raises RuntimeError
            if not session.cuda_graph:
                raise session.explain(error) from error
            session.stop_recording()
            self._prepare()
            return self.run(feeds)
        for of_direction in (self._bindings, self._options, self._places):
            of_direction.reverse()
        count = len(self._results)
        extra_outputs = binding.get_outputs()[count : count + self._extra_outputs] if self._extra_outputs else []
        return [*map(self._array, self._results), *(array_of(value).copy() for value in extra_outputs)]

    def state(self) -> dict[str, Array]:
        """Return a copy of the buffers, by name."""
        return {name: self._array(value) for name, value in self._places[0].items()}

    def _array(self, value: ort.OrtValue) -> Array:
        """Return a copy of a tensor on the device."""
        if find(self._provider).device == "cpu":
            return array_of(value).copy()
        on_cpu = ort.OrtValue.ortvalue_from_shape_and_type(value.shape(), value.element_type(), "cpu", 0)
        on_cpu.update_inplace(value)
        return array_of(on_cpu).copy()
