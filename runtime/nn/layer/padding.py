"""Padding of the last one to three axes: a constant, a mirror image, or the edge. See also `rearranging.Pad`."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional.padding import pad
from ..cell import Cell


class _PadNd(Cell):
    """Base of the layers that pad their last axes.

    `padding` is (before, after) of the last axis, then of the last but one, and so on: (left, right, top, bottom).
    """

    mode: str
    axes: int

    def __init__(self, padding: Any) -> None:
        super().__init__()
        of = self.cls_name
        checks.of_type(padding, "padding", (int, tuple), of=of)
        self.padding = (padding,) * 2 * self.axes if isinstance(padding, int) else padding
        if any(not isinstance(size, int) or isinstance(size, bool) for size in self.padding):
            raise TypeError(f"For '{of}', 'padding' must hold ints, but got {padding}")
        if len(self.padding) % 2 or len(self.padding) > 2 * self.axes:
            raise ValueError(
                f"For '{of}', 'padding' must be an int or hold (before, after) of at most {self.axes} axes, but got "
                f"{padding}"
            )
        if self.mode != "constant" and any(size < 0 for size in self.padding):
            raise ValueError(f"For '{of}', 'padding' must not be negative, but got {padding}")

    def construct(self, x: Any) -> Any:
        """Batch, channels and the padded axes, or without batch; those longer out."""
        return pad(x, self.padding, self.mode)

    def extend_repr(self) -> str:
        """The numbers of elements."""
        return f"padding={self.padding}"


class _ConstantPadNd(_PadNd):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = checks.of_type(value, "value", (int, float), of=self.cls_name)

    def construct(self, x: Any) -> Any:
        """At least as many axes as are padded; those longer out, or shorter for negative numbers."""
        return pad(x, self.padding, self.mode, self.value)

    def extend_repr(self) -> str:
        """The numbers of elements, and the constant."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """A constant added at both ends of the last axis.

    Args:
        padding: (before, after), or an int for both. Negative numbers crop.
        value: the constant.
    """

    axes = 1


class ConstantPad2d(_ConstantPadNd):
    """A constant added at both ends of the last two axes.

    Args:
        padding: (left, right, top, bottom), or an int for all. Negative numbers crop.
        value: the constant.
    """

    axes = 2


class ConstantPad3d(_ConstantPadNd):
    """A constant added at both ends of the last three axes.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all. Negative numbers crop.
        value: the constant.
    """

    axes = 3


class ZeroPad2d(ConstantPad2d):
    """Zeros added at both ends of the last two axes.

    Args:
        padding: (left, right, top, bottom), or an int for all. Negative numbers crop.
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0)


class ReflectionPad1d(_PadNd):
    """The last axis mirrored at both ends, without repeating the edge.

    Args:
        padding: (before, after), or an int for both; less than the size of the axis.
    """

    mode, axes = "reflect", 1


class ReflectionPad2d(_PadNd):
    """The last two axes mirrored at both ends, without repeating the edge.

    Args:
        padding: (left, right, top, bottom), or an int for all; less than the size of the axis.
    """

    mode, axes = "reflect", 2


class ReflectionPad3d(_PadNd):
    """The last three axes mirrored at both ends, without repeating the edge.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all; less than the size of the axis.
    """

    mode, axes = "reflect", 3


class ReplicationPad1d(_PadNd):
    """The edges of the last axis repeated.

    Args:
        padding: (before, after), or an int for both.
    """

    mode, axes = "replicate", 1


class ReplicationPad2d(_PadNd):
    """The edges of the last two axes repeated.

    Args:
        padding: (left, right, top, bottom), or an int for all.
    """

    mode, axes = "replicate", 2


class ReplicationPad3d(_PadNd):
    """The edges of the last three axes repeated.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all.
    """

    mode, axes = "replicate", 3
