"""Arguments for kernels, strides and padding: one int for all axes or one for each, and padding modes.

The axes are the spatial ones, after batch and channels.
"""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ir.dims import Dim, maximum
from ..ops.windows import Padding, Sizes, window_span

PAD_MODES = ("valid", "same", "pad")


def per_axis(value: Any, name: str, count: int, *, of: str, least: int = 1) -> Sizes:
    """Convert an int, or a tuple or list of one or `count` ints, to `count` ints.

    Raises:
        TypeError: `value` is none of these.
        ValueError: `value` has another length, or an int is below `least`.
    """
    checks.of_type(value, name, (int, tuple, list), of=of)
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for size in sizes:
        checks.of_type(size, name, int, of=of)
        if size < least:
            raise ValueError(f"For '{of}', '{name}' must be int >= {least}, but got {value}")
    if len(sizes) not in (1, count):
        raise ValueError(f"For '{of}', '{name}' must be an int or {count} ints, but got {value}")
    return sizes * count if len(sizes) == 1 else sizes


def both_sides(sizes: Sizes) -> Padding:
    """Return the padding that adds each size at both ends of its axis."""
    return tuple((size, size) for size in sizes)


def each_side(value: Any, name: str, count: int, *, of: str) -> Padding:
    """Convert an int for all sides, or a tuple or list of one for each, to `(before, after)` for each of `count` axes.

    Raises:
        TypeError: `value` is neither.
        ValueError: `value` doesn't hold two ints per axis, or an int is negative.
    """
    if isinstance(value, (tuple, list)) and len(value) != 2 * count:
        raise ValueError(f"For '{of}', '{name}' must be an int or {2 * count} ints, two for each axis, but got {value}")
    sides = per_axis(value, name, 2 * count, of=of, least=0)
    return tuple((sides[i], sides[i + 1]) for i in range(0, 2 * count, 2))


def check_padding(pad_mode: Any, padding: Padding, *, of: str, allowed: tuple[str, ...] = PAD_MODES) -> None:
    """Raise an error unless `pad_mode` is one of `allowed`, and `padding` is zero if the mode isn't "pad".

    Raises:
        TypeError: `pad_mode` isn't a string.
        ValueError: the mode is unknown, or `padding` is used with a mode that determines it.
    """
    checks.of_type(pad_mode, "pad_mode", str, of=of)
    checks.one_of(pad_mode, "pad_mode", allowed, of=of)
    if pad_mode != "pad" and any(map(any, padding)):
        raise ValueError(
            f"For '{of}', 'padding' must be 0 unless 'pad_mode' is 'pad', but got {padding} with {pad_mode!r}"
        )


def resolve_padding(
    pad_mode: str, padding: Padding, sizes: Any, kernel: Any, stride: Sizes, dilation: Sizes
) -> Padding:
    """Return the padding of axes with these `sizes`; "same" gives each axis `ceil(size / stride)` windows.

    If the padding of "same" is odd, the extra element is at the end.
    """
    if pad_mode != "same":
        return padding
    return tuple(
        _same(size, window_span(k, d), s) for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True)
    )


def _same(size: Dim, span: int, stride: int) -> Any:
    total: Dim = span - 1
    if stride > 1:
        count = (size + stride - 1) // stride
        total = maximum((count - 1) * stride + span - size, 0)
    return total // 2, total - total // 2
