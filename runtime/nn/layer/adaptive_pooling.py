"""Adaptive pooling layers, with a given number of windows."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional import adaptive_pooling
from ..cell import Cell


class _AdaptivePool(Cell):
    """Args:
    output_size: number of windows, an int for all axes or one for each; None keeps the size of an axis.
    """

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
        for size in sizes:
            if size is not None:
                checks.positive_int(size, "output_size", of=self.cls_name)
        self.output_size = output_size

    def extend_repr(self) -> str:
        """Number of windows."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means of `output_size` windows of a sequence: the i-th of n from `floor(i * L / n)` to `ceil((i + 1) * L / n)`.

    Args:
        output_size: number of windows, an int.

    Raises:
        TypeError: `output_size` isn't an int.
        ValueError: `output_size` isn't positive.
    """

    def __init__(self, output_size: int) -> None:
        super().__init__(checks.positive_int(output_size, "output_size", of=self.cls_name))

    def construct(self, input: Any) -> Any:
        """(N, C, L) or (C, L), floating-point; returns (N, C, output_size) or (C, output_size)."""
        return adaptive_pooling.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means of `output_size` windows along each axis of an image; see `AdaptiveAvgPool1d` for where they are.

    Args:
        output_size: an int for both axes or one for each; None keeps the size of an axis.

    Raises:
        TypeError: a size isn't an int.
        ValueError: a size isn't positive; in a call, there isn't one for each axis.
    """

    def construct(self, input: Any) -> Any:
        """(N, C, H, W) or (C, H, W), floating-point; returns (N, C, *output_size) or (C, *output_size)."""
        return adaptive_pooling.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptivePool):
    """Means of `output_size` windows along each axis of a volume; see `AdaptiveAvgPool2d`."""

    def construct(self, input: Any) -> Any:
        """(N, C, D, H, W) or (C, D, H, W), floating-point; returns (N, C, *output_size) or (C, *output_size)."""
        return adaptive_pooling.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPool1d(_AdaptivePool):
    """The largest element of `output_size` windows of a sequence, which are those of `AdaptiveAvgPool1d`."""

    def __init__(self, output_size: int) -> None:
        super().__init__(checks.positive_int(output_size, "output_size", of=self.cls_name))

    def construct(self, x: Any) -> Any:
        """(N, C, L) or (C, L); returns (N, C, output_size) or (C, output_size)."""
        return adaptive_pooling.adaptive_max_pool1d(x, self.output_size)


class AdaptiveMaxPool2d(_AdaptivePool):
    """The largest element of `output_size` windows along each axis of an image; see `AdaptiveAvgPool2d`.

    Args:
        output_size: an int for both axes or one for each; None keeps the size of an axis.
        return_indices: whether to also return the positions of the elements: int64 indices into the flattened plane.
    """

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = checks.of_type(return_indices, "return_indices", bool, of=self.cls_name)

    def construct(self, input: Any) -> Any:
        """(N, C, H, W) or (C, H, W); returns (N, C, *output_size) or (C, *output_size), with `return_indices` twice."""
        return adaptive_pooling.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptivePool):
    """The largest element of `output_size` windows along each axis of a volume; see `AdaptiveMaxPool2d`."""

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = checks.of_type(return_indices, "return_indices", bool, of=self.cls_name)

    def construct(self, input: Any) -> Any:
        """(N, C, D, H, W) or (C, D, H, W); returns (N, C, *output_size) or (C, *output_size)."""
        return adaptive_pooling.adaptive_max_pool3d(input, self.output_size, self.return_indices)
