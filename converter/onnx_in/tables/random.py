"""ONNX random operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ops import elementwise, random, shaping, sorting
from ....runtime.tracing import SymbolicTensor
from ..model import protos
from .context import Context
from .table import cast, onnx


def _kind(input: Any, dtype: int | None, name: str) -> np.dtype[Any]:
    kind: np.dtype[Any] = input.dtype if dtype is None else protos.dtype_of(dtype, name)
    return kind


@onnx("RandomUniform", folds=False)
def random_uniform(
    context: Context, *, shape: Any, dtype: int = 1, low: float = 0.0, high: float = 1.0, seed: float | None = None
) -> Any:
    """RandomUniform-1..22() -> output"""
    kind = protos.dtype_of(dtype, "RandomUniform")
    return context.builder.create(random.uniform, shape=tuple(shape), low=low, high=high, dtype=kind)


@onnx("RandomUniformLike", values=("input",), folds=False)
def random_uniform_like(
    context: Context, input: Any, *, dtype: int | None = None, low: float = 0.0, high: float = 1.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    """RandomUniformLike-1..22(input) -> output"""
    kind = _kind(input, dtype, "RandomUniformLike")
    return context.builder.create(random.uniform, shape=tuple(input.shape), low=low, high=high, dtype=kind)


@onnx("RandomNormal", folds=False)
def random_normal(
    context: Context, *, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    """RandomNormal-1..22() -> output"""
    kind = protos.dtype_of(dtype, "RandomNormal")
    return context.builder.create(random.normal, shape=tuple(shape), mean=mean, deviation=scale, dtype=kind)


@onnx("RandomNormalLike", values=("input",), folds=False)
def random_normal_like(
    context: Context, input: Any, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    """RandomNormalLike-1..22(input) -> output"""
    kind = _kind(input, dtype, "RandomNormalLike")
    return context.builder.create(random.normal, shape=tuple(input.shape), mean=mean, deviation=scale, dtype=kind)


@onnx("Bernoulli", folds=False)
def bernoulli(context: Context, input: SymbolicTensor, *, dtype: int | None = None, seed: float | None = None) -> Any:
    """Bernoulli-15..22(input) -> output"""
    sampled = random.bernoulli_each(input)
    return cast(sampled, input.dtype if dtype is None else protos.dtype_of(dtype, "Bernoulli"))


@onnx("Multinomial", folds=False)
def multinomial(
    context: Context, input: SymbolicTensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Any:
    """Multinomial-7..22(input) -> output: classes (batch, samples), from unnormalized log-probabilities"""
    if input.ndim != 2:
        raise ShapeError(f"needed (batch, classes), given {input.value.type}")
    batch, classes = input.shape
    # the argmax of logits plus Gumbel noise is a class with its probability (Maddison et al. 2014)
    noise = context.builder.create(random.exponential, shape=(batch, sample_size, classes), dtype=input.dtype)
    scores = shaping.reshape(input, shape=(batch, 1, classes)) - elementwise.log(noise)
    return cast(sorting.argmax(scores, axis=2), protos.dtype_of(dtype, "Multinomial"))
