"""Methods that write their result into the tensor itself: `x.add_(y)` is `x.add(y)`, kept by `x`.

What is computed from the tensor afterwards depends on the new value, also where gradients are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import checks
from ..ops import shaping
from .operands import as_tensor
from .public_op import METHODS, SPELLINGS, tensor_method
from .random import randint, standard_normal, uniform
from .tracking import adopted

_KEEPING = (
    "abs", "add", "addmm", "ceil", "clamp", "copysign", "cos", "div", "erf", "exp", "fill_diagonal", "floor",
    "floor_divide", "index_add", "index_put", "log", "logical_not", "masked_fill", "masked_scatter", "mul", "neg",
    "pow", "reciprocal", "relu", "remainder", "round", "rsqrt", "scatter", "scatter_add", "sigmoid", "sign", "sin",
    "sqrt", "square", "sub", "tanh", "trunc",
)  # fmt: skip
"""Methods that have such a form."""


def _kept(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def keeping(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = method(self, *args, **kwargs)
        if tuple(value.shape) != tuple(self.shape):
            raise ValueError(
                f"For '{name}_', the result must have the shape of the tensor, {tuple(self.shape)}, but got "
                f"{tuple(value.shape)}"
            )
        adopted(self, value)
        return self

    keeping.__doc__ = f"`{name}`, whose result the tensor keeps."
    return keeping


def _method(name: str) -> Callable[..., Any]:
    public_op = (spelling.function for spelling in SPELLINGS.values() if name in spelling.methods)
    found: Callable[..., Any] = METHODS.get(name) or next(public_op)
    return found


def declare() -> None:
    """Declare the methods; all families must be there already."""
    for name in _KEEPING:
        tensor_method(f"{name}_")(_kept(name, _method(name)))


def _keep(self: Any, value: Any) -> Any:
    adopted(self, shaping.expand(as_tensor(value), shape=tuple(self.shape)))
    return self


@tensor_method("copy_")
def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Take over the elements of `src`, which broadcasts; the dtype stays."""
    return _keep(self, src)


@tensor_method("fill_")
def _fill(self: Any, value: Any) -> Any:
    """`value` everywhere."""
    return _keep(self, value)


@tensor_method("zero_")
def _zero(self: Any) -> Any:
    """Zeros everywhere."""
    return _keep(self, 0)


@tensor_method("normal_")
def _normal(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: None = None) -> Any:
    """Draws from a normal distribution; `generator` is not offered."""
    _no_generator(generator, "normal_")
    return _keep(self, standard_normal(tuple(self.shape)) * std + mean)


@tensor_method("uniform_")
def _uniform(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: None = None) -> Any:
    """Draws from [from_, to); `generator` is not offered."""
    _no_generator(generator, "uniform_")
    return _keep(self, uniform(tuple(self.shape), from_, to))


@tensor_method("random_")
def _random(self: Any, from_: int = 0, to: int | None = None, *, generator: None = None) -> Any:
    """Whole numbers from `from_` to before `to`, from 0 if only one is given; `generator` is not offered."""
    _no_generator(generator, "random_")
    low, high = (0, from_) if to is None else (from_, to)
    checks.of_type(high, "to", int, of="random_")
    return _keep(self, randint(low, high, tuple(self.shape)))


def _no_generator(generator: Any, of: str) -> None:
    if generator is not None:
        raise NotImplementedError(f"For '{of}', 'generator' is not available: `set_seed` makes draws repeatable")


# ---- where elements are kept: a tensor has its own, in the order of its axes ----


@tensor_method("contiguous")
def _contiguous(self: Any) -> Any:
    """The tensor."""
    return self


@tensor_method("is_contiguous")
def _is_contiguous(self: Any) -> bool:
    """Whether the elements stand in the order of the axes: they do, for whoever uses the tensor."""
    return True


@tensor_method("stride")
def _stride(self: Any, dim: int | None = None) -> Any:
    """By how many elements the place moves with an index of each axis, or of axis `dim`."""
    steps = [1]
    for size in reversed(self.shape[1:]):
        steps.append(steps[-1] * size)
    strides = steps[: self.ndim][::-1]
    return strides if dim is None else strides[dim]


def _strides(self: Any) -> tuple[int, ...]:
    """By how many bytes the place moves with an index of each axis."""
    return tuple(step * self.itemsize for step in _stride(self))


tensor_method("strides")(property(_strides))
