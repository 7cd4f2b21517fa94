"""Pooling layers. See `adaptive_pooling` for those with a given number of windows."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...functional.geometry import both_sides, check_padding, per_axis
from ...functional.operands import as_tensor, require_floating
from ...functional.pooling import avg_pool_windows, max_pool_windows
from ..cell import Cell


class _Pool(Cell):
    """The common part of the pooling layers: checked windows."""

    axes: int

    def __init__(self, kernel_size: Any, stride: Any, pad_mode: str, padding: Any, data_format: str = "NCHW") -> None:
        super().__init__()
        of = self.cls_name
        checks.one_of(data_format, "data_format", ("NCHW",), of=of)
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.pad_mode = checks.of_type(pad_mode, "pad_mode", str, of=of).lower()
        self._kernel = per_axis(kernel_size, "kernel_size", self.axes, of=of)
        self._stride = per_axis(stride, "stride", self.axes, of=of)
        self._padding = both_sides(per_axis(padding, "padding", self.axes, of=of, least=0))
        check_padding(self.pad_mode, self._padding, of=of)

    def extend_repr(self) -> str:
        """Windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, pad_mode={self.pad_mode.upper()}"


class _MaxPool(_Pool):
    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False, data_format: str = "NCHW",
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, pad_mode, padding, data_format)
        of = self.cls_name
        self.dilation = dilation
        self.return_indices = checks.of_type(return_indices, "return_indices", bool, of=of)
        self.ceil_mode = checks.of_type(ceil_mode, "ceil_mode", bool, of=of)
        self._dilation = per_axis(dilation, "dilation", self.axes, of=of)
        if self.pad_mode != "pad" and (return_indices or ceil_mode or max(self._dilation) > 1):
            raise ValueError(
                f"For '{of}', 'dilation', 'return_indices' and 'ceil_mode' must have their defaults unless 'pad_mode' "
                f"is 'pad', but got {dilation}, {return_indices} and {ceil_mode} with {pad_mode!r}"
            )

    def construct(self, x: Any) -> Any:
        """(N, C, *spatial) or (C, *spatial); returns likewise, with `return_indices` twice."""
        values, indices = max_pool_windows(
            as_tensor(x, "x", of=self.cls_name), kernel=self._kernel, stride=self._stride, pad_mode=self.pad_mode,
            padding=self._padding, dilation=self._dilation, ceil_mode=self.ceil_mode, of=self.cls_name,
        )  # fmt: skip
        return (values, indices) if self.return_indices else values


class MaxPool2d(_MaxPool):
    """The largest element of each window of an image.

    Args:
        kernel_size: the size of a window, an int or one for each axis. Note that the default is 1.
        stride: the step between windows, an int or one for each axis. Note that the default is 1, not `kernel_size`.
        pad_mode: "valid": no padding. "same": padding for `ceil(size / stride)` windows; if it is odd, the extra
            element is at the end. "pad": `padding`. Case doesn't matter. Padding is never the maximum.
        padding: on both sides, an int or one for each axis, at most half a window; 0 unless `pad_mode` is "pad".
        dilation: the step between the elements of a window, an int or one for each axis.
        return_indices: whether to also return the positions of the elements: int64 indices into the flattened plane.
        ceil_mode: whether to include windows that start inside and extend beyond the end.
        data_format: "NCHW".

    Inputs:
        x: (N, C, H, W) or (C, H, W).

    Outputs:
        (N, C, H_out, W_out) or (C, H_out, W_out); with `return_indices` a pair of them.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a size is out of range, `pad_mode` is unknown, or `padding`, `dilation`, `return_indices` or
            `ceil_mode` isn't the default although `pad_mode` isn't "pad"; in a call, a window is larger than the padded
            input.
    """

    axes = 2


class MaxPool1d(_MaxPool):
    """The largest element of each window of a sequence, (N, C, L) or (C, L).

    Arguments, defaults and errors are those of `MaxPool2d`, without `data_format`.
    """

    axes = 1

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, pad_mode, padding, dilation, return_indices, ceil_mode)


class MaxPool3d(_MaxPool):
    """The largest element of each window of a volume, (N, C, D, H, W) or (C, D, H, W).

    Arguments, defaults and errors are those of `MaxPool2d`, without `data_format`.
    """

    axes = 3

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, dilation: Any = 1,
        return_indices: bool = False, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, pad_mode, padding, dilation, return_indices, ceil_mode)


class _AvgPool(_Pool):
    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None, data_format: str = "NCHW",
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, pad_mode, padding, data_format)
        of = self.cls_name
        self.ceil_mode = checks.of_type(ceil_mode, "ceil_mode", bool, of=of)
        self.count_include_pad = checks.of_type(count_include_pad, "count_include_pad", bool, of=of)
        if divisor_override is not None:
            checks.positive_int(divisor_override, "divisor_override", of=of)
        self.divisor_override = divisor_override

    def construct(self, x: Any) -> Any:
        """(N, C, *spatial) or (C, *spatial), floating-point; returns likewise."""
        return avg_pool_windows(
            require_floating(x, "x", of=self.cls_name), kernel=self._kernel, stride=self._stride,
            pad_mode=self.pad_mode, padding=self._padding, ceil_mode=self.ceil_mode,
            count_include_pad=self.count_include_pad, divisor_override=self.divisor_override, of=self.cls_name,
        )  # fmt: skip


class AvgPool2d(_AvgPool):
    """The mean of each window of an image.

    Args:
        kernel_size: the size of a window, an int or one for each axis. Note that the default is 1.
        stride: the step between windows, an int or one for each axis. Note that the default is 1, not `kernel_size`.
        pad_mode: see `MaxPool2d`. The padding of "same" never counts: the divisor is the number of input elements in
            the window.
        padding: zeros on both sides, an int or one for each axis, at most half a window; 0 unless `pad_mode` is "pad".
        ceil_mode: whether to include windows that start inside and extend beyond the end.
        count_include_pad: whether the mean includes `padding`; it never includes the part of a window beyond it.
        divisor_override: divide by this instead.
        data_format: "NCHW".

    Inputs:
        x: (N, C, H, W) or (C, H, W), floating-point.

    Outputs:
        (N, C, H_out, W_out) or (C, H_out, W_out).

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a size is out of range, `pad_mode` is unknown, or there is padding with a mode other than "pad"; at
            a call, a window is larger than the padded input.
    """

    axes = 2


class AvgPool1d(_AvgPool):
    """The mean of each window of a sequence, (N, C, L) or (C, L).

    Arguments, defaults and errors are those of `AvgPool2d`, without `divisor_override` and `data_format`.
    """

    axes = 1

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, pad_mode, padding, ceil_mode, count_include_pad)


class AvgPool3d(_AvgPool):
    """The mean of each window of a volume, (N, C, D, H, W) or (C, D, H, W).

    Arguments, defaults and errors are those of `AvgPool2d`, without `data_format`.
    """

    axes = 3

    def __init__(
        self, kernel_size: Any = 1, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kernel_size, stride, pad_mode, padding, ceil_mode, count_include_pad, divisor_override)
