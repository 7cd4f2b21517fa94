"""Application of functions to items of tuples and lists, dispatch on argument types, and `vmap`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import dtype_name
from ..common.noop_compat import constexpr
from ..ops.common import normalize_axis
from ..tensor_like import TensorLike
from .joining import stack, unstack
from .public_op import operator_object, public_op

Function = Callable[..., Any]


@public_op(primitive="Partial")
def partial(function: Function, *args: Any, **kwargs: Any) -> Function:
    """Bind the first arguments of `function`, as `functools.partial` does."""
    return functools.partial(function, *args, **kwargs)


public_op()(constexpr)


@operator_object
class Map:
    """Applies a function to the items of tuples or lists: `Map(f)((a, b), (c, d))` is `(f(a, c), f(b, d))`.

    Args:
        ops: the function; without one, it is the first argument of each call.
        reverse: start with the last items.

    Raises:
        TypeError: the function isn't callable, or a call has no tuple or list.
        ValueError: the tuples have different lengths.
    """

    def __init__(self, ops: Function | None = None, reverse: bool = False) -> None:
        self.ops = ops
        self.reverse = checks.of_type(reverse, "reverse", bool, of=type(self).__name__)

    def __call__(self, *args: Any) -> Any:
        """Apply the function."""
        function, *operands = args if self.ops is None else (self.ops, *args)
        if not callable(function):
            raise TypeError(f"For '{type(self).__name__}', needed a function first, but got {type(function).__name__}")
        if not operands or not all(isinstance(x, (tuple, list)) for x in operands):
            kinds = [type(x).__name__ for x in operands]
            raise TypeError(f"For '{type(self).__name__}', needed tuples or lists, but got {kinds}")
        return self._map(function, operands)

    def _map(self, function: Function, operands: Sequence[Any]) -> Any:
        lengths = {len(x) for x in operands}
        if len(lengths) > 1:
            raise ValueError(f"For '{type(self).__name__}', the lengths must be equal, but got {[*map(len, operands)]}")
        items = list(zip(*operands, strict=True))
        results = [self._apply(function, item) for item in (reversed(items) if self.reverse else items)]
        results = results[::-1] if self.reverse else results
        return tuple(results)

    def _apply(self, function: Function, item: tuple[Any, ...]) -> Any:
        return function(*item)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(ops={self.ops!r}, reverse={self.reverse})"


@operator_object
class HyperMap(Map):
    """Like `Map`, but applied recursively to nested tuples and lists.

    Args:
        ops: the function; without one, it is the first argument of each call.
        reverse: start with the last items.
    """

    def _apply(self, function: Function, item: tuple[Any, ...]) -> Any:
        nested = all(isinstance(x, (tuple, list)) for x in item)
        return self._map(function, item) if nested else function(*item)


@operator_object
class MultitypeFuncGraph:
    """A function with several implementations, selected by the types of the arguments.

    Args:
        name: the name in messages.
        read_value: no effect.

    Raises:
        TypeError: no implementation is registered for the arguments of a call.
    """

    def __init__(self, name: str, read_value: bool = False) -> None:
        self.name = checks.of_type(name, "name", str, of="MultitypeFuncGraph")
        self.read_value = read_value
        self._implementations: list[tuple[tuple[Any, ...], Function]] = []

    def register(self, *types: Any) -> Callable[[Function], Function]:
        """Register an implementation for arguments of these types.

        A type is "Tensor", "Number", "Int", "Float" (or a dtype, such as "Float32"), "Bool", "Tuple", "List", "Dict",
        "String", "None", "Function", or a Python type.
        """

        def decorate(function: Function) -> Function:
            self._implementations.append((types, function))
            return function

        return decorate

    def __call__(self, *args: Any) -> Any:
        """Run the implementation for the arguments."""
        for types, function in self._implementations:
            if len(types) == len(args) and all(map(_is_instance, args, types)):
                return function(*args)
        kinds = [dtype_name(x.dtype) + " Tensor" if isinstance(x, TensorLike) else type(x).__name__ for x in args]
        signatures = [types for types, _ in self._implementations]
        raise TypeError(f"For '{self.name}', no implementation is registered for {kinds}, only for {signatures}")

    def __repr__(self) -> str:
        return f"MultitypeFuncGraph({self.name!r})"


def _is_instance(value: Any, kind: Any) -> bool:
    if isinstance(kind, type):
        return isinstance(value, kind)
    name = str(kind).lower()
    if name in ("tensor", "ref"):
        return isinstance(value, TensorLike)
    if name == "function":
        return callable(value)
    if name.startswith(("int", "uint")):  # "Int64" is the type of a Python int
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if name.startswith(("float", "bfloat")):
        return isinstance(value, (float, np.floating))
    return name in _PYTHON_KINDS and isinstance(value, _PYTHON_KINDS[name])


_PYTHON_KINDS: dict[str, Any] = {
    "number": (int, float, np.number),
    "bool": bool,
    "tuple": tuple,
    "list": list,
    "dict": dict,
    "string": str,
    "str": str,
    "none": type(None),
    "nonetype": type(None),
}


@public_op()
def vmap(fn: Function, in_axes: Any = 0, out_axes: Any = 0) -> Function:
    """Return a function that runs `fn` on the slices of its arguments along an axis, one after the other.

    Args:
        fn: a function or Cell of tensors that returns a tensor or a tuple of them.
        in_axes: the axis of every argument, or a tuple with one for each; None passes the whole argument to every run.
        out_axes: the position of the new axis in every result, or a tuple with one for each.

    Raises:
        TypeError: `fn` isn't callable.
        ValueError: no axis is given, there isn't one for each argument, or their sizes differ.
    """
    if not callable(fn):
        raise TypeError(f"For 'vmap', 'fn' must be callable, but got {type(fn).__name__}")

    def mapped(*args: Any) -> Any:
        axes = tuple(in_axes) if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(axes) != len(args):
            raise ValueError(f"For 'vmap', 'in_axes' must have an axis for each of {len(args)} arguments: {in_axes}")
        sizes = {x.shape[normalize_axis(axis, x.ndim)] for x, axis in zip(args, axes, strict=True) if axis is not None}
        if len(sizes) != 1:
            raise ValueError(f"For 'vmap', the mapped axes must have one size, but got {sorted(sizes)}")
        (count,) = sizes
        slices = [(x,) * count if axis is None else unstack(x, axis) for x, axis in zip(args, axes, strict=True)]
        runs = [fn(*run) for run in zip(*slices, strict=True)]
        if not isinstance(runs[0], (tuple, list)):
            return stack(runs, out_axes)
        places = out_axes if isinstance(out_axes, (tuple, list)) else (out_axes,) * len(runs[0])
        return tuple(stack(list(results), axis) for results, axis in zip(zip(*runs, strict=True), places, strict=True))

    return mapped
