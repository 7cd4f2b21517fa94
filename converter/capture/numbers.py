"""Python numbers that a model computes from sizes and from elements: `x.shape[0] ** -0.5`, `mask.sum().item()`.

Integers become dimensions of the IR; floats and truth values are computed by the program, as tensors of rank 0.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch

from ...runtime.ir.dims import Dim, SymbolicDim
from ...runtime.ir.types import BOOL, FLOAT64, INT64, is_floating
from ...runtime.ops import boundary, comparison, creation, data_dependent, elementwise, rounding, shaping
from ...runtime.tracing import Builder, SymbolicTensor
from .tables.table import Number

ELEMENT = frozenset({torch.ops.aten._local_scalar_dense.default, torch.ops.aten.item.default})

_FLOATS: dict[Any, Callable[..., Any]] = {
    operator.add: elementwise.add,
    operator.sub: elementwise.sub,
    operator.mul: elementwise.mul,
    operator.truediv: elementwise.div,
    operator.pow: elementwise.pow,
    operator.neg: elementwise.neg,
    operator.floordiv: rounding.floor_divide,
    operator.mod: rounding.remainder,
    math.floor: rounding.floor,
    math.ceil: rounding.ceil,
    torch.sym_float: lambda x: x,
    torch.sym_max: elementwise.maximum,
    torch.sym_min: elementwise.minimum,
    torch.sym_sqrt: elementwise.sqrt,
    getattr(torch, "_sym_sqrt", math.sqrt): elementwise.sqrt,
    torch.ops.aten.sym_size.int: lambda x: x,
}
_COMPARISONS: dict[Any, Callable[..., Any]] = {
    operator.eq: comparison.equal,
    operator.ne: comparison.not_equal,
    operator.lt: comparison.less,
    operator.le: comparison.less_equal,
    operator.gt: comparison.greater,
    operator.ge: comparison.greater_equal,
}
_TRUTH: dict[Any, Callable[..., Any]] = {
    operator.and_: comparison.logical_and,
    operator.or_: comparison.logical_or,
    torch.sym_not: comparison.logical_not,
}


def element(builder: Builder, x: SymbolicTensor, number: Any, dim: Dim | None) -> Any:
    """The only element of a tensor as a Python number: the size `dim`, which the tensor defines, if it is an integer.

    A Python number has no history: no gradient passes from it to the tensor.
    """
    alone = shaping.reshape(x, shape=()) if x.ndim else x
    alone = boundary.stop_gradient(alone) if is_floating(alone.dtype) else alone
    if dim is None:
        return alone if isinstance(number, torch.SymBool) else Number(builder, alone.value)
    if isinstance(dim, SymbolicDim) and dim.solve(0) is not None and str(dim) in dim.symbols():
        whole = alone if alone.dtype.kind in "iu" else elementwise.cast(alone, dtype=INT64)
        data_dependent.read_sizes(whole, symbols=(str(dim),))
    return dim


def compute_number(builder: Builder, function: Any, args: list[Any]) -> Any:
    """A float or a truth value that Python computes from numbers; None for other functions."""
    if function in _TRUTH:
        return _TRUTH[function](*(_tensor(builder, x, BOOL) for x in args))
    if function in _COMPARISONS:
        whole = all(isinstance(x, (int, SymbolicDim)) for x in args)
        return _COMPARISONS[function](*(_tensor(builder, x, INT64 if whole else FLOAT64) for x in args))
    if function in _FLOATS:
        result = _FLOATS[function](*(_tensor(builder, x, FLOAT64) for x in args))
        return Number(builder, result.value)
    return None


def _tensor(builder: Builder, number: Any, dtype: Any) -> SymbolicTensor:
    if isinstance(number, SymbolicTensor):
        cast: SymbolicTensor = elementwise.cast(number, dtype=dtype) if number.dtype != dtype else number
        return cast
    if isinstance(number, SymbolicDim):
        size: SymbolicTensor = builder.create(creation.full, shape=(), value=number, dtype=dtype)
        return size
    return builder.constant(number, dtype)
