"""torch's random draws, recorded in order and replayed in the program, by name of a random node, and in torch."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cellbridge.parity.sides.program_draws import without_leading_ones
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ops.registry import get
from cellbridge.runtime.programs.call import as_array, gradient_program
from cellbridge.runtime.programs.interpreter import execute

Array = np.ndarray[Any, Any]

SLOPES = torch.ops.aten.rrelu_with_noise.default


class Draws(TorchDispatchMode):
    """Records torch's random draws in order; with `replay`, returns these instead of drawing."""

    def __init__(self, replay: Sequence[torch.Tensor] | None = None) -> None:
        super().__init__()
        self.recorded: list[torch.Tensor] = []
        self.replay = None if replay is None else iter(replay)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        if func is SLOPES and not args[4]:  # not in train mode
            return func(*args)
        if func is SLOPES:  # it writes its random numbers into its second operand
            noise = next(self.replay) if self.replay is not None else args[1]
            if self.replay is None:
                func(*args, **(kwargs or {}))
                self.recorded.append(noise.clone())
            args[1].copy_(noise)  # for the backward pass
            return torch.where(args[0] <= 0, args[0] * noise, args[0])
        if self.replay is not None:
            draw = next(self.replay)
            return args[0].copy_(draw) if func._schema.is_mutable else draw.clone()
        result = func(*args, **(kwargs or {}))
        self.recorded.append(result[0].clone() if isinstance(result, tuple) else result.clone())
        return result


class Replaying:
    """Runs a program with torch's draws."""

    def __init__(self, program: Program, draws: Draws) -> None:
        self.program = program
        self.recorded = draws.recorded
        nodes = [node for node in program.nodes if get(node.op).traits.draws]
        self.draws: dict[str, Array] = {}
        if len(nodes) == len(self.recorded):
            for node, sampled in zip(nodes, self.recorded, strict=True):
                self.draws[node.outputs[0].name] = without_leading_ones(as_array(sampled), len(node.outputs[0].shape))

    def run(self, tensors: Sequence[torch.Tensor]) -> list[Array]:
        return execute(self.program, [real(t) for t in tensors], draws=self.draws)

    def gradients(self, tensors: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]) -> list[Array | None]:
        """Return the gradient of each floating-point or complex input; zeros if there is none."""
        backward = gradient_program(self.program)
        inputs = [real(t) for t in tensors]
        outputs = [v for v in backward.input_gradients if v is not None]
        results = iter(execute(backward.program, [*inputs, *map(real, cotangents)], wanted=outputs, draws=self.draws))
        gradients_ = [next(results) if v is not None else None for v in backward.input_gradients]
        floating = [
            (x, g)
            for x, g, t in zip(inputs, gradients_, tensors, strict=True)
            if t.is_floating_point() or t.is_complex()
        ]
        return [np.zeros_like(x) if g is None else g for x, g in floating]

    @contextlib.contextmanager
    def replay_in_torch(self) -> Iterator[None]:
        """Within the context, torch repeats its draws."""
        with Draws(self.recorded):
            yield


def real(tensor: torch.Tensor) -> Array:
    """Return a tensor as an array, with complex numbers as pairs of reals."""
    return as_array(torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor)
