"""Convolution and transposed convolution along one to three axes."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ops import convolution, shaping
from ..ops.windows import Padding, Sizes
from .geometry import both_sides, check_padding, per_axis, resolve_padding
from .operands import as_tensor, require_one_dtype
from .public_op import public_op


@public_op()
def conv1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution (cross-correlation) along one axis; see `conv2d` for arguments and errors."""
    return _conv(input, weight, bias, stride, pad_mode, padding, dilation, groups, 1)


@public_op()
def conv2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution (cross-correlation) along two axes (ATen `convolution`).

    Args:
        input: (N, C_in, H, W).
        weight: (C_out, C_in / groups, kernel height, kernel width).
        bias: (C_out,).
        stride: the step between windows, an int or one for each axis.
        pad_mode: "valid" for no padding; "same" for as many zeros as `ceil(size / stride)` windows need, if the number
            is odd with the extra zero at the end; "pad" for `padding`.
        padding: zeros on both sides, an int or one for each axis.
        dilation: the step between the elements of a window, an int or one for each axis.
        groups: the number of independent groups of channels.

    Returns:
        (N, C_out, ...) with `(size + both paddings - dilation * (kernel - 1) - 1) // stride + 1` windows along an axis.

    Raises:
        TypeError: an argument has a wrong type, or the operands don't have one dtype.
        ValueError: `pad_mode` is unknown, there is padding with a mode other than "pad", a size is too small, the
            output channels don't divide into groups, or the kernel is larger than the padded input.
        RuntimeError: the input doesn't have as many channels as the weight takes.
    """
    return _conv(input, weight, bias, stride, pad_mode, padding, dilation, groups, 2)


@public_op()
def conv3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, pad_mode: str = "valid", padding: Any = 0,
    dilation: Any = 1, groups: int = 1,
) -> Any:  # fmt: skip
    """Convolution (cross-correlation) along three axes; see `conv2d` for arguments and errors."""
    return _conv(input, weight, bias, stride, pad_mode, padding, dilation, groups, 3)


@public_op()
def conv_transpose1d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """Transposed convolution along one axis; see `conv_transpose2d`."""
    return _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 1)


@public_op()
def conv_transpose2d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """Transposed convolution along two axes: the gradient of `conv2d` with respect to its input (ATen `convolution`).

    Args:
        input: (N, C_in, H, W).
        weight: (C_in, C_out / groups, kernel height, kernel width).
        bias: (C_out,).
        stride: the step between windows in the output, an int or one for each axis. This also holds for `padding`,
            `output_padding` and `dilation`.
        padding: the number of elements to crop on both sides of the output.
        output_padding: elements added at the end; smaller than the stride or the dilation.
        groups: the number of independent groups of channels.
        dilation: the step between the elements of a window.

    Returns:
        (N, C_out, ...) with `(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1`
        elements along an axis.

    Raises:
        TypeError: an argument has a wrong type, or the operands don't have one dtype.
        ValueError: a size is too small, or channels and groups don't fit.
    """
    return _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 2)


@public_op()
def conv_transpose3d(
    input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, output_padding: Any = 0,
    groups: int = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """Transposed convolution along three axes; see `conv_transpose2d`."""
    return _conv_transpose(input, weight, bias, stride, padding, output_padding, groups, dilation, 3)


@public_op(primitive="BiasAdd")
def bias_add(input_x: Any, bias: Any) -> Any:
    """Add a bias (C,) to the channels of `input_x`, (N, C, ...); `ValueError` if the shapes don't fit."""
    x, b = as_tensor(input_x, "input_x", of="BiasAdd"), as_tensor(bias, "bias", of="BiasAdd")
    require_one_dtype(x, b, of="BiasAdd")
    if x.ndim < 2 or tuple(b.shape) != (x.shape[1],):
        raise ValueError(
            f"For 'BiasAdd', 'bias' must hold one element per channel of {tuple(x.shape)}, but got {b.shape}"
        )
    return x + shaping.reshape(b, shape=(*b.shape, *(1,) * (x.ndim - 2)))


# ---- shared by functions, operator objects and layers ----


def convolve(
    x: Any, weight: Any, bias: Any, *,
    stride: Sizes, pad_mode: str, padding: Padding, dilation: Sizes, groups: int, of: str,
) -> Any:  # fmt: skip
    """Convolution along one to three axes, with sizes for each axis and padding for each side."""
    check_padding(pad_mode, padding, of=of)
    require_one_dtype(*(operand for operand in (x, weight, bias) if operand is not None), of=of)
    if x.ndim != weight.ndim:
        raise ValueError(f"For '{of}', the input must have {weight.ndim} dimensions, but got shape {tuple(x.shape)}")
    if x.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"For '{of}', the input must have as many channels (C_in) as the weight takes, {weight.shape[1]} for each "
            f"of {groups} groups, but got shape {tuple(x.shape)}"
        )
    padding = resolve_padding(pad_mode, padding, x.shape[2:], weight.shape[2:], stride, dilation)
    return convolution.conv(x, weight, bias, stride=stride, padding=padding, dilation=dilation, groups=groups)


def convolve_transposed(
    x: Any, weight: Any, bias: Any, *,
    stride: Sizes, padding: Padding, output_padding: Any, dilation: Sizes, groups: int, of: str,
) -> Any:  # fmt: skip
    """Transposed convolution along one to three axes, with sizes for each axis and padding for each side."""
    require_one_dtype(*(operand for operand in (x, weight, bias) if operand is not None), of=of)
    if x.ndim != weight.ndim:
        raise ValueError(f"For '{of}', the input must have {weight.ndim} dimensions, but got shape {tuple(x.shape)}")
    return convolution.conv_transpose(
        x, weight, bias, stride=stride, padding=padding, output_padding=output_padding, dilation=dilation, groups=groups
    )


def _conv(
    input: Any, weight: Any, bias: Any, stride: Any, pad_mode: str, padding: Any, dilation: Any, groups: int, count: int
) -> Any:
    of = f"conv{count}d"
    return convolve(
        as_tensor(input, of=of),
        as_tensor(weight, "weight", of=of),
        bias,
        stride=per_axis(stride, "stride", count, of=of),
        pad_mode=pad_mode,
        padding=both_sides(per_axis(padding, "padding", count, of=of, least=0)),
        dilation=per_axis(dilation, "dilation", count, of=of),
        groups=checks.positive_int(groups, "groups", of=of),
        of=of,
    )


def _conv_transpose(
    input: Any, weight: Any, bias: Any, stride: Any, padding: Any, output_padding: Any, groups: int, dilation: Any,
    count: int,
) -> Any:  # fmt: skip
    of = f"conv_transpose{count}d"
    strides, dilations = per_axis(stride, "stride", count, of=of), per_axis(dilation, "dilation", count, of=of)
    return convolve_transposed(
        as_tensor(input, of=of),
        as_tensor(weight, "weight", of=of),
        bias,
        stride=strides,
        padding=both_sides(per_axis(padding, "padding", count, of=of, least=0)),
        output_padding=check_output_padding(output_padding, strides, dilations, of=of),
        dilation=dilations,
        groups=checks.positive_int(groups, "groups", of=of),
        of=of,
    )


def check_output_padding(value: Any, stride: Sizes, dilation: Sizes, *, of: str) -> Sizes:
    """Return an int for each axis; `ValueError` unless each is below the stride or the dilation of its axis."""
    sizes = per_axis(value, "output_padding", len(stride), of=of, least=0)
    for size, s, d in zip(sizes, stride, dilation, strict=True):
        if size >= max(s, d):
            raise ValueError(
                f"For '{of}', 'output_padding' must be smaller than the stride or the dilation, but got {value} with "
                f"stride {stride} and dilation {dilation}"
            )
    return sizes
