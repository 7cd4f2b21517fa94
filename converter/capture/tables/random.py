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
from ...unsupported import Unsupported
from .table import Context, aten, cast, operands

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


@aten("aten.bernoulli.default")
def bernoulli_each(context: Context, self: SymbolicTensor) -> Any:
    """bernoulli(Tensor self, *, Generator? generator=None) -> Tensor"""
    return ops.bernoulli_each(self)


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


@aten("aten.normal.float_float")
def normal(context: Context, mean: float, std: float, size: Any, *, dtype: Any = None) -> SymbolicTensor:
    """normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, ScalarType? dtype=None,
    Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor
    """
    return _normal(context, mean, std)


@aten("aten.normal_functional.default")
def normal_functional(context: Context, self: SymbolicTensor, mean: float = 0.0, std: float = 1.0) -> SymbolicTensor:
    """normal_functional(Tensor self, float mean=0., float std=1., *, Generator? generator=None) -> Tensor"""
    return _normal(context, mean, std)


@aten("aten.exponential.default")
def exponential(context: Context, self: SymbolicTensor, lambd: float = 1.0) -> SymbolicTensor:
    """exponential(Tensor self, float lambd=1., *, Generator? generator=None) -> Tensor"""
    draws: SymbolicTensor = context.builder.create(
        ops.exponential, shape=context.shape, rate=lambd, dtype=context.dtype
    )
    return draws


@aten("aten.randint.default", "aten.randint.generator")
def randint(context: Context, high: Any, size: Any, *, dtype: Any = LONG) -> SymbolicTensor:
    """randint(SymInt high, SymInt[] size, *, ScalarType? dtype=long) -> Tensor"""
    return _integers(context, 0, high)


@aten("aten.randint.low", "aten.randint.low_generator")
def randint_low(context: Context, low: Any, high: Any, size: Any, *, dtype: Any = LONG) -> SymbolicTensor:
    """randint.low(SymInt low, SymInt high, SymInt[] size, *, ScalarType? dtype=long) -> Tensor"""
    return _integers(context, low, high)


@aten("aten.randint_like.default", "aten.randint_like.generator")
def randint_like(context: Context, self: SymbolicTensor, high: Any, *, dtype: Any = None) -> SymbolicTensor:
    """randint_like(Tensor self, SymInt high, *, ScalarType? dtype=None) -> Tensor"""
    return _integers(context, 0, high)


@aten("aten.randint_like.low_dtype", "aten.randint_like.low_generator_dtype")
def randint_like_low(
    context: Context, self: SymbolicTensor, low: Any, high: Any, *, dtype: Any = None
) -> SymbolicTensor:
    """randint_like.low_dtype(Tensor self, SymInt low, SymInt high, *, ScalarType? dtype=None) -> Tensor"""
    return _integers(context, low, high)


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


@aten("aten.poisson.default")
def poisson(context: Context, self: SymbolicTensor) -> Any:
    """poisson(Tensor self, Generator? generator=None) -> Tensor"""
    return distributions.poisson(self)


@aten("aten.binomial.default")
def binomial(context: Context, count: SymbolicTensor, prob: SymbolicTensor) -> Any:
    """binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor"""
    return distributions.binomial(*operands(context, context.dtype, count, prob))


@aten("aten.multinomial.default")
def multinomial(context: Context, self: SymbolicTensor, num_samples: int, replacement: bool = False) -> Any:
    """multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor"""
    return distributions.multinomial(self, count=num_samples, replacement=replacement)


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
