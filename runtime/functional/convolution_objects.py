"""Operator objects for convolution, which are constructed for a shape of the weight."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ops.windows import Sizes, window_span
from .convolution import convolve, convolve_transposed
from .geometry import check_padding, each_side, per_axis, resolve_padding
from .public_op import Primitive, public_op

_INIT_ARGS = ("out_channel", "kernel_size", "mode", "pad_mode", "pad", "stride", "dilation", "group", "data_format")
_TRANSPOSED_INIT_ARGS = (
    "out_channel", "kernel_size", "pad_mode", "pad", "pad_list", "mode", "stride", "dilation", "group", "data_format",
)  # fmt: skip


@public_op(primitive=Primitive("Conv2D", init_args=_INIT_ARGS))
def _conv2d_object(
    x: Any, weight: Any, out_channel: int, kernel_size: Any, mode: int = 1, pad_mode: str = "valid", pad: Any = 0,
    stride: Any = 1, dilation: Any = 1, group: int = 1, data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """`conv2d` with `out_channel` output channels; `pad` is an int or (top, bottom, left, right)."""
    checks.one_of(data_format, "data_format", ("NCHW",), of="Conv2D")
    return _conv_object(x, weight, out_channel, kernel_size, mode, pad_mode, pad, stride, dilation, group, 2, "Conv2D")


@public_op(primitive=Primitive("Conv3D", init_args=_INIT_ARGS))
def _conv3d_object(
    x: Any, weight: Any, out_channel: int, kernel_size: Any, mode: int = 1, pad_mode: str = "valid", pad: Any = 0,
    stride: Any = 1, dilation: Any = 1, group: int = 1, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    """`conv3d` with `out_channel` output channels; `pad` is an int or six ints, two for each axis."""
    checks.one_of(data_format, "data_format", ("NCDHW",), of="Conv3D")
    return _conv_object(x, weight, out_channel, kernel_size, mode, pad_mode, pad, stride, dilation, group, 3, "Conv3D")


@public_op(
    primitive=(
        Primitive("Conv2DTranspose", init_args=_TRANSPOSED_INIT_ARGS),
        Primitive("Conv2DBackpropInput", init_args=_TRANSPOSED_INIT_ARGS),
    )
)
def _conv2d_transpose_object(
    dout: Any, weight: Any, input_size: Any, out_channel: int, kernel_size: Any, pad_mode: str = "valid",
    pad: Any = 0, pad_list: Any = None, mode: int = 1, stride: Any = 1, dilation: Any = 1, group: int = 1,
    data_format: str = "NCHW",
) -> Any:  # fmt: skip
    """The gradient of a convolution with respect to its input, for the output gradient `dout`.

    Args:
        dout: (N, out_channel, H, W), the gradient of the output of the convolution.
        weight: (out_channel, C / group, kernel height, kernel width).
        input_size: (N, C, height, width), the shape of the input of the convolution.
        out_channel: the number of output channels of the convolution.
        kernel_size: an int or one for each axis.
        pad_mode: the padding mode of the convolution; see `conv2d`.
        pad: an int or (top, bottom, left, right).
        pad_list: overrides `pad` unless it is None.
        mode: 1, a cross-correlation.
        stride: an int or one for each axis.
        dilation: an int or one for each axis.
        group: the number of independent groups of channels.
        data_format: "NCHW".

    Raises:
        ValueError: an argument is out of range, or `input_size` and `dout` don't fit.
    """
    of = "Conv2DTranspose"
    checks.one_of(data_format, "data_format", ("NCHW",), of=of)
    padding = each_side(pad if pad_list is None else pad_list, "pad", 2, of=of)
    kernel = _check_object(weight, out_channel, kernel_size, mode, 2, of)
    strides, dilations = per_axis(stride, "stride", 2, of=of), per_axis(dilation, "dilation", 2, of=of)
    check_padding(pad_mode, padding, of=of)
    size = tuple(input_size)
    padding = resolve_padding(pad_mode, padding, size[2:], kernel, strides, dilations)
    reached = [
        (n - 1) * s + window_span(k, d) - before - after
        for n, s, k, d, (before, after) in zip(dout.shape[2:], strides, kernel, dilations, padding, strict=True)
    ]
    extra = tuple(whole - part for whole, part in zip(size[2:], reached, strict=True))
    if size[0] != dout.shape[0] or any(not 0 <= e < s for e, s in zip(extra, strides, strict=True)):
        raise ValueError(f"For '{of}', an input of 'input_size' {size} doesn't give a 'dout' of {tuple(dout.shape)}")
    return convolve_transposed(
        dout, weight, None, stride=strides, padding=padding, output_padding=extra, dilation=dilations, groups=group,
        of=of,
    )  # fmt: skip


def _conv_object(
    x: Any, weight: Any, out_channel: int, kernel_size: Any, mode: int, pad_mode: str, pad: Any,
    stride: Any, dilation: Any, group: int, count: int, of: str,
) -> Any:  # fmt: skip
    _check_object(weight, out_channel, kernel_size, mode, count, of)
    return convolve(
        x,
        weight,
        None,
        stride=per_axis(stride, "stride", count, of=of),
        pad_mode=pad_mode,
        padding=each_side(pad, "pad", count, of=of),
        dilation=per_axis(dilation, "dilation", count, of=of),
        groups=group,
        of=of,
    )


def _check_object(weight: Any, out_channel: int, kernel_size: Any, mode: int, count: int, of: str) -> Sizes:
    """Raise an error unless the weight has the shape that the object was constructed for; return its kernel size."""
    checks.one_of(mode, "mode", (1,), of=of)
    checks.positive_int(out_channel, "out_channel", of=of)
    kernel = per_axis(kernel_size, "kernel_size", count, of=of)
    if tuple(weight.shape[2:]) != kernel or weight.shape[0] != out_channel:
        raise ValueError(
            f"For '{of}', 'weight' must have {out_channel} output channels and the kernel {kernel}, but got shape "
            f"{tuple(weight.shape)}"
        )
    return kernel
