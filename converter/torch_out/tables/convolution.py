"""Convolution."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from ..calls import functions
from .table import Context, torch_form

CONV = (F.conv1d, F.conv2d, F.conv3d)
CONV_TRANSPOSE = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)


def symmetric(padding: Any) -> tuple[int, ...] | None:
    """The padding with one number for both ends, as torch's functions take it; None if the ends differ."""
    if all(before == after and before >= 0 for before, after in padding):
        return tuple(before for before, _ in padding)
    return None


def flat(padding: Any) -> list[Any]:
    """The padding as `F.pad` takes it: the last axis first."""
    return [size for width in reversed(tuple(padding)) for size in width]


@torch_form("conv")
def _(
    context: Context, x: Any, weight: Any, bias: Any, *, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    zeros = symmetric(padding)
    if zeros is None:
        x, zeros = context.call(F.pad, x, flat(padding)), (0,) * len(stride)
    return context.call(CONV[len(stride) - 1], x, weight, bias, stride, zeros, dilation, groups)


@torch_form("conv_transpose")
def _(
    context: Context,
    x: Any,
    weight: Any,
    bias: Any,
    *,
    stride: Any,
    padding: Any,
    output_padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    """torch's own function if it takes the padding; else the uncropped result, cropped or padded, plus the bias."""
    function, cut = CONV_TRANSPOSE[len(stride) - 1], symmetric(padding)
    limits = [max(pair) for pair in zip(stride, dilation, strict=True)]
    is_supported = all(isinstance(o, int) and o < limit for o, limit in zip(output_padding, limits, strict=True))
    if cut is not None and is_supported:
        return context.call(function, x, weight, bias, stride, cut, output_padding, groups, dilation)
    y = context.call(function, x, weight, None, stride, 0, 0, groups, dilation)
    y = context.call(F.pad, y, flat((-b, o - a) for (b, a), o in zip(padding, output_padding, strict=True)))
    return y if bias is None else y + bias.reshape((-1, *(1,) * len(stride)))


@torch_form("conv_weight_gradient")
def _(
    context: Context, x: Any, g: Any, *, kernel_shape: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    x_padded = x if not any(map(any, padding)) else context.call(F.pad, x, flat(padding))
    return context.call(functions.conv_weight_gradient, x_padded, g, kernel_shape, stride, dilation, groups)
