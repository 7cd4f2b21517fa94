"""Less common pooling layers: power-average, fractional and inverse max-pooling."""

from __future__ import annotations

from typing import Any

from ...functional import special_pooling
from ..cell import Cell

# ---- power-average pooling ----


class _LPPool(Cell):
    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extend_repr(self) -> str:
        """The arguments."""
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """(sum of x**p)**(1 / p) of each window; arguments and errors are those of `ops.lp_pool1d`.

    Args:
        norm_type: p.
        kernel_size: the size of a window.
        stride: the step between windows; None: `kernel_size`.
        ceil_mode: whether to include windows that extend beyond the end.
    """

    def construct(self, x: Any) -> Any:
        """(N, C, L) or (C, L), floating-point; returns likewise."""
        return special_pooling.lp_pool1d(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """`LPPool1d` for images; `kernel_size` and `stride` are an int or one for each axis."""

    def construct(self, x: Any) -> Any:
        """(N, C, H, W) or (C, H, W), floating-point; returns likewise."""
        return special_pooling.lp_pool2d(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


# ---- fractional pooling ----


class _FractionalMaxPool(Cell):
    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None, return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self._random_samples = _random_samples

    def extend_repr(self) -> str:
        """The arguments."""
        return (
            f"kernel_size={self.kernel_size}, output_size={self.output_size}, output_ratio={self.output_ratio}, "
            f"return_indices={self.return_indices}"
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of each window, with random steps between windows (Graham 2014).

    Args:
        kernel_size: the size of a window, an int or one for each axis.
        output_size: number of windows, likewise.
        output_ratio: without `output_size`: the output sizes as fractions of the input sizes, in (0, 1).
        return_indices: whether to also return the positions of the elements.
        _random_samples: (N, C, 2), samples in [0, 1) for width and height; None: new samples at every call.

    Errors are those of `ops.fractional_max_pool2d`.
    """

    def construct(self, input: Any) -> Any:
        """(N, C, H, W) or (C, H, W), floating-point; returns likewise, with `return_indices` twice."""
        return special_pooling.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool3d(_FractionalMaxPool):
    """`FractionalMaxPool2d` for volumes; the samples (N, C, 3) are for depth, height and width."""

    def construct(self, input: Any) -> Any:
        """(N, C, D, H, W) or (C, D, H, W), floating-point; returns likewise, with `return_indices` twice."""
        return special_pooling.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


# ---- inverse of max-pooling ----


class _MaxUnpool(Cell):
    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def extend_repr(self) -> str:
        """The arguments."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts the outputs of a max-pooling back to their original positions, with zeros elsewhere.

    Args:
        kernel_size: the kernel size of the pooling, an int or a tuple.
        stride: the stride of the pooling; None: `kernel_size`.
        padding: the padding of the pooling.

    Errors are those of `ops.max_unpool1d`.
    """

    def construct(self, x: Any, indices: Any, output_size: Any = None) -> Any:
        """(N, C, L) or (C, L), positions of that shape, and the output sizes if they are ambiguous."""
        return special_pooling.max_unpool1d(x, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    """`MaxUnpool1d` for images."""

    def construct(self, x: Any, indices: Any, output_size: Any = None) -> Any:
        """(N, C, H, W) or (C, H, W), positions of that shape, and the output sizes if they are ambiguous."""
        return special_pooling.max_unpool2d(x, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpool):
    """`MaxUnpool1d` for volumes."""

    def construct(self, x: Any, indices: Any, output_size: Any = None) -> Any:
        """(N, C, D, H, W) or (C, D, H, W), positions of that shape, and the output sizes if they are ambiguous."""
        return special_pooling.max_unpool3d(x, indices, self.kernel_size, self.stride, self.padding, output_size)
