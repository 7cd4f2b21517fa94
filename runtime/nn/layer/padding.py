"""Padding of the last one to three axes: constant, reflection, or replication. See also `rearranging.Pad`."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional.padding import pad
from ..cell import Cell


class _PadNd(Cell):
    """The base class of layers that pad their last axes.

    `padding` is (before, after) for the last axis, then for the second last, and so on: (left, right, top, bottom).
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
        """(N, C, *padded axes) or (C, *padded axes); returns the axes padded."""
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
        """Any tensor with at least the padded axes; returns them padded, or cropped for negative numbers."""
        return pad(x, self.padding, self.mode, self.value)

    def extend_repr(self) -> str:
        """The numbers of elements, and the constant."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Pads both ends of the last axis with a constant.

    Args:
        padding: (before, after), or an int for both. Negative numbers crop.
        value: the constant.
    """

    axes = 1


class ConstantPad2d(_ConstantPadNd):
    """Pads both ends of the last two axes with a constant.

    Args:
        padding: (left, right, top, bottom), or an int for all. Negative numbers crop.
        value: the constant.
    """

    axes = 2


class ConstantPad3d(_ConstantPadNd):
    """Pads both ends of the last three axes with a constant.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all. Negative numbers crop.
        value: the constant.
    """

    axes = 3


class ZeroPad2d(ConstantPad2d):
    """Pads both ends of the last two axes with zeros.

    Args:
        padding: (left, right, top, bottom), or an int for all. Negative numbers crop.
    """

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0)


class ReflectionPad1d(_PadNd):
    """Pads the last axis by reflection, without repeating the edge.

    Args:
        padding: (before, after), or an int for both; less than the size of the axis.
    """

    mode, axes = "reflect", 1


class ReflectionPad2d(_PadNd):
    """Pads the last two axes by reflection, without repeating the edge.

    Args:
        padding: (left, right, top, bottom), or an int for all; less than the size of the axis.
    """

    mode, axes = "reflect", 2


class ReflectionPad3d(_PadNd):
    """Pads the last three axes by reflection, without repeating the edge.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all; less than the size of the axis.
    """

    mode, axes = "reflect", 3


class ReplicationPad1d(_PadNd):
    """Pads the last axis by repeating its edges.

    Args:
        padding: (before, after), or an int for both.
    """

    mode, axes = "replicate", 1


class ReplicationPad2d(_PadNd):
    """Pads the last two axes by repeating their edges.

    Args:
        padding: (left, right, top, bottom), or an int for all.
    """

    mode, axes = "replicate", 2


class ReplicationPad3d(_PadNd):
    """Pads the last three axes by repeating their edges.

    Args:
        padding: (left, right, top, bottom, front, back), or an int for all.
    """

    mode, axes = "replicate", 3
