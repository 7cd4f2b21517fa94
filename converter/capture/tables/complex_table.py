"""The table of ATen operators on complex tensors, which are pairs of reals in the IR (`runtime.ops.complex_numbers`).

An operator is looked up here when one of its operands or results is complex. Its operands then arrive as `Complex`
where they are, and the types of complex results in `Context` are those of their parts. Most operators do to both
parts what they do to real tensors, and are entered by name: `of_parts`, `multilinear`.
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


def of_complex(*targets: str) -> Callable[[Translation], Translation]:
    """As `aten`, for operators on complex tensors; a name taken raises."""
    return register_as(COMPLEX, targets)


def of_parts(data: str, *names: str) -> None:
    """Register operators that do to both parts what they do to a real tensor.

    Args:
        data: parameters that hold numbers, separated by spaces; all others are given to both parts alike.
        names: the operators, without "aten.".
    """
    for name in names:
        of_complex(f"aten.{name}")(_of_parts(f"aten.{name}", data.split()))


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
        if not context.is_complex:  # of a real dtype that was asked for
            return results[0]
        reals, imaginaries = results
        if isinstance(reals, (tuple, list)):
            return tuple(Complex(a, b) for a, b in zip(reals, imaginaries, strict=True))
        return Complex(reals, imaginaries)

    return apart


def part(context: Context, value: Any, imaginary: bool) -> Any:
    """The real or imaginary part of a tensor, real or complex, of a number, or of each in a list."""
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


def multilinear(data: str, *names: str) -> None:
    """Enter operators that are linear in each of the parameters `data` (a list's items, too)."""
    for name in names:
        of_complex(f"aten.{name}")(_multilinear(f"aten.{name}", data.split()))


def _multilinear(name: str, data: list[str]) -> Translation:
    def expanded(arguments: dict[str, Any]) -> Any:
        """f(a + ib) = f(a) + i f(b), of one complex operand after the other."""
        for parameter in data:
            value = arguments.get(parameter)
            for i, item in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(item, (Complex, complex)):
                    a, b = (
                        expanded(
                            arguments | {parameter: _replaced(value, i, part(arguments["context"], item, imaginary))}
                        )
                        for imaginary in (False, True)
                    )
                    return a + b.times_i() if isinstance(b, Complex) else Complex(a, b)
        return TABLE[name](**arguments)

    def translation(context: Context, *args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(TABLE[name]).bind(context, *args, **kwargs)
        return expanded(dict(bound.arguments))

    return translation


def _replaced(value: Any, i: int, item: Any) -> Any:
    return [*value[:i], item, *value[i + 1 :]] if isinstance(value, list) else item


def numbers(context: Context, *values: Any) -> list[Any]:
    """Operands of arithmetic with their parts in `context.dtype`: `Complex`, and traced values for real ones."""
    return [_number(context, value) for value in values]


def _number(context: Context, value: Any) -> Any:
    if isinstance(value, Complex):
        return Complex(cast(value.real, context.dtype), cast(value.imaginary, context.dtype))
    if _is_tensor(value):
        return cast(value, context.dtype)
    if isinstance(value, complex):
        return Complex(scalar(context, value.real, context.dtype), scalar(context, value.imag, context.dtype))
    return scalar(context, value, context.dtype)


def on_pair(context: Context) -> Context:
    """The context of an operator that is applied to pairs, whose last axis holds the parts."""
    types = tuple(None if t is None else t.with_shape((*t.shape, 2)) for t in context.types)
    return dataclasses.replace(context, types=types)


def is_complex(value: Any) -> bool:
    """Whether a value of an exported graph is a complex tensor, or one of several is."""
    items = value if isinstance(value, (tuple, list)) else (value,)
    return any(isinstance(item, torch.Tensor) and item.is_complex() for item in items)
