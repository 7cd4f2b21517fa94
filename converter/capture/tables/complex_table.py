"""The table of ATen operators on complex tensors, which are pairs of reals in the IR (`runtime.ops.complex_numbers`).

An operator is looked up here when one of its operands or results is complex. Its complex operands are then `Complex`
values, and the types of complex results in `Context` are those of their parts. Most operators treat both parts
like real tensors, and are registered by name: `register_partwise`, `register_multilinear`.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import torch

from ....runtime.ops.complex_numbers import Complex
from ....runtime.registration import register_as
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .table import TABLE, Context, Number, Translation, cast, scalar

COMPLEX: dict[str, Translation] = {}


def aten_complex(*targets: str) -> Callable[[Translation], Translation]:
    """Register a translation like `aten`, for operators on complex tensors; a registered name raises."""
    return register_as(COMPLEX, targets)


def register_partwise(data: str, *names: str) -> None:
    """Register operators that treat both parts like a real tensor.

    Args:
        data: parameters with complex data, separated by spaces; all others are passed for both parts.
        names: the operators, without "aten.".
    """
    for name in names:
        aten_complex(f"aten.{name}")(_of_parts(f"aten.{name}", data.split()))


def _of_parts(name: str, data: list[str]) -> Translation:
    def apart(context: Context, *args: Any, **kwargs: Any) -> Any:
        translation = TABLE.get(name)
        if translation is None:
            raise Unsupported("on complex numbers")
        signature = inspect.signature(translation)
        results = []
        for imaginary in (False, True) if context.is_complex else (False,):
            bound = signature.bind(context, *args, **kwargs)
            for parameter in data:
                if parameter in bound.arguments:
                    bound.arguments[parameter] = part(context, bound.arguments[parameter], imaginary)
            results.append(translation(*bound.args, **bound.kwargs))
        if not context.is_complex:  # a real dtype was requested
            return results[0]
        reals, imaginaries = results
        if isinstance(reals, (tuple, list)):
            return tuple(Complex(a, b) for a, b in zip(reals, imaginaries, strict=True))
        return Complex(reals, imaginaries)

    return apart


def part(context: Context, value: Any, imaginary: bool) -> Any:
    """The real or imaginary part of a real or complex tensor, of a number, or of each element of a list."""
    if isinstance(value, (list, tuple)):
        return [part(context, item, imaginary) for item in value]
    if isinstance(value, Complex):
        return value.imaginary if imaginary else value.real
    if isinstance(value, complex):
        return value.imag if imaginary else value.real
    if not imaginary or value is None:
        return value
    return Complex.from_real(cast(value, context.dtype)).imaginary if _is_tensor(value) else 0


def _is_tensor(value: Any) -> bool:
    return isinstance(value, SymbolicTensor) and not isinstance(value, Number)


def register_multilinear(data: str, *names: str) -> None:
    """Register operators that are linear in each of the parameters `data` (also in the items of a list)."""
    for name in names:
        aten_complex(f"aten.{name}")(_multilinear(f"aten.{name}", data.split()))


def _multilinear(name: str, data: list[str]) -> Translation:
    def expand(arguments: dict[str, Any]) -> Any:
        """f(a + ib) = f(a) + i f(b), applied to one complex operand after the other."""
        for parameter in data:
            value = arguments.get(parameter)
            for i, item in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(item, (Complex, complex)):
                    a, b = (
                        expand(arguments | {parameter: _replace(value, i, part(arguments["context"], item, imaginary))})
                        for imaginary in (False, True)
                    )
                    return a + b.times_i() if isinstance(b, Complex) else Complex(a, b)
        return TABLE[name](**arguments)

    def translation(context: Context, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(TABLE[name]).bind(context, *args, **kwargs)
        return expand(dict(bound.arguments))

    return translation


def _replace(value: Any, i: int, item: Any) -> Any:
    return [*value[:i], item, *value[i + 1 :]] if isinstance(value, list) else item


def numbers(context: Context, *values: Any) -> list[Any]:
    """Operands of arithmetic with their parts in `context.dtype`: `Complex`, or symbolic tensors for real ones."""
    return [_number(context, value) for value in values]


def _number(context: Context, value: Any) -> Any:
    if isinstance(value, Complex):
        return Complex(cast(value.real, context.dtype), cast(value.imaginary, context.dtype))
    if _is_tensor(value):
        return cast(value, context.dtype)
    if isinstance(value, complex):
        return Complex(scalar(context, value.real, context.dtype), scalar(context, value.imag, context.dtype))
    return scalar(context, value, context.dtype)


def pair_context(context: Context) -> Context:
    """The context of an operator applied to pairs, whose last axis has the parts."""
    types = tuple(None if t is None else t.with_shape((*t.shape, 2)) for t in context.types)
    return dataclasses.replace(context, types=types)


def is_complex(value: Any) -> bool:
    """Whether a value of an exported graph is, or contains, a complex tensor."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(item, torch.Tensor) and item.is_complex() for item in items)
