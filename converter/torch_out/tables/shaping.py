"""Data movement: reshaping, permuting, joining, slicing, padding."""

from __future__ import annotations

import operator
from typing import Any

import torch
import torch.nn.functional as F

from ....runtime.ops.common import normalize_axis
from ...rows import Row
from ..calls import functions
from .table import Context, pass_on, torch_form


@torch_form("reshape")
def _(context: Context, x: Any, *, shape: Any) -> Any:
    return x.reshape(shape)


@torch_form("transpose")
def _(context: Context, x: Any, *, permutation: tuple[int, ...]) -> Any:
    return x.permute(permutation)


@torch_form("expand")
def _(context: Context, x: Any, *, shape: Any) -> Any:
    return x.expand(shape)


@torch_form("concat")
def _(context: Context, *xs: Any, axis: int) -> Any:
    return context.call(torch.cat, list(xs), axis)


@torch_form("slice")
def _(context: Context, x: Any, *, starts: Any, stops: Any, steps: Any, axes: Any) -> Any:
    index: list[Any] = [slice(None)] * context.x.rank
    for start, stop, step, axis in zip(starts, stops, steps, axes, strict=True):
        index[axis] = slice(None if isinstance(start, int) and start == 0 else start, stop, step if step != 1 else None)
    return context.call(operator.getitem, x, tuple(index))


@torch_form("tile")
def _(context: Context, x: Any, *, repeats: Any) -> Any:
    return x.repeat(repeats)


@torch_form("roll")
def _(context: Context, x: Any, *, shifts: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    return context.call(torch.roll, x, shifts, axes) if context.x.rank and axes else x


@torch_form("slice_scatter")
def _(context: Context, x: Any, src: Any, *, axis: int, start: Any, stop: Any, step: int) -> Any:
    return context.call(torch.slice_scatter, x, src, normalize_axis(axis, context.x.rank), start, stop, step)


@torch_form("pad")
def _(context: Context, x: Any, *, before: Any, after: Any, mode: str, value: float) -> Any:
    """By `F.pad` if it supports the padding, else axis by axis."""
    widths = list(zip(before, after, strict=True))
    padded = [axis for axis, width in enumerate(widths) if any(not isinstance(size, int) or size for size in width)]
    if not padded:
        return x
    spatial = context.x.rank - padded[0]
    is_static = all(isinstance(size, int) and size >= 0 for width in widths for size in width)
    if mode == "constant" or (is_static and spatial <= 3 and context.x.rank - spatial in (1, 2)):
        flat = [size for width in widths[padded[0] :][::-1] for size in width]
        filler = {"value": value} if mode == "constant" and value else {}
        return context.call(F.pad, x, flat, mode, **filler)
    return context.call(functions.pad_or_crop, x, before, after, mode)


@torch_form("triangle")
def _(context: Context, x: Any, *, k: int, upper: bool) -> Any:
    return context.call(torch.triu if upper else torch.tril, x, k)


ROWS: dict[str, Row] = {
    "flip": (torch.flip, "x, axes"),
}
pass_on(ROWS)
