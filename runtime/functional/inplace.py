"""In-place methods: `x.add_(y)` assigns `x.add(y)` to `x`.

Later computations with the tensor, and their gradients, use the new value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import checks
from ..ops import shaping
from .operands import as_tensor
from .public_op import METHODS, PUBLIC_OPS, tensor_method
from .random import randint, standard_normal, uniform
from .tracking import assign_in_place

_IN_PLACE_METHODS = (
    "abs", "add", "addmm", "ceil", "clamp", "copysign", "cos", "div", "erf", "exp", "fill_diagonal", "floor",
    "floor_divide", "index_add", "index_put", "log", "logical_not", "masked_fill", "masked_scatter", "mul", "neg",
    "pow", "reciprocal", "relu", "remainder", "round", "rsqrt", "scatter", "scatter_add", "sigmoid", "sign", "sin",
    "sqrt", "square", "sub", "tanh", "trunc",
)  # fmt: skip
"""Methods with an in-place form."""


def _in_place(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def in_place(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = method(self, *args, **kwargs)
        if tuple(value.shape) != tuple(self.shape):
            raise ValueError(
                f"For '{name}_', the result must have the shape of the tensor, {tuple(self.shape)}, but got "
                f"{tuple(value.shape)}"
            )
        assign_in_place(self, value)
        return self

    in_place.__doc__ = f"In-place version of `{name}`."
    return in_place


def _method(name: str) -> Callable[..., Any]:
    public_op = (op.function for op in PUBLIC_OPS.values() if name in op.methods)
    method: Callable[..., Any] = METHODS.get(name) or next(public_op)
    return method


def declare() -> None:
    """Declare the in-place methods. Call it after the methods that they are derived from are declared."""
    for name in _IN_PLACE_METHODS:
        tensor_method(f"{name}_")(_in_place(name, _method(name)))


def _assign(self: Any, value: Any) -> Any:
    assign_in_place(self, shaping.expand(as_tensor(value), shape=tuple(self.shape)))
    return self


@tensor_method("copy_")
def _copy(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the elements of `src`, which broadcasts, to the tensor; the dtype is kept."""
    return _assign(self, src)


@tensor_method("fill_")
def _fill(self: Any, value: Any) -> Any:
    """Fill the tensor with `value`."""
    return _assign(self, value)


@tensor_method("zero_")
def _zero(self: Any) -> Any:
    """Fill the tensor with zeros."""
    return _assign(self, 0)


@tensor_method("normal_")
def _normal(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: None = None) -> Any:
    """Fill the tensor with samples from a normal distribution; `generator` isn't supported."""
    _refuse_generator(generator, "normal_")
    return _assign(self, standard_normal(tuple(self.shape)) * std + mean)


@tensor_method("uniform_")
def _uniform(self: Any, from_: float = 0.0, to: float = 1.0, *, generator: None = None) -> Any:
    """Fill the tensor with uniform samples from [from_, to); `generator` isn't supported."""
    _refuse_generator(generator, "uniform_")
    return _assign(self, uniform(tuple(self.shape), from_, to))


@tensor_method("random_")
def _random(self: Any, from_: int = 0, to: int | None = None, *, generator: None = None) -> Any:
    """Fill with random integers in [from_, to), or [0, from_) without `to`; `generator` isn't supported."""
    _refuse_generator(generator, "random_")
    low, high = (0, from_) if to is None else (from_, to)
    checks.of_type(high, "to", int, of="random_")
    return _assign(self, randint(low, high, tuple(self.shape)))


def _refuse_generator(generator: Any, of: str) -> None:
    if generator is not None:
        raise NotImplementedError(f"For '{of}', 'generator' isn't supported: `set_seed` makes samples reproducible")


# ---- memory layout: a tensor owns its elements, in the order of its axes ----


@tensor_method("contiguous")
def _contiguous(self: Any) -> Any:
    """Return the tensor itself: the elements are always in the order of the axes."""
    return self


@tensor_method("is_contiguous")
def _is_contiguous(self: Any) -> bool:
    """Return True: the elements are always in the order of the axes."""
    return True


@tensor_method("stride")
def _stride(self: Any, dim: int | None = None) -> Any:
    """The stride of each axis, or of axis `dim`, in elements."""
    steps = [1]
    for size in reversed(self.shape[1:]):
        steps.append(steps[-1] * size)
    strides = steps[: self.ndim][::-1]
    return strides if dim is None else strides[dim]


def _strides(self: Any) -> tuple[int, ...]:
    """The stride of each axis in bytes."""
    return tuple(step * self.itemsize for step in _stride(self))


tensor_method("strides")(property(_strides))
