"""Extraction of image patches as columns (`unfold`), and summation of columns to images (`fold`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.tensor import from_array
from ..ops import creation, indexing, shaping, slicing
from .arguments import integers, known_size
from .operands import as_tensor
from .public_op import Primitive, public_op

_Pair = tuple[int, int]


def _pair(value: Any, name: str, least: int, *, of: str) -> _Pair:
    numbers = integers(value, name, of=of)
    numbers = numbers * 2 if len(numbers) == 1 else numbers
    if len(numbers) != 2 or min(numbers) < least:
        raise ValueError(f"For '{of}', '{name}' must be one or two ints of at least {least}, but got {value}")
    return numbers[0], numbers[1]


def _patch_indices(image: _Pair, kernel: _Pair, dilation: _Pair, stride: _Pair, *, of: str) -> np.ndarray[Any, Any]:
    """Return the index in the flattened image of each element of each patch: (kernel elements, patches)."""
    lines = []
    for size, k, d, s in zip(image, kernel, dilation, stride, strict=True):
        count = (size - (k - 1) * d - 1) // s + 1
        if count < 1:
            raise ValueError(f"For '{of}', 'kernel_size' {kernel} with 'dilation' {dilation} exceeds the image {image}")
        lines.append(np.arange(k)[:, None] * d + np.arange(count) * s)
    rows, columns = lines
    grid = rows[:, None, :, None] * image[1] + columns[None, :, None, :]
    return grid.reshape(kernel[0] * kernel[1], -1)


@public_op(method="unfold")
def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Extract the patches of images as columns, like torch's `unfold`.

    Args:
        input: (batch, channels, h, w).
        kernel_size: height and width of a patch, or an int for both; so are the other arguments.
        dilation: the step between elements of a patch.
        padding: the number of zeros to add at both ends first.
        stride: the step between patches.

    Returns:
        (batch, channels * kernel elements, patches).
    """
    x = as_tensor(input, of="unfold")
    if x.ndim != 4:
        raise ValueError(f"For 'unfold', 'input' must have 4 dimensions, but got {x.ndim}")
    kernel, strides, dilations, (top, left) = _geometry(kernel_size, dilation, padding, stride, of="unfold")
    x = _pad(x, (0, 0, top, left))
    batch, channels = x.shape[:2]
    image = (known_size(x.shape[2], "For 'unfold', the height"), known_size(x.shape[3], "For 'unfold', the width"))
    places = _patch_indices(image, kernel, dilations, strides, of="unfold")
    columns = indexing.take(
        shaping.reshape(x, shape=(batch, channels, image[0] * image[1])), from_array(places), axis=2
    )
    return shaping.reshape(columns, shape=(batch, channels * places.shape[0], places.shape[1]))


@public_op(method="fold")
def fold(input: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """Sum columns (batch, channels * kernel elements, patches) to images (batch, channels, *output_size).

    This is the transpose of `unfold`; other arguments are the same. `ValueError` if the number of columns doesn't fit.
    """
    x = as_tensor(input, of="fold")
    if x.ndim != 3:
        raise ValueError(f"For 'fold', 'input' must have 3 dimensions, but got {x.ndim}")
    height, width = _pair(output_size, "output_size", 1, of="fold")
    kernel, strides, dilations, (top, left) = _geometry(kernel_size, dilation, padding, stride, of="fold")
    image = (height + 2 * top, width + 2 * left)
    places = _patch_indices(image, kernel, dilations, strides, of="fold")
    batch, rows, patches = x.shape
    if rows % places.shape[0] or patches != places.shape[1]:
        raise ValueError(
            f"For 'fold', needed (batch, a multiple of {places.shape[0]}, {places.shape[1]}), but got {tuple(x.shape)}"
        )
    channels = rows // places.shape[0]
    base = as_tensor(creation.full_like(x, 0, (batch, channels, image[0] * image[1])))
    updates = shaping.reshape(x, shape=(batch, channels, places.size))
    summed = indexing.index_add(base, from_array(places.reshape(-1)), updates, axis=2)
    return _pad(shaping.reshape(summed, shape=(batch, channels, *image)), (0, 0, -top, -left))


@public_op(primitive=Primitive("Im2Col", init_args=("ksizes", "strides", "dilations", "pads")))
def _im2col(x: Any, ksizes: Any, strides: Any = 1, dilations: Any = 1, pads: Any = 0) -> Any:
    """`unfold`, with an axis for the channels and one for the kernel elements: (batch, channels, elements, patches)."""
    image = as_tensor(x, "x", of="Im2Col")
    columns = unfold(image, ksizes, dilations, pads, strides)
    batch, rows, count = columns.shape
    return shaping.reshape(columns, shape=(batch, image.shape[1], rows // image.shape[1], count))


_COL2IM = Primitive(
    "Col2Im",
    init_args={"kernel_size": "kernel_size", "dilation": "dilation", "padding": "padding_value", "stride": "stride"},
    defaults={"dilation": 1, "padding_value": 0, "stride": 1},
)


@public_op(primitive=_COL2IM)
def col2im(input_x: Any, output_size: Any, kernel_size: Any, dilation: Any, padding_value: Any, stride: Any) -> Any:
    """`fold` of columns with an axis for the channels: (batch, channels, kernel elements, patches)."""
    x = as_tensor(input_x, "input_x", of="col2im")
    if x.ndim != 4:
        raise ValueError(f"For 'col2im', 'input_x' must have 4 dimensions, but got {x.ndim}")
    batch, channels, elements, count = x.shape
    columns = shaping.reshape(x, shape=(batch, channels * elements, count))
    return fold(columns, output_size, kernel_size, dilation, padding_value, stride)


def _geometry(
    kernel_size: Any, dilation: Any, padding: Any, stride: Any, *, of: str
) -> tuple[_Pair, _Pair, _Pair, _Pair]:
    """Return kernel size, stride, dilation and padding, each as two ints."""
    return (
        _pair(kernel_size, "kernel_size", 1, of=of),
        _pair(stride, "stride", 1, of=of),
        _pair(dilation, "dilation", 1, of=of),
        _pair(padding, "padding", 0, of=of),
    )


def _pad(x: Any, amounts: tuple[int, ...]) -> Any:
    return slicing.pad(x, before=amounts, after=amounts) if any(amounts) else x
