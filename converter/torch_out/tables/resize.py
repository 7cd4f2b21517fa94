"""Interpolation."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from ..calls import functions
from .table import Context, torch_form

LINEAR = ("linear", "bilinear", "trilinear")


@torch_form("resize")
def _(context: Context, x: Any, *, size: Any, mode: str, align_corners: bool, half_pixel: bool, scales: Any) -> Any:
    nearest = mode in ("nearest", "nearest-exact")
    if not nearest and not align_corners and not half_pixel:
        return context.call(functions.resize_from_corners, x, size, mode, scales)
    mode = LINEAR[len(size) - 1] if mode in LINEAR else mode
    options = {"mode": mode} if nearest else {"mode": mode, "align_corners": align_corners}
    if scales is None or not any(scales):
        return context.call(F.interpolate, x, size, **options)
    if None not in scales and _is_determined(context, scales):
        return context.call(F.interpolate, x, None, scales, **options)
    return context.call(functions.resize, x, size, mode, align_corners, scales)


def _is_determined(context: Context, scales: Any) -> bool:
    """Whether the scales alone are known to determine the size."""
    sizes = zip(context.x.shape[2:], context.y.shape[2:], scales, strict=True)
    return all(int(old * scale) == new for old, new, scale in sizes if isinstance(old, int) and isinstance(new, int))


@torch_form("resize_gradient")
def _(context: Context, g: Any, *, size: Any, mode: str, align_corners: bool, half_pixel: bool, scales: Any) -> Any:
    if mode not in ("nearest", "nearest-exact") and not align_corners and not half_pixel:
        return context.call(functions.resize_from_corners_gradient, g, size, mode, scales)
    mode = LINEAR[len(size) - 1] if mode in LINEAR else mode
    return context.call(functions.resize_gradient, g, size, mode, align_corners, scales)
