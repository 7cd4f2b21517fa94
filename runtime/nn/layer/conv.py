"""Convolution layers. See `conv_transpose` for their transposes."""

from __future__ import annotations

import math
from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import HeUniform, Uniform, fan_in_and_fan_out, initialize_argument
from ...common.parameter import Parameter
from ...common.tensor import Tensor
from ...functional.convolution import convolve
from ...functional.geometry import check_padding, each_side, per_axis
from ...ops import shaping
from ...ops.windows import Padding, Sizes
from ..cell import Cell


class ConvBase(Cell):
    """The common part of the convolution layers: checked arguments and the Parameters.

    Attributes:
        weight: Parameter, (out_channels, in_channels / group, *kernel_size), for transposed convolutions (in_channels,
            out_channels / group, *kernel_size). 1-D layers have an additional axis of size 1 before the kernel axis.
        bias: Parameter (out_channels,), or None.
    """

    axes: int
    transposes = False

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, pad_mode: str, padding: Any,
        dilation: Any, group: int, has_bias: bool, weight_init: Any, bias_init: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        of = self.cls_name
        self.in_channels = checks.positive_int(in_channels, "in_channels", of=of)
        self.out_channels = checks.positive_int(out_channels, "out_channels", of=of)
        self.kernel_size = self._sizes(kernel_size, "kernel_size")
        self.stride = self._sizes(stride, "stride")
        self.dilation = self._sizes(dilation, "dilation")
        self.group = checks.positive_int(group, "group", of=of)
        if in_channels % group or out_channels % group:
            raise ValueError(
                f"For '{of}', 'in_channels' and 'out_channels' must be divisible by 'group', but got in_channels "
                f"{in_channels}, out_channels {out_channels}, group {group}"
            )
        self.pad_mode, self.padding = pad_mode, padding
        self._padding: Padding = each_side(padding, "padding", self.axes, of=of)
        check_padding(pad_mode, self._padding, of=of)
        self.has_bias = checks.of_type(has_bias, "has_bias", bool, of=of)
        outer, inner = (in_channels, out_channels) if self.transposes else (out_channels, in_channels)
        shape = (outer, inner // group, *((1,) if self.axes == 1 else ()), *self.kernel_size)
        if self.axes == 1 and isinstance(weight_init, Tensor) and weight_init.ndim == 3:
            weight_init = shaping.reshape(weight_init, shape=shape)
        init = HeUniform(math.sqrt(5)) if weight_init is None else weight_init
        self.weight = Parameter(initialize_argument(init, shape, dtype, "weight_init", of=of), name="weight")
        self.bias = None
        if has_bias:
            bound = 1 / math.sqrt(fan_in_and_fan_out(shape)[0])
            init = Uniform(bound) if bias_init is None else bias_init
            self.bias = Parameter(initialize_argument(init, (out_channels,), dtype, "bias_init", of=of), name="bias")

    def _sizes(self, value: Any, name: str) -> Sizes:
        """Return an int for each axis; 1-D layers accept no tuple. `TypeError` for other values."""
        of = self.cls_name
        checks.of_type(value, name, int if self.axes == 1 else (int, tuple), of=of)
        if isinstance(value, tuple) and len(value) != self.axes:
            raise TypeError(f"For '{of}', '{name}' must be an int or a tuple of {self.axes} ints, but got {value}")
        return per_axis(value, name, self.axes, of=of)

    def _kernel(self) -> Any:
        """Return the weight in the form that the operator takes."""
        if self.axes > 1:
            return self.weight
        return shaping.reshape(self.weight, shape=(*self.weight.shape[:2], *self.kernel_size))

    def construct(self, x: Any) -> Any:
        """(N, in_channels, *spatial), of the dtype of the weight; returns (N, out_channels, *spatial)."""
        return convolve(
            x, self._kernel(), self.bias, stride=self.stride, pad_mode=self.pad_mode, padding=self._padding,
            dilation=self.dilation, groups=self.group, of=self.cls_name,
        )  # fmt: skip

    def extend_repr(self) -> str:
        """Channels and geometry."""
        return (
            f"input_channels={self.in_channels}, output_channels={self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, pad_mode={self.pad_mode}, padding={self.padding}, dilation={self.dilation}, "
            f"group={self.group}, has_bias={self.has_bias}"
        )


class Conv2d(ConvBase):
    """Cross-correlation of an image with a learned kernel (LeCun et al. 1998).

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of the kernel, an int for both or a tuple.
        stride: the step between windows, an int or one for each axis.
        pad_mode: "same": zeros for `ceil(size / stride)` windows; if their number is odd, the extra one is at the end.
            "valid": no padding. "pad": `padding`. Note that other frameworks have no padding by default.
        padding: the number of zeros, an int or (top, bottom, left, right); 0 unless `pad_mode` is "pad".
        dilation: the step between the elements of a window, an int or one for each axis.
        group: the number of independent groups of channels.
        has_bias: whether there is a bias; not by default.
        weight_init: an initializer; see `common.initializer.initializer`. None: `HeUniform(sqrt(5))`, uniform in
            +-`1 / sqrt(fan_in)`.
        bias_init: likewise. None: uniform in +- `1 / sqrt(fan_in)`.
        data_format: "NCHW".
        dtype: dtype of the Parameters.

    Inputs:
        x: (N, in_channels, H, W), of the dtype of the weight.

    Outputs:
        (N, out_channels, H_out, W_out); along an axis of `size`, `ceil(size / stride)` with "same", else
        `(size + before + after - dilation * (kernel_size - 1) - 1) // stride + 1`.

    Raises:
        TypeError: an argument has the wrong type; in a call, the dtype of `x` isn't that of the weight.
        ValueError: a size is below 1, `group` doesn't divide the channels, `pad_mode` is unknown, `padding` is used
            with a mode other than "pad" or isn't for four sides; in a call, the kernel is larger than the padded input.
    """

    axes = 2

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, pad_mode: str = "same",
        padding: Any = 0, dilation: Any = 1, group: int = 1, has_bias: bool = False, weight_init: Any = None,
        bias_init: Any = None, data_format: str = "NCHW", dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
            bias_init, dtype,
        )  # fmt: skip
        checks.one_of(data_format, "data_format", ("NCHW",), of=self.cls_name)


class Conv1d(ConvBase):
    """Cross-correlation of a sequence with a learned kernel.

    Arguments, defaults and errors are those of `Conv2d`, except that sizes and padding are ints. The weight is
    (out_channels, in_channels / group, 1, kernel_size).

    Inputs:
        x: (N, in_channels, L).

    Outputs:
        (N, out_channels, L_out).
    """

    axes = 1

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, pad_mode: str = "same",
        padding: int = 0, dilation: int = 1, group: int = 1, has_bias: bool = False, weight_init: Any = None,
        bias_init: Any = None, dtype: Any = float32,
    ) -> None:  # fmt: skip
        checks.of_type(padding, "padding", int, of=self.cls_name)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
            bias_init, dtype,
        )  # fmt: skip


class Conv3d(ConvBase):
    """Cross-correlation of a volume with a learned kernel.

    Arguments, defaults and errors are those of `Conv2d`, with three axes instead of two; `padding` is an int or
    (front, back, top, bottom, left, right).

    Inputs:
        x: (N, in_channels, D, H, W).

    Outputs:
        (N, out_channels, D_out, H_out, W_out).
    """

    axes = 3

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, pad_mode: str = "same",
        padding: Any = 0, dilation: Any = 1, group: int = 1, has_bias: bool = False, weight_init: Any = None,
        bias_init: Any = None, data_format: str = "NCDHW", dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
            bias_init, dtype,
        )  # fmt: skip
        checks.one_of(data_format, "data_format", ("NCDHW",), of=self.cls_name)
