"""Ops that draw random numbers. The interpreter can replay recorded numbers instead."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..ir.dims import Dim
from ..ir.types import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32, as_dtype, is_floating
from ..tracing import SymbolicTensor
from ..traits import Traits
from .float64_forms import Writer
from .registry import Array, OnnxGraph, Op, Tensor, Type, operator, require

DType = np.dtype[Any]
Shape = tuple[Dim, ...]

NO_OPERAND = "a random draw has no operand to send a gradient to"
_PRECISION = {FLOAT64: 53, FLOAT32: 24, FLOAT16: 11, BFLOAT16: 8}
_SMALLEST = {FLOAT64: 2.0**-1022, FLOAT32: 2.0**-126, FLOAT16: 2.0**-14, BFLOAT16: 2.0**-126}
_generator = np.random.default_rng()


def seed(value: int) -> None:
    """Make the following random numbers repeatable; they differ from torch's for the same seed."""
    global _generator
    _generator = np.random.default_rng(value)


class _Observer(threading.local):
    function: Callable[[str, Array], Array] | None = None


_observer = _Observer()


@contextlib.contextmanager
def observe_draws(observer: Callable[[str, Array], Array]) -> Iterator[None]:
    """Within the context, call `observer(op name, array)` for all random numbers; its result replaces them."""
    before = _observer.function
    _observer.function = observer
    try:
        yield
    finally:
        _observer.function = before


def report_draw(op: str, array: Array) -> Array:
    """Return the random numbers of an op, or their replacement by an observer."""
    return array if _observer.function is None else _observer.function(op, array)


class _SeedState(threading.local):
    active = False


_seed_state = _SeedState()


@contextlib.contextmanager
def use_seed(value: int | None) -> Iterator[None]:
    """Within the context, draw random numbers from the seed `value`; None continues the current sequence."""
    if value is None:
        yield
        return
    global _generator
    before = _generator, _seed_state.active
    _generator, _seed_state.active = np.random.default_rng(value), True
    try:
        yield
    finally:
        _generator, _seed_state.active = before


def is_seeded() -> bool:
    """Whether `use_seed` is in effect, so that random numbers are the same each time."""
    return _seed_state.active


def generator() -> np.random.Generator:
    """Return the current random number generator."""
    return _generator


def _floating(shape: Shape, dtype: DType) -> Type:
    require(is_floating(as_dtype(dtype)), f"needed a floating-point dtype, given {dtype}")
    return Type(as_dtype(dtype), tuple(shape))


def _scaled_draw(graph: OnnxGraph, name: str, shape: Shape, dtype: DType, *, factor: float, offset: float) -> str:
    """Emit offset + factor * random numbers in the dtype; as attributes of the operator, both would be float32."""
    w = Writer(graph, as_dtype(dtype))
    draw = graph.op(name, graph.op("Expand", graph.constant(0.0, dtype), graph.dims(shape)), dtype=w.dtype)
    return w("Add", w("Mul", draw, float(factor)), float(offset))


@operator
def bernoulli(*, shape: Shape, probability: float, dtype: DType) -> Tensor:
    """Independent random numbers: 1 with the given probability, else 0; any dtype. ATen bernoulli.p."""


bernoulli.traits = Traits(draws=True)


@bernoulli.infer
def _(*, shape: Shape, probability: float, dtype: DType) -> Type:
    require(0.0 <= probability <= 1.0, f"needed a probability between 0 and 1, given {probability}")
    return Type(as_dtype(dtype), tuple(shape))


@bernoulli.kernel
def _(*, shape: tuple[int, ...], probability: float, dtype: DType) -> Array:
    return report_draw("bernoulli", np.asarray(_generator.random(shape) < probability).astype(dtype))


bernoulli.no_vjp(NO_OPERAND)


@bernoulli.onnx
def _(graph: OnnxGraph, *, shape: Shape, probability: float, dtype: DType) -> str:
    if probability in (0.0, 1.0):
        return str(graph.op("Expand", graph.constant(probability, dtype), graph.dims(shape)))
    # uniform 32-bit integers; ONNX Runtime draws in one thread, at 6 ns a number, and multiplies in several
    axis = _start_of_trailing_axes(shape)
    numbers = _integers(graph, shape[axis:], -(2.0**31), 2.0**31)
    if axis:
        rows = _integers(graph, (*shape[:axis], *(1 for _ in shape[axis:])), 0.0, 2.0**24)
        odd = graph.op("Add", graph.op("Mul", rows, graph.constant(2, INT32)), graph.constant(1, INT32))
        numbers = graph.op("Mul", odd, numbers)  # modulo 2 ** 32; the products are pairwise independent
    bound = min(round(probability * 2**32), 2**32 - 1) - 2**31
    return graph.cast(graph.op("Less", numbers, graph.constant(bound, INT32)), dtype)


def _start_of_trailing_axes(shape: Shape) -> int:
    """Return the start of the shortest run of trailing axes with 64 elements (a symbolic axis counts as 64), or 0."""
    count = 1
    for axis in range(len(shape) - 1, 0, -1):
        size = shape[axis]
        count *= size if isinstance(size, int) else 64
        if count >= 64:
            return axis
    return 0


def _integers(graph: OnnxGraph, shape: Shape, low: float, high: float) -> Any:
    zeros = graph.op("Expand", graph.constant(0.0, FLOAT32), graph.dims(shape))
    return graph.op("Cast", graph.op("RandomUniformLike", zeros, low=low, high=high, dtype=FLOAT32), to=INT32)


@operator
def uniform(*, shape: Shape, low: float = 0.0, high: float = 1.0, dtype: DType) -> Tensor:
    """Random numbers from the uniform distribution on [low, high). ATen uniform and rand, ONNX RandomUniformLike-22."""


uniform.traits = Traits(draws=True)


@uniform.infer
def _(*, shape: Shape, low: float, high: float, dtype: DType) -> Type:
    require(low <= high, f"needed low <= high, given {low} and {high}")
    return _floating(shape, dtype)


@uniform.kernel
def _(*, shape: tuple[int, ...], low: float, high: float, dtype: DType) -> Array:
    # only as many random bits as the dtype holds: a number with more bits could be rounded to 1
    steps = 2 ** _PRECISION[as_dtype(dtype)]
    draws = _generator.integers(0, steps, size=shape) / steps
    return report_draw("uniform", np.asarray(draws * (high - low) + low).astype(dtype))


uniform.no_vjp(NO_OPERAND)


@uniform.onnx
def _(graph: OnnxGraph, *, shape: Shape, low: float, high: float, dtype: DType) -> str:
    return _scaled_draw(graph, "RandomUniformLike", shape, dtype, factor=high - low, offset=low)


@operator
def normal(*, shape: Shape, mean: float = 0.0, deviation: float = 1.0, dtype: DType) -> Tensor:
    """Random numbers from the normal distribution. ATen normal and randn, ONNX RandomNormalLike-22."""


normal.traits = Traits(draws=True)


@normal.infer
def _(*, shape: Shape, mean: float, deviation: float, dtype: DType) -> Type:
    require(deviation >= 0.0, f"needed a standard deviation of at least 0, given {deviation}")
    return _floating(shape, dtype)


@normal.kernel
def _(*, shape: tuple[int, ...], mean: float, deviation: float, dtype: DType) -> Array:
    return report_draw("normal", np.asarray(_generator.normal(mean, deviation, size=shape)).astype(dtype))


normal.no_vjp(NO_OPERAND)


@normal.onnx
def _(graph: OnnxGraph, *, shape: Shape, mean: float, deviation: float, dtype: DType) -> str:
    return _scaled_draw(graph, "RandomNormalLike", shape, dtype, factor=deviation, offset=mean)


@operator
def exponential(*, shape: Shape, rate: float = 1.0, dtype: DType) -> Tensor:
    """Random numbers from the exponential distribution with mean 1 / rate; never 0. ATen exponential."""


exponential.traits = Traits(draws=True)


@exponential.infer
def _(*, shape: Shape, rate: float, dtype: DType) -> Type:
    require(rate > 0.0, f"needed a rate above 0, given {rate}")
    return _floating(shape, dtype)


@exponential.kernel
def _(*, shape: tuple[int, ...], rate: float, dtype: DType) -> Array:
    draws = _generator.exponential(1.0 / rate, size=shape).astype(dtype)
    return report_draw("exponential", np.asarray(np.maximum(draws, np.asarray(_SMALLEST[as_dtype(dtype)], dtype))))


exponential.no_vjp(NO_OPERAND)


@exponential.onnx
def _(graph: OnnxGraph, *, shape: Shape, rate: float, dtype: DType) -> str:
    w = Writer(graph, as_dtype(dtype))
    draws = _scaled_draw(graph, "RandomUniformLike", shape, dtype, factor=1.0, offset=0.0)
    return w("Mul", w("Log", w("Max", draws, _SMALLEST[w.dtype])), -1.0 / rate)


@operator
def integers(*, shape: Shape, low: int, high: int, dtype: DType) -> Tensor:
    """Uniformly random integers in [low, high); any dtype. ATen randint."""


integers.traits = Traits(draws=True)


@integers.infer
def _(*, shape: Shape, low: int, high: int, dtype: DType) -> Type:
    require(low < high, f"needed low < high, given {low} and {high}")
    return Type(as_dtype(dtype), tuple(shape))


@integers.kernel
def _(*, shape: tuple[int, ...], low: int, high: int, dtype: DType) -> Array:
    return report_draw("integers", np.asarray(_generator.integers(low, high, size=shape)).astype(dtype))


integers.no_vjp(NO_OPERAND)


@integers.onnx
def _(graph: OnnxGraph, *, shape: Shape, low: int, high: int, dtype: DType) -> str:
    w = Writer(graph, FLOAT64)
    draws = _scaled_draw(graph, "RandomUniformLike", shape, FLOAT64, factor=high - low, offset=low)
    return graph.cast(w("Min", w("Floor", draws), float(high - 1)), dtype)


@operator
def bernoulli_each(probability: Tensor) -> Tensor:
    """Independent random numbers: 1 with the probability of each element, else 0. ATen bernoulli. No gradient flows."""


bernoulli_each.traits = Traits(draws=True)


@bernoulli_each.infer
def _(probability: Type) -> Type:
    require(is_floating(probability.dtype), f"needed floating-point probabilities, given {probability}")
    return probability


@bernoulli_each.kernel
def _(probability: Array) -> Array:
    mask = np.asarray(_generator.random(probability.shape) < probability).astype(probability.dtype)
    return report_draw("bernoulli_each", mask)


@bernoulli_each.vjp
def _(g: Tensor, y: Tensor, probability: Tensor) -> None:
    return None


@bernoulli_each.onnx
def _(graph: OnnxGraph, probability: str) -> str:
    dtype = graph.type(probability).dtype
    return graph.cast(graph.op("Less", graph.op("RandomUniformLike", probability, dtype=dtype), probability), dtype)


def random_like(x: Tensor, draw: Op, shape: Shape | None = None, **attributes: Any) -> Any:
    """Apply `draw` (`bernoulli`, `uniform`, ...) for the dtype and shape of `x` (or `shape`), symbolic if `x` is."""
    complete = {"shape": tuple(x.shape) if shape is None else shape, "dtype": x.dtype, **attributes}
    return x.builder.create(draw, **complete) if isinstance(x, SymbolicTensor) else draw(**complete)
