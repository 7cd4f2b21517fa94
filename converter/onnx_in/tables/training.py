"""Operators of the domain ai.onnx.preview.training: steps of optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ops import comparison, elementwise, shaping
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .table import cast, onnx

DOMAIN = "ai.onnx.preview.training"


def _apply_to_each(
    operands: tuple[SymbolicTensor, ...], states: int, step: Callable[..., tuple[Any, ...]]
) -> tuple[Any, ...]:
    """Apply a step to each tensor; operands and results are grouped: all tensors, all gradients, all states."""
    count, rest = divmod(len(operands), 2 + states)
    if rest:
        raise ShapeError(f"needed {2 + states} operands for each tensor, given {len(operands)}")
    groups = [operands[i * count : (i + 1) * count] for i in range(2 + states)]
    results = [step(*row) for row in zip(*groups, strict=True)]
    return tuple(value for column in zip(*results, strict=True) for value in column)


def _is_after_first_step(T: SymbolicTensor) -> Any:
    """Whether this isn't the first step."""
    return comparison.greater(shaping.reshape(T, shape=()), np.zeros((), T.dtype))


@onnx("Adagrad", domain=DOMAIN)
def adagrad(
    context: Context, R: SymbolicTensor, T: SymbolicTensor, *inputs: SymbolicTensor, decay_factor: float = 0.0,
    epsilon: float = 0.0,
    norm_coefficient: float = 0.0,
) -> Any:  # fmt: skip
    """Adagrad-1(R, T, *inputs) -> *outputs"""

    def step(x: SymbolicTensor, g: SymbolicTensor, h: SymbolicTensor) -> tuple[Any, ...]:
        rate = cast(R, x.dtype) / (cast(T, x.dtype) * decay_factor + 1.0)
        g = x * norm_coefficient + g
        h = h + g * g
        return x - rate * g / (elementwise.sqrt(h) + epsilon), h

    return _apply_to_each(inputs, 1, step)


@onnx("Momentum", domain=DOMAIN)
def momentum(
    context: Context, R: SymbolicTensor, T: SymbolicTensor, *inputs: SymbolicTensor, alpha: float, beta: float,
    mode: str,
    norm_coefficient: float,
) -> Any:  # fmt: skip
    """Momentum-1(R, T, *inputs) -> *outputs"""

    def step(x: SymbolicTensor, g: SymbolicTensor, v: SymbolicTensor) -> tuple[Any, ...]:
        rate = cast(R, x.dtype)
        g = x * norm_coefficient + g
        weight = elementwise.where(_is_after_first_step(T), np.asarray(beta, x.dtype), np.ones((), x.dtype))
        v = v * alpha + g * weight
        return x - rate * (g + v * alpha if mode == "nesterov" else v), v

    return _apply_to_each(inputs, 1, step)


@onnx("Adam", domain=DOMAIN)
def adam(
    context: Context, R: SymbolicTensor, T: SymbolicTensor, *inputs: SymbolicTensor, alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 0.0, norm_coefficient: float = 0.0, norm_coefficient_post: float = 0.0,
) -> Any:  # fmt: skip
    """Adam-1(R, T, *inputs) -> *outputs"""

    def step(x: SymbolicTensor, g: SymbolicTensor, v: SymbolicTensor, h: SymbolicTensor) -> tuple[Any, ...]:
        g = x * norm_coefficient + g
        v = v * alpha + g * (1.0 - alpha)
        h = h * beta + g * g * (1.0 - beta)
        t = cast(T, x.dtype)
        corrections = [1.0 - elementwise.pow(np.asarray(b, x.dtype), t) for b in (alpha, beta)]
        corrected = elementwise.sqrt(corrections[1]) / corrections[0]
        rate = cast(R, x.dtype) * elementwise.where(_is_after_first_step(T), corrected, np.ones((), x.dtype))
        new = x - rate * (v / (elementwise.sqrt(h) + epsilon))
        return new * (1.0 - norm_coefficient_post), v, h

    return _apply_to_each(inputs, 2, step)
