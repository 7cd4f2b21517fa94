"""Max pooling and average pooling along one to three axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import int32
from ..common.tensor import from_array
from ..ops import average_pooling, elementwise, max_pooling, shaping
from ..ops.windows import Padding, Sizes
from .geometry import both_sides, check_padding, each_side, per_axis, resolve_padding
from .operands import as_tensor, require_floating
from .public_op import Primitive, public_op


@public_op()
def max_pool2d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
    ceil_mode: bool = False,
) -> Any:  # fmt: skip
    """Max pooling: the largest element of each window (ATen `max_pool2d_with_indices`).

    Args:
        x: (N, C, H, W) or (C, H, W).
        kernel_size: the size of a window, an int or one for each axis; so are the other sizes.
        stride: the step between windows; `kernel_size` if it is None.
        padding: the padding on both sides, at most half a window; it is never the maximum.
        dilation: the step between the elements of a window.
        return_indices: whether to also return the positions of the maxima: int64 indices into the flattened plane.
        ceil_mode: whether to include windows that start inside and extend beyond the end.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a size is out of range, or `x` has another number of dimensions.
    """
    return _max_pool(x, kernel_size, stride, padding, dilation, return_indices, ceil_mode, 2)


@public_op()
def max_pool3d(
    x: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:  # fmt: skip
    """Max pooling of (N, C, D, H, W); see `max_pool2d`."""
    return _max_pool(x, kernel_size, stride, padding, dilation, return_indices, ceil_mode, 3)


@public_op()
def avg_pool1d(
    input_x: Any, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:  # fmt: skip
    """Average pooling of (N, C, L); see `avg_pool2d`."""
    return _avg_pool(input_x, kernel_size, stride, padding, ceil_mode, count_include_pad, 0, 1)


@public_op()
def avg_pool2d(
    input_x: Any, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int = 0,
) -> Any:  # fmt: skip
    """Average pooling: the mean of each window (ATen `avg_pool2d`).

    Args:
        input_x: (N, C, H, W) or (C, H, W), floating-point.
        kernel_size: the size of a window, an int or one for each axis.
        stride: the step between windows, an int or one for each axis.
        padding: zeros, at most half a window: an int, or (top, bottom, left, right).
        ceil_mode: whether to include windows that start inside and extend beyond the end.
        count_include_pad: whether the padding counts in the mean.
        divisor_override: the divisor of the sum of each window; 0 for the number of elements.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: a size is out of range, or `input_x` has another number of dimensions.
    """
    return _avg_pool(input_x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)


@public_op()
def avg_pool3d(
    input_x: Any, kernel_size: Any = 1, stride: Any = 1, padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int = 0,
) -> Any:  # fmt: skip
    """Average pooling of (N, C, D, H, W); `padding` is an int or six; see `avg_pool2d`."""
    return _avg_pool(input_x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


# ---- as operator objects ----


@public_op(primitive=Primitive("MaxPool", init_args=("kernel_size", "strides", "pad_mode", "data_format")))
def _max_pool_object(
    x: Any, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid", data_format: str = "NCHW"
) -> Any:
    """Max pooling of (N, C, H, W); `pad_mode` is "valid" or "same"."""
    kernel, stride, mode = _object_windows(kernel_size, strides, pad_mode, data_format, of="MaxPool")
    return max_pool_windows(
        as_tensor(x, "x", of="MaxPool"), kernel=kernel, stride=stride, pad_mode=mode, padding=((0, 0),) * 2,
        dilation=(1, 1), ceil_mode=False, of="MaxPool",
    )[0]  # fmt: skip


@public_op(primitive=Primitive("AvgPool", init_args=("kernel_size", "strides", "pad_mode", "data_format")))
def _avg_pool_object(
    x: Any, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid", data_format: str = "NCHW"
) -> Any:
    """Average pooling of (N, C, H, W); `pad_mode` is "valid" or "same", whose padding isn't counted in the mean."""
    kernel, stride, mode = _object_windows(kernel_size, strides, pad_mode, data_format, of="AvgPool")
    return avg_pool_windows(
        require_floating(x, "x", of="AvgPool"), kernel=kernel, stride=stride, pad_mode=mode, padding=((0, 0),) * 2,
        ceil_mode=False, count_include_pad=False, divisor_override=None, of="AvgPool",
    )  # fmt: skip


@public_op(
    primitive=Primitive("MaxPoolWithArgmaxV2", init_args=("kernel_size", "strides", "pads", "dilation", "ceil_mode"))
)
def _max_pool_with_argmax(
    x: Any, kernel_size: Any, strides: Any = None, pads: Any = 0, dilation: Any = (1, 1), ceil_mode: bool = False
) -> Any:
    """`max_pool2d` with `return_indices`."""
    return max_pool2d(x, kernel_size, strides, pads, dilation, True, ceil_mode)


@public_op(primitive=Primitive("MaxPoolWithArgmax", init_args=("kernel_size", "strides", "pad_mode", "data_format")))
def _max_pool_with_places(
    x: Any, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid", data_format: str = "NCHW"
) -> Any:
    """`MaxPool`, and the positions of the maxima: int32 indices into the flattened image (C, H, W)."""
    kernel, stride, mode = _object_windows(kernel_size, strides, pad_mode, data_format, of="MaxPoolWithArgmax")
    values, indices = max_pool_windows(
        as_tensor(x, "x", of="MaxPoolWithArgmax"), kernel=kernel, stride=stride, pad_mode=mode,
        padding=((0, 0),) * 2, dilation=(1, 1), ceil_mode=False, of="MaxPoolWithArgmax",
    )  # fmt: skip
    channels, height, width = x.shape[1:]
    starts = np.arange(channels).reshape(-1, 1, 1) * (height * width)
    return values, elementwise.cast(indices + from_array(starts), dtype=int32)


@public_op(
    primitive=Primitive(
        "MaxPool3D", init_args=("kernel_size", "strides", "pad_mode", "pad_list", "ceil_mode", "data_format")
    )
)
def _max_pool_3d_object(
    x: Any, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "VALID", pad_list: Any = 0,
    ceil_mode: bool | None = None, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    """Max pooling of (N, C, D, H, W); `pad_mode` is "valid", "same", or "pad" by `pad_list`."""
    of = "MaxPool3D"
    checks.one_of(data_format, "data_format", ("NCDHW",), of=of)
    return max_pool_windows(
        as_tensor(x, "x", of=of), kernel=per_axis(kernel_size, "kernel_size", 3, of=of),
        stride=per_axis(strides, "strides", 3, of=of),
        pad_mode=checks.of_type(pad_mode, "pad_mode", str, of=of).lower(),
        padding=each_side(pad_list, "pad_list", 3, of=of), dilation=(1, 1, 1), ceil_mode=bool(ceil_mode), of=of,
    )[0]  # fmt: skip


@public_op(
    primitive=Primitive(
        "AvgPool3D",
        init_args=(
            "kernel_size", "strides", "pad_mode", "pad", "ceil_mode", "count_include_pad", "divisor_override",
            "data_format",
        ),
    )
)  # fmt: skip
def _avg_pool_3d_object(
    x: Any, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid", pad: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int = 0, data_format: str = "NCDHW",
) -> Any:  # fmt: skip
    """Average pooling of (N, C, D, H, W); `pad_mode` is "valid", "same", or "pad" by `pad`."""
    of = "AvgPool3D"
    checks.one_of(data_format, "data_format", ("NCDHW",), of=of)
    return avg_pool_windows(
        require_floating(x, "x", of=of), kernel=per_axis(kernel_size, "kernel_size", 3, of=of),
        stride=per_axis(strides, "strides", 3, of=of),
        pad_mode=checks.of_type(pad_mode, "pad_mode", str, of=of).lower(),
        padding=each_side(pad, "pad", 3, of=of), ceil_mode=ceil_mode, count_include_pad=count_include_pad,
        divisor_override=divisor_override or None, of=of,
    )  # fmt: skip


def _object_windows(
    kernel_size: Any, strides: Any, pad_mode: Any, data_format: str, *, of: str
) -> tuple[Sizes, Sizes, str]:
    checks.one_of(data_format, "data_format", ("NCHW",), of=of)
    mode = checks.of_type(pad_mode, "pad_mode", str, of=of).lower()
    checks.one_of(mode, "pad_mode", ("valid", "same"), of=of)
    return per_axis(kernel_size, "kernel_size", 2, of=of), per_axis(strides, "strides", 2, of=of), mode


# ---- shared by functions, operator objects and layers ----


def max_pool_windows(
    x: Any, *, kernel: Sizes, stride: Sizes, pad_mode: str, padding: Padding, dilation: Sizes, ceil_mode: bool, of: str
) -> tuple[Any, Any]:
    """Return the largest element of each window and its index, with sizes for each axis and padding for each side."""
    batch, padding = _prepare(x, kernel, stride, pad_mode, padding, dilation, of)
    values, indices = max_pooling.max_pool(
        batch, kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )
    return _match_batch(values, x), _match_batch(indices, x)


def avg_pool_windows(
    x: Any, *, kernel: Sizes, stride: Sizes, pad_mode: str, padding: Padding, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None, of: str,
) -> Any:  # fmt: skip
    """Return the mean of each window, with sizes for each axis and padding for each side; "same" zeros never count."""
    batch, padding = _prepare(x, kernel, stride, pad_mode, padding, (1,) * len(kernel), of)
    means = average_pooling.avg_pool(
        batch, kernel=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad and pad_mode != "same", divisor_override=divisor_override,
    )  # fmt: skip
    return _match_batch(means, x)


def _prepare(
    x: Any, kernel: Sizes, stride: Sizes, pad_mode: str, padding: Padding, dilation: Sizes, of: str
) -> tuple[Any, Padding]:
    """Return `x` with a batch axis, and the widths of the padding."""
    check_padding(pad_mode, padding, of=of)
    batch = with_batch(x, len(kernel), of=of)
    return batch, resolve_padding(pad_mode, padding, batch.shape[2:], kernel, stride, dilation)


def with_batch(x: Any, count: int, *, of: str) -> Any:
    """Add a batch axis to `x` if it is (C, ...) with `count` spatial axes; `ValueError` for any other rank."""
    if x.ndim == count + 2:
        return x
    if x.ndim != count + 1:
        raise ValueError(
            f"For '{of}', the input must have {count + 2} dimensions, or {count + 1} without batch, but got shape "
            f"{tuple(x.shape)}"
        )
    return shaping.reshape(x, shape=(1, *x.shape))


def _match_batch(y: Any, x: Any) -> Any:
    """Remove the batch axis of `y` if `x` has none."""
    return y if y.ndim == x.ndim else shaping.reshape(y, shape=tuple(y.shape[1:]))


def _max_pool(
    x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, return_indices: bool, ceil_mode: bool,
    count: int,
) -> Any:  # fmt: skip
    of = f"max_pool{count}d"
    values, indices = max_pool_windows(
        as_tensor(x, "x", of=of),
        kernel=per_axis(kernel_size, "kernel_size", count, of=of),
        stride=per_axis(kernel_size if stride is None else stride, "stride", count, of=of),
        pad_mode="pad",
        padding=both_sides(per_axis(padding, "padding", count, of=of, least=0)),
        dilation=per_axis(dilation, "dilation", count, of=of),
        ceil_mode=checks.of_type(ceil_mode, "ceil_mode", bool, of=of),
        of=of,
    )
    return (values, indices) if checks.of_type(return_indices, "return_indices", bool, of=of) else values


def _avg_pool(
    x: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: int, count: int,
) -> Any:  # fmt: skip
    of = f"avg_pool{count}d"
    checks.of_type(divisor_override, "divisor_override", int, of=of)
    checks.in_range(divisor_override, "divisor_override", "[0, inf)", of=of)
    return avg_pool_windows(
        require_floating(x, "input_x", of=of),
        kernel=per_axis(kernel_size, "kernel_size", count, of=of),
        stride=per_axis(stride, "stride", count, of=of),
        pad_mode="pad",
        padding=each_side(padding, "padding", count, of=of),
        ceil_mode=checks.of_type(ceil_mode, "ceil_mode", bool, of=of),
        count_include_pad=checks.of_type(count_include_pad, "count_include_pad", bool, of=of),
        divisor_override=divisor_override or None,
        of=of,
    )
