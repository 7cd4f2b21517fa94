"""ATen random operators: dropout and random tensors.

Random numbers recorded from torch can be replayed, because there is one random node for each random call of eager torch
on a CPU, in the same order and with the same shape and dtype:

- dropout (`aten.native_dropout` in an exported graph, where eager torch calls `bernoulli_` on an empty tensor shaped
  like the input): the 0/1 mask, before it is divided by the probability of keeping an element. Feature dropout
  (dropout1d, 2d, 3d) and alpha dropout are `aten.bernoulli.p` and arithmetic; for features, (batch, channels, 1, ...).
- attention with dropout: the 0/1 mask of all weights, (..., queries, keys).
- recurrent layers with dropout: the 0/1 mask of a layer's outputs (time, batch, features of both directions), after
  each layer except the last; time comes first, whatever `batch_first` is.

No random numbers are drawn for a dropout probability of 0 or 1, in eval mode, or for an empty tensor.
"""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim
from ....runtime.ops import random as ops
from ....runtime.ops import random_distributions as distributions
from ....runtime.ops import shaping
from ....runtime.ops.common import broadcast_shapes
from ....runtime.tracing import SymbolicTensor
from ...rows import Row
from ...unsupported import Unsupported
from .table import Context, aten, cast, operands, pass_on

LONG = 4  # torch's number for int64, the default of the schema; the dtype itself is that of `context`


def dropout_mask(context: Context, shape: tuple[Dim, ...], dtype: Any, p: float) -> SymbolicTensor | None:
    """The mask of a dropout with probability `p`: 1 keeps an element, 0 drops it; None if no mask is drawn."""
    if p in (0.0, 1.0) or 0 in shape:
        return None
    draws: SymbolicTensor = context.builder.create(ops.bernoulli, shape=shape, probability=1.0 - p, dtype=dtype)
    return draws


def dropout(context: Context, x: SymbolicTensor, p: float) -> SymbolicTensor:
    """Dropout in train mode: elements are zeroed with probability `p`, the others divided by `1 - p`."""
    draws = dropout_mask(context, x.shape, x.dtype, p)
    if draws is None:
        return x * 0.0 if p == 1.0 else x
    result: SymbolicTensor = x * (draws / (1.0 - p))
    return result


@aten("aten.native_dropout.default")
def native_dropout(
    context: Context, input: SymbolicTensor, p: float, train: bool | None
) -> tuple[SymbolicTensor, SymbolicTensor | None]:
    """native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)"""
    if context.used[1]:
        raise Unsupported("its mask as a result")
    return input if train is False else dropout(context, input, p), None


@aten("aten.bernoulli.p")
def bernoulli(context: Context, self: SymbolicTensor, p: float) -> SymbolicTensor:
    """bernoulli.p(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    draws: SymbolicTensor = context.builder.create(
        ops.bernoulli, shape=context.shape, probability=p, dtype=context.dtype
    )
    return draws


@aten("aten.bernoulli.Tensor")
def bernoulli_tensor(context: Context, self: SymbolicTensor, p: SymbolicTensor) -> Any:
    """bernoulli.Tensor(Tensor self, Tensor p, *, Generator? generator=None) -> Tensor"""
    return ops.bernoulli_each(shaping.expand(cast(p, context.dtype), shape=context.shape))


@aten("aten.rand.default", "aten.rand.generator", "aten.rand_like.default", "aten.rand_like.generator")
def rand(context: Context, *operands: Any, dtype: Any = None) -> SymbolicTensor:
    """rand(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
    """
    return _uniform(context, 0.0, 1.0)


@aten("aten.uniform.default")
def uniform(context: Context, self: SymbolicTensor, low: float = 0.0, high: float = 1.0) -> SymbolicTensor:
    """uniform(Tensor self, float from=0., float to=1., *, Generator? generator=None) -> Tensor"""
    return _uniform(context, low, high)


@aten("aten.randn.default", "aten.randn.generator", "aten.randn_like.default", "aten.randn_like.generator")
def randn(context: Context, *operands: Any, dtype: Any = None) -> SymbolicTensor:
    """randn(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None)
    -> Tensor
    """
    return _normal(context, 0.0, 1.0)


@aten("aten.exponential.default")
def exponential(context: Context, self: SymbolicTensor, lambd: float = 1.0) -> SymbolicTensor:
    """exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor"""
    draws: SymbolicTensor = context.builder.create(
        ops.exponential, shape=context.shape, rate=lambd, dtype=context.dtype
    )
    return draws


@aten("aten.normal.Tensor_float", "aten.normal.float_Tensor", "aten.normal.Tensor_Tensor")
def normal_tensor(context: Context, mean: Any, std: Any = 1.0) -> Any:
    """normal.Tensor_Tensor(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor"""
    shape = broadcast_shapes(*(x.shape for x in (mean, std) if isinstance(x, SymbolicTensor)))
    mean, std = (shaping.expand(x, shape=shape) for x in operands(context, context.dtype, mean, std))
    return distributions.normal_each(mean, std)


@aten("aten.cauchy.default")
def cauchy(context: Context, self: SymbolicTensor, median: float = 0.0, sigma: float = 1.0) -> Any:
    """cauchy(Tensor self, float median=0., float sigma=1., *, Generator? generator=None) -> Tensor"""
    return _sample(context, distributions.cauchy, median=float(median), scale=float(sigma))


@aten("aten.log_normal.default")
def log_normal(context: Context, self: SymbolicTensor, mean: float = 1.0, std: float = 2.0) -> Any:
    """log_normal(Tensor self, float mean=1., float std=2., *, Generator? generator=None) -> Tensor"""
    return _sample(context, distributions.log_normal, mean=float(mean), deviation=float(std))


@aten("aten.geometric.default")
def geometric(context: Context, self: SymbolicTensor, p: float) -> Any:
    """geometric(Tensor self, float p, *, Generator? generator=None) -> Tensor"""
    return _sample(context, distributions.geometric, probability=float(p))


@aten("aten.binomial.default")
def binomial(context: Context, count: SymbolicTensor, prob: SymbolicTensor) -> Any:
    """binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"""
    return distributions.binomial(*operands(context, context.dtype, count, prob))


@aten("aten.randperm.default", "aten.randperm.generator")
def randperm(context: Context, n: Any, *, dtype: Any = LONG) -> Any:
    """randperm(SymInt n, *, ScalarType? dtype=long) -> Tensor"""
    return context.builder.create(distributions.random_permutation, size=n, dtype=context.dtype)


def _sample(context: Context, op: Any, **parameters: Any) -> Any:
    return context.builder.create(op, shape=context.shape, dtype=context.dtype, **parameters)


def _uniform(context: Context, low: float, high: float) -> SymbolicTensor:
    draws: SymbolicTensor = context.builder.create(
        ops.uniform, shape=context.shape, low=float(low), high=float(high), dtype=context.dtype
    )
    return draws


def _normal(context: Context, mean: float, deviation: float) -> SymbolicTensor:
    draws: SymbolicTensor = context.builder.create(
        ops.normal, shape=context.shape, mean=float(mean), deviation=float(deviation), dtype=context.dtype
    )
    return draws


def _integers(context: Context, low: Any, high: Any) -> SymbolicTensor:
    if not isinstance(low, int) or not isinstance(high, int):
        raise Unsupported("a bound that varies with the sizes of the inputs")
    draws: SymbolicTensor = context.builder.create(
        ops.integers, shape=context.shape, low=low, high=high, dtype=context.dtype
    )
    return draws


ROWS: dict[str, Row] = {
    "aten.bernoulli.default": (ops.bernoulli_each, "self"),
    "aten.normal.float_float": (_normal, "context, mean, std"),
    "aten.normal_functional.default": (_normal, "context, mean, std"),
    "aten.randint.default": (_integers, "context, 0, high"),
    "aten.randint.generator": (_integers, "context, 0, high"),
    "aten.randint.low": (_integers, "context, low, high"),
    "aten.randint.low_generator": (_integers, "context, low, high"),
    "aten.randint_like.default": (_integers, "context, 0, high"),
    "aten.randint_like.generator": (_integers, "context, 0, high"),
    "aten.randint_like.low_dtype": (_integers, "context, low, high"),
    "aten.randint_like.low_generator_dtype": (_integers, "context, low, high"),
    "aten.poisson.default": (distributions.poisson, "self"),
    "aten.multinomial.default": (distributions.multinomial, "self, count=num_samples, replacement=replacement"),
}
pass_on(ROWS)
