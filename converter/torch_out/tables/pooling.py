"""Pooling."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from ...rows import Row
from ..calls import functions
from .convolution import symmetric
from .table import Context, pass_on, torch_form

MAX = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
AVERAGE = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
ADAPTIVE_MAX = (F.adaptive_max_pool1d, F.adaptive_max_pool2d, F.adaptive_max_pool3d)
ADAPTIVE_AVERAGE = (F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d)


@torch_form("max_pool")
def _(context: Context, x: Any, *, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    edge = symmetric(padding)
    if edge is None:
        counts = _spatial(context)
        result = context.call(functions.max_pool, x, kernel, stride, padding, dilation, ceil_mode, counts)
        return result[0], result[1]
    function = MAX[len(kernel) - 1]
    if not context.used[1]:
        return context.call(function, x, kernel, stride, edge, dilation, ceil_mode), None
    result = context.call(function, x, kernel, stride, edge, dilation, ceil_mode, True)
    return result[0], result[1]


def _spatial(context: Context) -> Any:
    """Sizes of the windows' axes if they are known, else None."""
    sizes = context.y.shape[2:]
    return sizes if all(isinstance(size, int) for size in sizes) else None


@torch_form("max_pool_gradient")
def _(context: Context, g: Any, indices: Any, *, size: Any, disjoint: bool) -> Any:
    del disjoint  # sums are right in both cases
    return context.call(functions.max_pool_gradient, g, indices, size)


@torch_form("avg_pool")
def _(
    context: Context,
    x: Any,
    *,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    edge = symmetric(padding)
    if edge is not None and (divisor_override is None or len(kernel) > 1):
        override = {} if divisor_override is None else {"divisor_override": divisor_override}
        function = AVERAGE[len(kernel) - 1]
        return context.call(function, x, kernel, stride, edge, ceil_mode, count_include_pad, **override)
    options = (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return context.call(functions.avg_pool, x, *options)


@torch_form("avg_pool_gradient")
def _(
    context: Context,
    g: Any,
    *,
    size: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    options = (kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return context.call(functions.avg_pool_gradient, g, size, *options)


@torch_form("adaptive_max_pool")
def _(context: Context, x: Any, *, output_size: Any) -> Any:
    result = context.call(ADAPTIVE_MAX[len(output_size) - 1], x, output_size, context.used[1])
    return (result[0], result[1]) if context.used[1] else (result, None)


@torch_form("adaptive_avg_pool")
def _(context: Context, x: Any, *, output_size: Any) -> Any:
    return context.call(ADAPTIVE_AVERAGE[len(output_size) - 1], x, output_size)


ROWS: dict[str, Row] = {
    "adaptive_avg_pool_gradient": (functions.adaptive_avg_pool_gradient, "g, size"),
}
pass_on(ROWS)
