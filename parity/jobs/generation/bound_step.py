"""`BoundStep`: the program of a step in ONNX Runtime, whose state stays in the memory of the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime as ort

from ....runtime.compiled.executable import Executable
from ....runtime.compiled.session import array_of, best_provider, ort_value
from ....runtime.errors import ConversionError
from ....runtime.ir.program import Program
from ...sides.records import Array


class BoundStep:
    """A step whose state is bound: each step reads what the one before has left on the device, as deployments do.

    Args:
        program: takes a token and the tensors of the state, and returns the outputs for it and the new state.

    Raises:
        ConversionError: an op has no ONNX form, or the state has other tensors afterwards.
    """

    def __init__(self, program: Program) -> None:
        if len(program.inputs) != len(program.outputs):
            raise ConversionError(
                f"the step takes a state of {len(program.inputs) - 1} tensors, and returns {len(program.outputs) - 1}"
            )
        self.device = best_provider()
        self.program = program
        self.executable = Executable(program, program.outputs, provider=self.device)

    def __call__(self, token: Array, state: Sequence[Any]) -> tuple[Array, list[ort.OrtValue]]:
        """Return the outputs for a token, and the new state, which stays on the device.

        Args:
            token: the token.
            state: arrays, or what the step before returned.

        Raises:
            SessionError: ONNX Runtime fails.
        """
        session = self.executable.session
        binding = session.ort.io_binding()
        for value, tensor in zip(self.program.inputs, (token, *state), strict=True):
            if value in self.executable.inputs:
                binding.bind_ortvalue_input(self.executable.inputs[value], self._placed(tensor))
        for name in self.executable.outputs:
            binding.bind_output(name, "cpu" if name == self.executable.outputs[0] else self.device)
        try:
            session.ort.run_with_iobinding(binding)
        except RuntimeError as error:  # with a binding, any failure raises it
            raise session.explain(error) from error
        logits, *after = binding.get_outputs()
        return array_of(logits), after

    def _placed(self, tensor: Any) -> ort.OrtValue:
        """Return a tensor on the device."""
        if not isinstance(tensor, np.ndarray):
            return tensor
        return ort_value(tensor) if self.device == "cpu" else ort.OrtValue.ortvalue_from_numpy(tensor, self.device, 0)
