"""Random numbers. `set_seed` makes them reproducible; a `seed` argument makes a single call reproducible."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..common.dtype import float32, int32, int64, to_dtype
from ..common.tensor import create
from ..ir.types import is_floating
from ..ops import (
    activation,
    comparison,
    elementwise,
    indexing,
    random,
    reduction,
    scanning,
    shaping,
    slicing,
    sorting,
    special,
)
from ..tensor_like import TensorLike
from .arguments import integer, integers, unpack_varargs
from .operands import as_floating, as_tensor
from .public_op import Primitive, public_op, tensor_method

# In MindSpore, an operator object has its own sequence from its seeds; here all use the sequence of `set_seed`.
_SEEDS = {"seed": 0, "seed2": 0}


def _float_dtype(dtype: Any, *, of: str) -> np.dtype[Any]:
    kind = float32 if dtype is None else to_dtype(dtype)
    if not is_floating(kind):
        raise ValueError(f"For '{of}', 'dtype' must be a float type, but got {kind}")
    return kind


def _integer_dtype(dtype: Any, *, of: str) -> np.dtype[Any]:
    kind = int64 if dtype is None else to_dtype(dtype)
    if kind.kind not in "iu":
        raise ValueError(f"For '{of}', 'dtype' must be an int type, but got {kind}")
    return kind


def _sample(name: str, shape: Any, dtype: np.dtype[Any], seed: Any, *, of: str, **attributes: Any) -> Any:
    """Apply the op `name` of `ops.random`."""
    if seed is not None and (not isinstance(seed, int) or seed < 0):
        raise ValueError(f"For '{of}', 'seed' must be None or an int of at least 0, but got {seed!r}")
    with random.use_seed(seed):
        return create(getattr(random, name), shape=integers(shape, "size", of=of), dtype=dtype, **attributes)


# ---- normal ----


@public_op(primitive=Primitive("StandardNormal", ignored_args=_SEEDS))
def standard_normal(shape: Any, seed: int | None = None) -> Any:
    """A tensor of shape `shape` with samples from the standard normal distribution (mean 0, variance 1); float32."""
    return _sample("normal", shape, float32, seed, of="standard_normal")


@public_op()
def randn(*size: Any, dtype: Any = None, seed: int | None = None) -> Any:
    """Samples from the standard normal distribution; the shape is given as sizes or as one tuple, (1,) by default."""
    return _sample("normal", unpack_varargs(size) or (1,), _float_dtype(dtype, of="randn"), seed, of="randn")


@public_op()
def randn_like(input: Any, seed: int | None = None, *, dtype: Any = None) -> Any:
    """`randn` with the shape of `input`, and its dtype unless `dtype` is given."""
    x = as_tensor(input, of="randn_like")
    return _sample(
        "normal", x.shape, _float_dtype(x.dtype if dtype is None else dtype, of="randn_like"), seed, of="randn_like"
    )


@public_op()
def normal(shape: Any, mean: Any, stddev: Any, seed: int | None = None) -> Any:
    """Samples from normal distributions with `mean` and `stddev`, which broadcast with `shape`; float32."""
    draws = _sample("normal", shape, float32, seed, of="normal")
    return draws * as_floating(stddev, "stddev", of="normal") + as_floating(mean, "mean", of="normal")


# ---- uniform ----


@public_op()
def rand(*size: Any, dtype: Any = None, seed: int | None = None) -> Any:
    """Uniform samples from [0, 1); the shape is given as sizes or as one tuple, (1,) by default."""
    return _sample("uniform", unpack_varargs(size) or (1,), _float_dtype(dtype, of="rand"), seed, of="rand")


@public_op()
def rand_like(input: Any, seed: int | None = None, *, dtype: Any = None) -> Any:
    """`rand` with the shape of `input`, and its dtype unless `dtype` is given."""
    x = as_tensor(input, of="rand_like")
    return _sample(
        "uniform", x.shape, _float_dtype(x.dtype if dtype is None else dtype, of="rand_like"), seed, of="rand_like"
    )


@public_op(
    primitive=Primitive(
        "UniformReal", call_args=("shape",), defaults={"minval": 0.0, "maxval": 1.0}, ignored_args=_SEEDS
    )
)
def uniform(shape: Any, minval: Any, maxval: Any, seed: int | None = None, dtype: Any = float32) -> Any:
    """Uniform samples from [minval, maxval); integers if `dtype` is an int type.

    The bounds are numbers, or tensors that broadcast with `shape`.

    Raises:
        ValueError: `dtype` is neither an int nor a float type, or `minval` isn't below `maxval`.
    """
    kind = to_dtype(dtype)
    low, high = as_tensor(minval, "minval", of="uniform"), as_tensor(maxval, "maxval", of="uniform")
    if kind.kind in "iu":
        if low.ndim or high.ndim:
            raise ValueError("For 'uniform', 'minval' and 'maxval' must be numbers or 0-d where 'dtype' is an int type")
        return _integers(shape, low, high, kind, seed, of="uniform")
    draws = _sample("uniform", shape, _float_dtype(dtype, of="uniform"), seed, of="uniform")
    low, high = elementwise.cast(low, dtype=kind), elementwise.cast(high, dtype=kind)
    return draws * (high - low) + low


def _integers(shape: Any, low: Any, high: Any, dtype: np.dtype[Any], seed: Any, *, of: str) -> Any:
    first, stop = integer(low, "low", of=of), integer(high, "high", of=of)
    if first >= stop:
        raise ValueError(f"For '{of}', the lower bound must be below the upper one, but got {first} and {stop}")
    return _sample("integers", shape, dtype, seed, of=of, low=first, high=stop)


@public_op(
    primitive=Primitive(
        "UniformInt", call_args=("size", "low", "high"), defaults={"dtype": int32}, ignored_args=_SEEDS
    ),
)
def randint(low: int, high: int, size: Any, seed: int | None = None, *, dtype: Any = None) -> Any:
    """A tensor of shape `size` with random integers in [low, high); int64 unless `dtype` is given."""
    return _integers(size, low, high, _integer_dtype(dtype, of="randint"), seed, of="randint")


@public_op()
def randint_like(input: Any, low: int, high: int, seed: int | None = None, *, dtype: Any = None) -> Any:
    """`randint` with the shape of `input`, and its dtype unless `dtype` is given."""
    x = as_tensor(input, of="randint_like")
    kind = _integer_dtype(x.dtype if dtype is None else dtype, of="randint_like")
    return _integers(x.shape, low, high, kind, seed, of="randint_like")


# ---- choices ----


@public_op(primitive=Primitive("RandpermV2", init_args=("seed", "offset", "dtype")))
def randperm(n: Any, seed: int | None = None, offset: int = 0, dtype: Any = int64) -> Any:
    """Random permutation of the numbers from 0 to `n` - 1; `offset` has no effect."""
    count = integer(n, "n", of="randperm")
    if count < 0:
        raise ValueError(f"For 'randperm', 'n' must not be negative, but got {count}")
    keys = _sample("uniform", (count,), np.dtype(np.float64), seed or None, of="randperm")
    return elementwise.cast(sorting.sort(keys, axis=0)[1], dtype=_integer_dtype(dtype, of="randperm"))


@public_op()
def shuffle(x: Any, seed: int | None = None) -> Any:
    """Shuffle the slices of `x` along its first axis."""
    tensor = as_tensor(x, "x", of="shuffle")
    return indexing.take(tensor, randperm(tensor.shape[0], seed), axis=0) if tensor.ndim else tensor


@public_op(primitive=Primitive("Bernoulli", call_args=("input", "p"), ignored_args={"seed": -1, "offset": 0}))
def bernoulli(input: Any, p: Any = 0.5, seed: int | None = None) -> Any:
    """Bernoulli samples: 1 with probability `p`, else 0, with the shape and dtype of `input`.

    Args:
        input: determines shape and dtype.
        p: a number, or a tensor that broadcasts to the shape.
        seed: makes the result reproducible.

    Raises:
        ValueError: a number `p` lies outside of [0, 1].
    """
    x = as_tensor(input, of="bernoulli")
    if not isinstance(p, TensorLike):
        if not 0 <= p <= 1:
            raise ValueError(f"For 'bernoulli', 'p' must be in range [0, 1], but got {p}")
        return _sample("bernoulli", x.shape, x.dtype, seed, of="bernoulli", probability=float(p))
    with random.use_seed(seed):
        draws = random.bernoulli_each(shaping.expand(as_floating(p, "p", of="bernoulli"), shape=tuple(x.shape)))
    return elementwise.cast(draws, dtype=x.dtype)


@tensor_method("bernoulli")
def _bernoulli(self: Any) -> Any:
    """Bernoulli samples: 1 with the probability that the element holds, else 0."""
    return random.bernoulli_each(as_floating(self, of="bernoulli"))


@public_op(method="multinomial")
def multinomial(input: Any, num_samples: int, replacement: bool = True, seed: int | None = None) -> Any:
    """Sample indices with probabilities proportional to `input` along its last axis: (..., num_samples), int32.

    Args:
        input: (k) or (rows, k), not negative.
        num_samples: the number of samples for each row.
        replacement: whether to sample with replacement.
        seed: makes the result reproducible.

    Raises:
        ValueError: without replacement, there are fewer than `num_samples` indices.
    """
    weights = as_floating(input, of="multinomial")
    count = integer(num_samples, "num_samples", of="multinomial")
    if weights.ndim not in (1, 2):
        raise ValueError(f"For 'multinomial', 'input' must have 1 or 2 dimensions, but got {weights.ndim}")
    size = weights.shape[-1]
    if count < 1 or (not replacement and count > size):
        raise ValueError(f"For 'multinomial', 'num_samples' must be positive, and at most {size} without replacement, "
                         f"but got {count}")  # fmt: skip
    if not replacement:  # the largest of weight / exponential sample, as in torch
        draws = _sample("exponential", weights.shape, weights.dtype, seed, of="multinomial")
        keys = elementwise.div(weights, draws)
        return elementwise.cast(sorting.topk(keys, k=count, axis=-1)[1], dtype=int32)
    sums = scanning.cumsum(weights, axis=weights.ndim - 1)
    total = slicing.slice(sums, starts=(size - 1,), stops=(size,), steps=(1,), axes=(-1,))
    uniforms = _sample("uniform", (*weights.shape[:-1], count), weights.dtype, seed, of="multinomial")
    marks = shaping.reshape(elementwise.mul(uniforms, total), shape=(*uniforms.shape, 1))
    passed = comparison.less_equal(shaping.reshape(sums, shape=(*weights.shape[:-1], 1, size)), marks)
    places = reduction.reduce_sum(elementwise.cast(passed, dtype=int32), axes=(-1,))
    return elementwise.clamp(places, maximum=size - 1)


@public_op(primitive=Primitive("Multinomial", init_args=("dtype",), ignored_args=_SEEDS))
def _multinomial(x: Any, num_samples: int, dtype: Any = int32) -> Any:
    """`multinomial` with replacement, in an integer dtype."""
    return elementwise.cast(multinomial(x, num_samples), dtype=_integer_dtype(dtype, of="Multinomial"))


@public_op(method="random_categorical", primitive=Primitive("RandomCategorical", init_args=("dtype",)))
def random_categorical(logits: Any, num_sample: int, seed: int = 0, dtype: Any = int64) -> Any:
    """Sample indices with probabilities softmax(logits) along the last axis: (rows, num_sample); seed 0 is no seed."""
    shares = activation.softmax(as_floating(logits, "logits", of="random_categorical"), axis=-1)
    sampled = multinomial(shares, num_sample, seed=seed or None)
    return elementwise.cast(sampled, dtype=_integer_dtype(dtype, of="random_categorical"))


@public_op(primitive=Primitive("RandomShuffle", ignored_args=_SEEDS))
def _random_shuffle(x: Any) -> Any:
    """`shuffle`."""
    return shuffle(x)


# ---- other distributions, from uniform samples ----


@public_op(primitive=Primitive("StandardLaplace", ignored_args=_SEEDS))
def standard_laplace(shape: Any, seed: int | None = None) -> Any:
    """A tensor of shape `shape` with samples from the standard Laplace distribution, exp(-|x|) / 2; float32."""
    uniforms = _sample("uniform", shape, np.dtype(np.float64), seed, of="standard_laplace") - 0.5
    size = elementwise.neg(elementwise.log1p(elementwise.abs(uniforms) * -2.0))
    return elementwise.cast(elementwise.sign(uniforms) * size, dtype=float32)


@public_op()
def laplace(shape: Any, mean: Any, lambda_param: Any, seed: int | None = None) -> Any:
    """Samples from a Laplace distribution with `mean` and scale `lambda_param` > 0, which broadcast with `shape`."""
    draws = standard_laplace(shape, seed)
    return draws * as_floating(lambda_param, "lambda_param", of="laplace") + as_floating(mean, "mean", of="laplace")


@public_op(primitive=Primitive("TruncatedNormal", init_args=("dtype",), ignored_args=_SEEDS))
def _truncated_normal(shape: Any, dtype: Any = float32) -> Any:
    """Samples from the standard normal distribution, truncated at two standard deviations."""
    uniforms = _sample("uniform", shape, np.dtype(np.float64), None, of="TruncatedNormal")
    share = math.erf(math.sqrt(2.0))  # of the distribution within the bounds
    draws = special.erfinv((uniforms * 2.0 - 1.0) * share) * math.sqrt(2.0)
    return elementwise.cast(draws, dtype=_float_dtype(dtype, of="TruncatedNormal"))


@tensor_method("uniform")
def _uniform(self: Any, from_: float = 0.0, to: float = 1.0) -> Any:
    """Samples from [from_, to) in the shape and dtype of the tensor."""
    return elementwise.cast(uniform(tuple(self.shape), from_, to), dtype=self.dtype)
