"""Random numbers from further distributions, and from those whose parameters are tensors; see `random`.

No gradient flows to a parameter, as in ATen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..ir.dims import Dim
from ..ir.types import FLOAT32, FLOAT64, INT64, as_dtype, is_floating
from ..traits import Traits
from . import random
from .declarations import infer_broadcast
from .float64_forms import Writer
from .random import NO_OPERAND, DType, Shape, report_draw
from .registry import Array, OnnxGraph, Op, Tensor, Type, operator, require

_TINY = 1e-300


def _no_gradient(g: Tensor, y: Tensor, *parameters: Tensor) -> tuple[None, ...] | None:
    return None if len(parameters) == 1 else (None,) * len(parameters)


def _uniform(graph: OnnxGraph, like: str) -> str:
    """Emit uniform float64 numbers between 0 and 1, both excluded, in the shape of a tensor."""
    w = Writer(graph, FLOAT64)
    return w("Max", graph.op("RandomUniformLike", like, dtype=FLOAT64), _TINY)


# ---- with numbers as parameters ----


@operator
def cauchy(*, shape: Shape, median: float = 0.0, scale: float = 1.0, dtype: DType) -> Tensor:
    """Random numbers from the Cauchy distribution. ATen cauchy."""


cauchy.traits = Traits(draws=True)


@operator
def log_normal(*, shape: Shape, mean: float = 1.0, deviation: float = 2.0, dtype: DType) -> Tensor:
    """Random numbers from the log-normal distribution, given the mean and deviation of the log. ATen log_normal."""


log_normal.traits = Traits(draws=True)


@operator
def geometric(*, shape: Shape, probability: float, dtype: DType) -> Tensor:
    """Random numbers of trials, at least 1, until the first success of the given probability. ATen geometric.

    Any dtype.
    """


geometric.traits = Traits(draws=True)


def _set_distribution_rules(op: Op, draw: Callable[..., Array], onnx: Callable[..., str]) -> None:
    """Set the rules of a distribution: `draw(generator, shape, **parameters)`, and `onnx` of uniform numbers."""

    @op.infer
    def _(*, shape: Shape, dtype: DType, **_: float) -> Type:
        require(is_floating(as_dtype(dtype)) or op is geometric, f"needed a floating-point dtype, given {dtype}")
        return Type(as_dtype(dtype), tuple(shape))

    @op.kernel
    def _(*, shape: tuple[int, ...], dtype: DType, **parameters: float) -> Array:
        numbers = draw(random.generator(), shape, **parameters)
        return report_draw(op.name, np.asarray(numbers).astype(dtype))

    @op.onnx
    def _(graph: OnnxGraph, *, shape: Shape, dtype: DType, **parameters: float) -> str:
        zeros = graph.op("Expand", graph.constant(0.0, FLOAT64), graph.dims(shape))
        return graph.cast(onnx(Writer(graph, FLOAT64), zeros, **parameters), dtype)

    op.no_vjp(NO_OPERAND)


def _onnx_cauchy(w: Writer, zeros: str, *, median: float, scale: float) -> str:
    angle = w("Mul", w("Sub", _uniform(w.graph, zeros), 0.5), math.pi)
    return w("Add", w("Mul", w("Div", w("Sin", angle), w("Cos", angle)), scale), median)


def _onnx_log_normal(w: Writer, zeros: str, *, mean: float, deviation: float) -> str:
    draws = str(w.graph.op("RandomNormalLike", zeros, dtype=FLOAT64))
    return w("Exp", w("Add", w("Mul", draws, deviation), mean))


def _onnx_geometric(w: Writer, zeros: str, *, probability: float) -> str:
    if probability == 1.0:
        return w("Add", zeros, 1.0)
    trials = w("Ceil", w("Div", w("Log", _uniform(w.graph, zeros)), math.log1p(-probability)))
    return w("Max", trials, 1.0)


_set_distribution_rules(
    cauchy, lambda draws, shape, *, median, scale: median + scale * draws.standard_cauchy(shape), _onnx_cauchy
)
_set_distribution_rules(
    log_normal, lambda draws, shape, *, mean, deviation: draws.lognormal(mean, deviation, shape), _onnx_log_normal
)
_set_distribution_rules(
    geometric, lambda draws, shape, *, probability: draws.geometric(probability, shape), _onnx_geometric
)


# ---- with tensors as parameters ----


@operator
def normal_each(mean: Tensor, deviation: Tensor) -> Tensor:
    """Random numbers from the normal distribution, with elementwise mean and deviation. ATen normal.Tensor_Tensor."""


normal_each.traits = Traits(draws=True)


normal_each.infer(infer_broadcast)
normal_each.vjp(_no_gradient)


@normal_each.kernel
def _(mean: Array, deviation: Array) -> Array:
    numbers = random.generator().standard_normal(np.broadcast_shapes(mean.shape, deviation.shape))
    return report_draw("normal_each", np.asarray(mean + deviation * numbers).astype(mean.dtype))


@normal_each.onnx
def _(graph: OnnxGraph, mean: str, deviation: str) -> str:
    w = Writer(graph, graph.type(mean).dtype)
    like = w("Add", mean, deviation)
    draws = str(graph.op("RandomNormalLike", like, dtype=w.dtype))
    return w("Add", mean, w("Mul", deviation, draws))


@operator
def poisson(rate: Tensor) -> Tensor:
    """Random numbers from the Poisson distribution with elementwise mean. ATen poisson."""


poisson.traits = Traits(draws=True)


poisson.infer(infer_broadcast)
poisson.vjp(_no_gradient)
poisson.no_onnx("ONNX has no operator for the Poisson distribution")


@poisson.kernel
def _(rate: Array) -> Array:
    return report_draw("poisson", np.asarray(random.generator().poisson(rate)).astype(rate.dtype))


@operator
def binomial(count: Tensor, probability: Tensor) -> Tensor:
    """Random numbers of successes in `count` trials with elementwise probability. ATen binomial."""


binomial.traits = Traits(draws=True)


binomial.infer(infer_broadcast)
binomial.vjp(_no_gradient)
binomial.no_onnx("ONNX has no operator for the binomial distribution")


@binomial.kernel
def _(count: Array, probability: Array) -> Array:
    numbers = random.generator().binomial(count.astype(np.int64), probability.astype(np.float64))
    return report_draw("binomial", np.asarray(numbers).astype(count.dtype))


@operator
def multinomial(weights: Tensor, *, count: int, replacement: bool = False) -> Tensor:
    """Random indices (int64) by weight along the last axis: (n) to (count), (m, n) to (m, count). ATen multinomial.

    Without replacement no index occurs twice.
    """


multinomial.traits = Traits(draws=True)


@multinomial.infer
def _(weights: Type, *, count: int, replacement: bool) -> Type:
    require(
        is_floating(weights.dtype) and weights.rank in (1, 2), f"needed one or two axes of weights, given {weights}"
    )
    return Type(INT64, (*weights.shape[:-1], count))


@multinomial.kernel
def _(weights: Array, *, count: int, replacement: bool) -> Array:
    rows = weights.reshape(-1, weights.shape[-1]).astype(np.float64)
    if replacement:
        ends = np.cumsum(rows, axis=1)
        draws = random.generator().random((len(rows), count)) * ends[:, -1:]
        indices = np.stack([np.searchsorted(e, u, "right") for e, u in zip(ends, draws, strict=True)])
    else:  # the Gumbel trick: the largest of log(weight) + noise are a random sample by weight
        noise = random.generator().gumbel(size=rows.shape)
        indices = np.argsort(-(np.log(rows) + noise), axis=1)[:, :count]
    return report_draw("multinomial", indices.reshape((*weights.shape[:-1], count)).astype(np.int64))


multinomial.no_vjp("an index has no gradient")


@multinomial.onnx
def _(graph: OnnxGraph, weights: str, *, count: int, replacement: bool) -> str:
    kind = graph.type(weights)
    w = Writer(graph, FLOAT64)
    logarithms = w("Log", graph.cast(weights, FLOAT64))
    if replacement:
        rows = graph.op("Reshape", graph.cast(logarithms, FLOAT32), graph.dims((-1, kind.shape[-1])))
        indices = graph.op("Multinomial", rows, sample_size=count, dtype=INT64)
        return str(graph.op("Reshape", indices, graph.dims((*kind.shape[:-1], count))))
    noise = w("Neg", w("Log", w("Neg", w("Log", _uniform(graph, logarithms)))))
    _, indices = graph.op("TopK", w("Add", logarithms, noise), graph.dims((count,)), outputs=2, axis=-1)
    return str(indices)


@operator
def random_permutation(*, size: Dim, dtype: DType) -> Tensor:
    """The numbers from 0 to `size`, exclusive, in random order. ATen randperm."""


random_permutation.traits = Traits(draws=True)


@random_permutation.infer
def _(*, size: Dim, dtype: DType) -> Type:
    return Type(as_dtype(dtype), (size,))


@random_permutation.kernel
def _(*, size: int, dtype: DType) -> Array:
    return report_draw("random_permutation", random.generator().permutation(size).astype(dtype))


random_permutation.no_vjp(NO_OPERAND)


@random_permutation.onnx
def _(graph: OnnxGraph, *, size: Dim, dtype: DType) -> str:
    count = graph.dims((size,))
    keys = graph.op("RandomUniformLike", graph.op("Expand", graph.constant(0.0, FLOAT64), count), dtype=FLOAT64)
    _, order = graph.op("TopK", keys, count, outputs=2)
    return graph.cast(order, dtype)
