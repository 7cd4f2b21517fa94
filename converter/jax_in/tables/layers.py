"""Products of matrices, convolutions and pooling."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.ops import average_pooling, contraction, convolution, elementwise, max_pooling, shaping, slicing
from ...unsupported import Unsupported
from .shapes import _spread
from .table import cast, primitive


@primitive("dot_general")
def dot_general(
    reader: Any, a: Any, b: Any, *, dimension_numbers: Any, preferred_element_type: Any = None, **_: Any
) -> Any:
    """lax.dot_general: sums over pairs of axes, with pairs of batch axes first in the result."""
    (contract_a, contract_b), (batch_a, batch_b) = dimension_numbers
    letters = iter(string.ascii_letters)
    of_a = [next(letters) for _ in range(a.ndim)]
    of_b = [""] * b.ndim
    for left, right in [*zip(contract_a, contract_b, strict=True), *zip(batch_a, batch_b, strict=True)]:
        of_b[right] = of_a[left]
    of_b = [letter or next(letters) for letter in of_b]
    batch = [of_a[axis] for axis in batch_a]
    free_a = [of_a[axis] for axis in range(a.ndim) if axis not in (*contract_a, *batch_a)]
    free_b = [of_b[axis] for axis in range(b.ndim) if axis not in (*contract_b, *batch_b)]
    equation = f"{''.join(of_a)},{''.join(of_b)}->{''.join([*batch, *free_a, *free_b])}"
    result = contraction.einsum(equation, [a, b])
    return result if preferred_element_type is None else cast(result, preferred_element_type)


@primitive("conv_general_dilated")
def conv_general_dilated(
    reader: Any,
    x: Any,
    weight: Any,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    **_: Any,
) -> Any:
    """lax.conv_general_dilated; its dimension numbers say which axes are batch, channels and space."""
    if batch_group_count != 1:
        raise Unsupported("groups of the batch")
    if not 1 <= x.ndim - 2 <= 3:
        raise Unsupported(f"{x.ndim - 2} spatial dimensions")
    x = shaping.transpose(x, permutation=tuple(dimension_numbers.lhs_spec))
    weight = shaping.transpose(weight, permutation=tuple(dimension_numbers.rhs_spec))
    for axis, dilation in enumerate(lhs_dilation):
        x = _spread(x, axis + 2, dilation - 1, 0.0) if dilation > 1 else x
    y = convolution.conv(
        x,
        weight,
        stride=tuple(window_strides),
        padding=tuple((int(before), int(after)) for before, after in padding),
        dilation=tuple(rhs_dilation),
        groups=feature_group_count,
    )
    return shaping.transpose(y, permutation=tuple(np.argsort(dimension_numbers.out_spec).tolist()))


Windows = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


def _arranged(x: Any, sizes: Sequence[int], strides: Sequence[int], padding: Any, value: float) -> tuple[Any, Any]:
    """Return `x` as (batch, 1, *spatial), padded with a value, and what arranges the result as `x` is."""
    spatial = [axis for axis in range(x.ndim) if sizes[axis] > 1 or strides[axis] > 1] or [x.ndim - 1]
    if len(spatial) > 3:
        raise Unsupported(f"windows along {len(spatial)} axes")
    others = [axis for axis in range(x.ndim) if axis not in spatial]
    before, after = (tuple(int(pair[end]) for pair in padding) for end in (0, 1))
    if any(before) or any(after):
        x = slicing.pad(x, before=before, after=after, value=value)
    order = (*others, *spatial)
    outer = tuple(x.shape[axis] for axis in others)
    x = shaping.transpose(x, permutation=order)
    x = shaping.reshape(x, shape=(math.prod(outer), 1, *x.shape[len(others) :]))

    def back(y: Any) -> Any:
        y = shaping.reshape(y, shape=(*outer, *y.shape[2:]))
        return shaping.transpose(y, permutation=tuple(np.argsort(order).tolist()))

    return x, (spatial, back)


def _require_plain(base_dilation: Sequence[int]) -> None:
    if any(dilation != 1 for dilation in base_dilation):
        raise Unsupported("windows over a dilated tensor")


@primitive("reduce_window_max")
def reduce_window_max(
    reader: Any, x: Any, *, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any,
    window_dilation: Any,
) -> Any:  # fmt: skip
    """lax.reduce_window with max."""
    _require_plain(base_dilation)
    arranged, (spatial, back) = _arranged(x, window_dimensions, window_strides, padding, -math.inf)
    y, _ = max_pooling.max_pool(
        arranged,
        kernel=tuple(window_dimensions[axis] for axis in spatial),
        stride=tuple(window_strides[axis] for axis in spatial),
        padding=((0, 0),) * len(spatial),
        dilation=tuple(window_dilation[axis] for axis in spatial),
    )
    return back(y)


@primitive("reduce_window_min")
def reduce_window_min(reader: Any, x: Any, **windows: Any) -> Any:
    """lax.reduce_window with min."""
    return elementwise.neg(reduce_window_max(reader, elementwise.neg(x), **windows))


@primitive("reduce_window_sum")
def reduce_window_sum(
    reader: Any, x: Any, *, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any,
    window_dilation: Any,
) -> Any:  # fmt: skip
    """lax.reduce_window with add."""
    _require_plain([*base_dilation, *window_dilation])
    arranged, (spatial, back) = _arranged(x, window_dimensions, window_strides, padding, 0.0)
    kernel = tuple(window_dimensions[axis] for axis in spatial)
    y = average_pooling.avg_pool(
        arranged,
        kernel=kernel,
        stride=tuple(window_strides[axis] for axis in spatial),
        padding=((0, 0),) * len(spatial),
        divisor_override=1,
    )
    return back(y)
