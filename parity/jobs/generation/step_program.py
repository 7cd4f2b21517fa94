"""`StepProgram`: one step of decoding as a program, with the state as its inputs and outputs.

`BoundStep` runs it in ONNX Runtime, with the state in the memory of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
import torch

from ....runtime.compiled.executable import Executable
from ....runtime.compiled.session import array_of, best_provider, ort_value
from ....runtime.errors import ConversionError, UsageError
from ....runtime.ir.program import Program
from ....runtime.programs.call import as_array
from ...sides.records import Array
from ...sides.torch_program import capture_program
from .decoder import Decoder, cast, in_chunks
from .states import Rebuild, flatten


class StepProgram:
    """A decoder's step for one token, captured with the state after a prompt; the length of the state may vary.

    Args:
        decoder: the network.
        tokens: the sequences, [batch, length, ...].
        prompt: length of the prompt, which torch computes; at least 2 tokens follow.
        working: working dtype.

    Attributes:
        refusal: why ONNX Runtime can't run it; empty if it can, or wasn't asked.

    Raises:
        ConversionError: the step can't be converted, or its state has numbers outside of tensors.
    """

    def __init__(self, decoder: Decoder, tokens: torch.Tensor, prompt: int, working: str) -> None:
        self.decoder, self.tokens, self.prompt, self.working = decoder, tokens, prompt, working
        states = [self._state(working, prompt + more) for more in (0, 1)]
        (leaves, self.rebuild), (later, _) = map(flatten, states)
        other = [name for name, leaf in leaves.items() if not isinstance(leaf, torch.Tensor) and leaf is not None]
        if other:
            raise ConversionError(
                f"the state has values that aren't tensors ({', '.join(other[:3])}), which a program can't take"
            )
        axes = [
            {axis: f"past{size}" for axis, size in enumerate(leaf.shape) if size != later[name].shape[axis]}
            for name, leaf in leaves.items()
        ]
        self.refusal = ""
        step = _Step(decoder, self.rebuild)
        token = cast(tokens[:, prompt : prompt + 1], working, working)
        self.program = capture_program(
            step,
            (token, tuple(leaves.values())),
            {},
            (None, tuple(axis or None for axis in axes)),
            working,
            train=False,
        )

    def in_interpreter(self, dtype: str) -> Array:
        """Return the outputs for the tokens after the prompt, [batch, length, ...], computed in a dtype."""
        return self._decode(dtype, self.program.astype(dtype))

    def in_onnxruntime(self) -> Array | None:
        """Return the same, computed by ONNX Runtime in the working dtype; None and `refusal` if it can't.

        The state stays on the device: a GPU where there is one.
        """
        try:
            bound = BoundStep(self.program)
        except ConversionError as error:
            self.refusal = f"the step can't be run by ONNX Runtime: {str(error).partition(chr(10))[0]}"
            return None
        return self._decode(self.working, bound)

    def _state(self, dtype: str, length: int) -> Any:
        with self.decoder.running(dtype, self.working):
            _, state = in_chunks(self.decoder, cast(self.tokens[:, :length], dtype, self.working), [length])
        return state

    def _decode(self, dtype: str, run: Callable[..., Any]) -> Array:
        leaves, _ = flatten(self._state(dtype, self.prompt))
        state: Sequence[Any] = [as_array(leaf) for leaf in leaves.values()]
        outputs = []
        for position in range(self.prompt, self.tokens.shape[1]):
            token = as_array(cast(self.tokens[:, position : position + 1], dtype, self.working))
            logits, state = run(token, tuple(state))
            outputs.append(logits)
        return np.concatenate(outputs, 1)


class _Step(torch.nn.Module):
    """A step that takes the tensors of the state, and returns those of the new one."""

    def __init__(self, decoder: Decoder, rebuild: Rebuild) -> None:
        super().__init__()
        self.module, self._decoder, self._rebuild = decoder.module, decoder, rebuild
        self.training = False

    def forward(self, token: torch.Tensor, state: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, tuple[Any, ...]]:
        """Return the outputs for one token, and the leaves of the new state."""
        logits, after = self._decoder.step(token, self._rebuild(state), None)
        leaves, _ = flatten(after)
        return logits, tuple(leaves.values())


def step_program(decoder: Decoder, tokens: torch.Tensor, prompt: int, working: str) -> StepProgram | str:
    """Return the program, or why there is none."""
    if tokens.shape[1] - prompt < 2:
        return "the program of a step wasn't run: it takes at least two tokens after the prompt"
    try:
        return StepProgram(decoder, tokens, prompt, working)
    except (ConversionError, UsageError) as error:
        return f"the step can't be converted, so torch alone was judged: {str(error).partition(chr(10))[0]}"


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
