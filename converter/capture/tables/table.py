"""The table of ATen operators: for each, the function that translates it to ops of the IR.

A function's docstring is the schema of the operator; its parameters are those of the schema (arguments that concern
only memory are dropped). Its first argument is a `Context`. It returns a symbolic tensor, or a tuple of them:

    @aten("aten.relu.default")
    def relu(context, self):
        "relu(Tensor self) -> Tensor"
        return rectifier.relu(self)

Entries that only pass arguments on are rows, whose names are those of ATen's schema:

    pass_on({"aten.tril.default": (shaping.triangle, "self, k=diagonal, upper=False")})
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ....runtime.ir.dims import Dim, SymbolicDim
from ....runtime.ir.types import BOOL, Type, at_least_float32, is_half
from ....runtime.ops import creation, elementwise
from ....runtime.ops.complex_numbers import Complex
from ....runtime.registration import register_as
from ....runtime.tracing import Builder, SymbolicTensor
from ...dtypes import numpy_dtype, torch_dtype
from ...rows import Call, Row

Translation = Callable[..., Any]

TABLE: dict[str, Translation] = {}

MISSING = object()  # a value that couldn't be translated, or that depends on such a value

PLACEMENT = frozenset({"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "copy"})
"""Arguments that concern the memory of a tensor, not its contents."""


@dataclass(frozen=True)
class Context:
    """The context of a translation, besides its operands.

    Attributes:
        builder: the builder of the program under construction.
        types: dtype and shape of each output, as torch inferred them; None for an output that isn't a tensor. For a
            complex output, those of its parts.
        used: for each output, whether it has a user; an unused one may be returned as None.
        operands: torch's positional arguments, whose fake tensors have strides and offsets.
        is_complex: whether the first output is complex.
    """

    builder: Builder
    types: tuple[Type | None, ...]
    used: tuple[bool, ...]
    operands: tuple[Any, ...] = ()
    is_complex: bool = False

    @property
    def type(self) -> Type:
        """The type of the first output."""
        first = self.types[0]
        assert first is not None
        return first

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the first output, including symbolic sizes."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the first output."""
        return self.type.dtype


class Number(SymbolicTensor):
    """A Python float that the program computes: a tensor of rank 0 with a weak dtype in promotion."""


def aten(*targets: str) -> Callable[[Translation], Translation]:
    """Register a translation for operators as torch prints them, e.g. `"aten.add.Tensor"`; a registered name raises."""
    return register_as(TABLE, targets)


def pass_on(rows: Mapping[str, Row]) -> None:
    """Register operators that pass their arguments, and the `context`, on to a function."""
    for target, row in rows.items():
        if (schema := schema_of(target)) is not None:
            names = ["context", *(argument.name for argument in schema.arguments)]
            aten(target)(_translation(schema, Call(row, names)))


def schema_of(target: str) -> Any:
    """Return torch's schema of an operator, such as `"aten.add.Tensor"`; None if this version of torch lacks it."""
    _, name, overload = target.split(".")
    operator = getattr(torch.ops.aten, name, None)
    return getattr(operator, overload)._schema if operator is not None and overload in operator.overloads() else None


def _translation(schema: Any, call: Call) -> Translation:
    bind = binder(schema)

    def translation(context: Context, *positional: Any, **named: Any) -> Any:
        args, kwargs = call.arguments({"context": context, **bind(positional, named)})
        return call.function(*args, **kwargs)

    describe(translation, schema)
    return translation


def binder(schema: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], dict[str, Any]]:
    """Return a function that returns all arguments of an operator by name, for those that are given."""
    names = [argument.name for argument in schema.arguments]
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    return lambda args, named: {**defaults, **dict(zip(names, args, strict=False)), **named}


def describe(translation: Translation, schema: Any) -> None:
    """Give a translation the docstring and the signature of an operator, without arguments that are dropped."""
    kind, empty = inspect.Parameter, inspect.Parameter.empty
    parameters = [kind("context", kind.POSITIONAL_OR_KEYWORD)]
    for a in schema.arguments:
        if a.name in PLACEMENT and (a.kwarg_only or a.name == "generator"):
            continue
        default = a.default_value if a.has_default_value() else empty
        parameters.append(
            kind(a.name, kind.KEYWORD_ONLY if a.kwarg_only else kind.POSITIONAL_OR_KEYWORD, default=default)
        )
    translation.__doc__ = str(schema)
    translation.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]


def promote(*operands: Any) -> np.dtype[Any]:
    """The dtype to which torch promotes tensors (0-dimensional ones weakly), Python numbers and symbolic sizes.

    For complex tensors it is the dtype of the parts.
    """
    stand_ins = [_stand_in(x) for x in operands]
    result = stand_ins[0]
    for other in stand_ins[1:]:
        kind = torch.result_type(result, other)
        rank = max(getattr(result, "ndim", 0), getattr(other, "ndim", 0))
        result = torch.empty((1,) * rank, dtype=kind, device="meta")
    return numpy_dtype(result.dtype)


def _stand_in(operand: Any) -> Any:
    """A stand-in of the same dtype and kind, for torch's promotion rules."""
    if isinstance(operand, Complex):
        return torch.empty((1,) * operand.ndim, dtype=torch_dtype(operand.dtype).to_complex(), device="meta")
    if isinstance(operand, Number):
        return 1.0
    if isinstance(operand, SymbolicTensor):
        return torch.empty((1,) * operand.ndim, dtype=torch_dtype(operand.dtype), device="meta")
    return 1 if isinstance(operand, SymbolicDim) else operand


def cast(x: SymbolicTensor, dtype: np.dtype[Any]) -> SymbolicTensor:
    """`x` cast to `dtype`; `x` itself if it has that dtype."""
    if x.dtype == dtype:
        return x
    result: SymbolicTensor = elementwise.cast(x, dtype=dtype)
    return result


def operands(context: Context, dtype: np.dtype[Any], *values: Any) -> list[Any]:
    """Tensors, Python numbers and symbolic sizes as symbolic tensors of one dtype."""
    return [cast(x, dtype) if isinstance(x, SymbolicTensor) else scalar(context, x, dtype) for x in values]


def dtype_beside(context: Context, *values: Any) -> np.dtype[Any]:
    """The dtype of the computation: float32 if half precision would round a number among the operands.

    ATen multiplies and divides half-precision tensors by unrounded numbers and tensors of rank 0, and rounds only the
    result. (In additions and powers, it rounds such operands first.)
    """
    dtype = context.dtype
    return at_least_float32(dtype) if is_half(dtype) and any(_may_round(dtype, x) for x in values) else dtype


def _may_round(dtype: np.dtype[Any], x: Any) -> bool:
    """Whether `dtype` may round a scalar; for a computed scalar it may."""
    if isinstance(x, SymbolicTensor):
        return not x.shape and x.dtype not in (dtype, BOOL)
    if isinstance(x, SymbolicDim):
        return True
    with np.errstate(over="ignore"):
        rounded = float(np.asarray(x).astype(dtype))
    return not math.isnan(x) and rounded != x


def scalar(context: Context, number: Any, dtype: np.dtype[Any]) -> SymbolicTensor:
    """A Python number, a computed one or a symbolic size as a symbolic tensor of rank 0."""
    if isinstance(number, Number):
        return cast(number, dtype)
    if isinstance(number, SymbolicDim):
        full: SymbolicTensor = context.builder.create(creation.full, shape=(), value=number, dtype=dtype)
        return full
    return context.builder.constant(number, dtype)
