"""Queries and checks of tensors: finite, real, zero; assertions; sizes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import float32
from ..common.tensor import from_array
from ..ir.dims import product
from ..ir.types import is_floating
from ..ops import comparison, creation, elementwise, reduction, shaping
from .arguments import known_elements
from .operands import as_tensor, require_floating
from .public_op import Primitive, operator_object, public_op, tensor_method

# ---- sizes and kinds ----


@public_op()
def numel(input: Any) -> Any:
    """Number of elements."""
    return product(as_tensor(input, of="numel").shape)


@tensor_method("__contains__")
def _contains(self: Any, value: Any) -> bool:
    """Whether an element equals `value`: `1.0 in x`."""
    return bool((self == value).any())


@public_op()
def is_nonzero(input: Any) -> bool:
    """Whether the only element is nonzero; `ValueError` if there are several."""
    x = as_tensor(input, of="is_nonzero")
    if product(x.shape) != 1:
        raise ValueError(f"For 'is_nonzero', 'input' must have one element, but got shape {tuple(x.shape)}")
    return bool(x)


@public_op(method="isreal")
def isreal(input: Any) -> Any:
    """Whether elements are real: always True, since there are no complex dtypes."""
    return as_tensor(creation.full_like(elementwise.cast(as_tensor(input, of="isreal"), dtype=np.dtype(bool)), True))


@public_op(method="is_complex")
def is_complex(input: Any) -> bool:
    """Whether the dtype is complex: always False."""
    as_tensor(input, of="is_complex")
    return False


def _has_init(self: Any) -> bool:
    """Whether initialization is pending: always False."""
    return False


tensor_method("has_init")(property(_has_init))


@public_op(primitive="Eps")
def eps(x: Any) -> Any:
    """The distance from 1 to the next number of the dtype of `x`, in the shape of `x`."""
    tensor = require_floating(x, "x", of="eps")
    return as_tensor(creation.full_like(tensor, 2.0 ** -_FRACTION_BITS[tensor.dtype.name]))


_FRACTION_BITS = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}


# ---- finite or not ----


@public_op(primitive="FloatStatus")
def _float_status(x: Any) -> Any:
    """1 if an element isn't finite, else 0: float32 (1)."""
    tensor = require_floating(x, "x", of="FloatStatus")
    broken = comparison.logical_not(reduction.reduce_all(comparison.isfinite(tensor)))
    return shaping.reshape(elementwise.cast(broken, dtype=float32), shape=(1,))


@public_op(primitive="CheckNumerics")
def _check_numerics(x: Any) -> Any:
    """Return `x` if all its elements are finite; raise `RuntimeError` otherwise."""
    values = known_elements(require_floating(x, "x", of="CheckNumerics"), "the operand of CheckNumerics")
    if not np.isfinite(values).all():
        kinds = " and ".join(name for name, test in (("NaN", np.isnan), ("infinity", np.isinf)) if test(values).any())
        raise RuntimeError(f"For 'CheckNumerics', 'x' must be finite, but it holds {kinds}")
    return x


@operator_object
class Assert:
    """Raises an error if a condition is False.

    Args:
        summarize: the number of elements to print of each tensor.

    Inputs:
        A condition, which is a bool or bool tensor, and a tuple or list of tensors to print if it is False.

    Raises:
        RuntimeError: the condition is False.
    """

    def __init__(self, summarize: int = 3) -> None:
        self.summarize = checks.of_type(summarize, "summarize", int, of="Assert")

    def __call__(self, condition: Any, input_data: Any) -> None:
        """Check the condition."""
        if bool(condition):
            return
        for x in input_data:
            elements = np.asarray(known_elements(as_tensor(x), "the input data of Assert")).reshape(-1)[
                : self.summarize
            ]
            sys.stdout.write(f"input data: {elements}\n")
        raise RuntimeError("For 'Assert', the condition is false")


class _DeviceStatus:
    """The overflow status of an NPU; on other devices, eight zeros: no overflow."""

    def __call__(self, *_: Any) -> Any:
        """Return eight zeros, float32."""
        return from_array(np.zeros(8, float32))


@operator_object
class NPUAllocFloatStatus(_DeviceStatus):
    """Allocates the overflow status of an NPU; without one, eight zeros. `FloatStatus` checks values instead."""


@operator_object
class NPUGetFloatStatus(_DeviceStatus):
    """Reads the overflow status of an NPU; without one, eight zeros. `FloatStatus` checks values instead."""


@operator_object
class NPUClearFloatStatus(_DeviceStatus):
    """Clears the overflow status of an NPU; without one, eight zeros."""


# ---- counts ----


@public_op(primitive="EqualCount")
def _equal_count(x: Any, y: Any) -> Any:
    """The number of equal elements of two tensors, in their dtype: (1)."""
    a, b = as_tensor(x, "x", of="EqualCount"), as_tensor(y, "y", of="EqualCount")
    if a.dtype != b.dtype or tuple(a.shape) != tuple(b.shape):
        raise ValueError(
            f"For 'EqualCount', the operands must have one dtype and shape, but got {a.dtype} {tuple(a.shape)} and "
            f"{b.dtype} {tuple(b.shape)}"
        )
    equal = elementwise.cast(comparison.equal(a, b), dtype=a.dtype if a.dtype != np.dtype(bool) else np.dtype(np.int32))
    return shaping.reshape(reduction.reduce_sum(equal), shape=(1,))


@public_op(method="fill_diagonal", primitive=Primitive("FillDiagonal", init_args=("fill_value", "wrap")))
def fill_diagonal(input: Any, fill_value: float, wrap: bool = False) -> Any:
    """Fill the main diagonal of `input` with a number.

    Args:
        input: a matrix, or a tensor with more axes, all of the same size.
        fill_value: the number.
        wrap: whether the diagonal of a tall matrix starts again, after a gap of one row, at the last column.
    """
    x = as_tensor(input, of="fill_diagonal")
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ValueError(f"For 'fill_diagonal', needed a matrix or axes of one size, but got shape {tuple(x.shape)}")
    mask = np.zeros(x.shape, bool)
    step = 1 + int(np.cumprod(x.shape[:0:-1]).sum())
    end = mask.size if wrap or x.ndim > 2 or x.shape[0] <= x.shape[1] else x.shape[1] ** 2
    mask.reshape(-1)[:end:step] = True
    value = np.asarray(fill_value, x.dtype if is_floating(x.dtype) else np.asarray(fill_value).astype(x.dtype).dtype)
    return elementwise.where(from_array(mask), value.astype(x.dtype), x)
