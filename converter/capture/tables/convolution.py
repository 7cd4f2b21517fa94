"""ATen convolutions."""

from __future__ import annotations

from typing import Any

from ....runtime.ir.dims import Dim, SymbolicDim
from ....runtime.ops import convolution as ops
from ....runtime.ops import shaping
from ....runtime.tracing import SymbolicTensor
from . import counted_groups
from .spatial import add_batch, both_sides, per_dimension, remove_batch
from .table import Context, aten


@aten("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    context: Context, input: SymbolicTensor, weight: SymbolicTensor, bias: Any = None,
    stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: Dim = 1,
) -> Any:  # fmt: skip
    """conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0],
    SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
    """
    return _conv(input, weight, bias, stride, both_sides(padding, weight.ndim - 2), dilation, groups)


@aten("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padding(
    context: Context, input: SymbolicTensor, weight: SymbolicTensor, bias: Any = None,
    stride: Any = 1, padding: str = "valid", dilation: Any = 1, groups: Dim = 1,
) -> Any:  # fmt: skip
    """conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding="valid",
    SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor
    """
    total = [0] * (weight.ndim - 2)
    if padding == "same":  # an odd total puts the extra zero after
        kernel = weight.shape[2:]
        total = [d * (k - 1) for d, k in zip(per_dimension(dilation, len(total)), kernel, strict=True)]
    split = tuple((size // 2, size - size // 2) for size in total)
    return _conv(input, weight, bias, stride, split, dilation, groups)


@aten("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    context: Context, input: SymbolicTensor, weight: SymbolicTensor, bias: Any = None,
    stride: Any = 1, padding: Any = 0, output_padding: Any = 0, groups: Dim = 1, dilation: Any = 1,
) -> Any:  # fmt: skip
    """conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2]
    padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor
    """
    count = weight.ndim - 2
    if isinstance(groups, SymbolicDim):
        windows = per_dimension(stride, count), both_sides(padding, count), per_dimension(output_padding, count)
        return counted_groups.conv_transpose(input, weight, bias, *windows, per_dimension(dilation, count), groups)
    y = ops.conv_transpose(
        add_batch(input, count),
        weight,
        bias,
        stride=per_dimension(stride, count),
        padding=both_sides(padding, count),
        output_padding=per_dimension(output_padding, count),
        dilation=per_dimension(dilation, count),
        groups=groups,
    )
    return remove_batch(y, input)


@aten("aten.convolution.default")
def convolution(
    context: Context, input: SymbolicTensor, weight: SymbolicTensor, bias: Any, stride: Any, padding: Any,
    dilation: Any,
    transposed: bool, output_padding: Any, groups: Dim,
) -> Any:  # fmt: skip
    """convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation,
    bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor
    """
    if transposed:
        return conv_transpose(context, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(context, input, weight, bias, stride, padding, dilation, groups)


@aten("aten.conv_tbc.default")
def conv_tbc(
    context: Context, input: SymbolicTensor, weight: SymbolicTensor, bias: SymbolicTensor, pad: Dim = 0
) -> Any:
    """conv_tbc(Tensor self, Tensor weight, Tensor bias, int pad=0) -> Tensor: (time, batch, channels) throughout"""
    rows = shaping.transpose(input, permutation=(1, 2, 0))
    kernel = shaping.transpose(weight, permutation=(2, 1, 0))
    y = _conv(rows, kernel, bias, 1, ((pad, pad),), 1, 1)
    return shaping.transpose(y, permutation=(2, 0, 1))


def _conv(
    input: SymbolicTensor, weight: SymbolicTensor, bias: Any, stride: Any, padding: Any, dilation: Any, groups: Dim
) -> Any:
    count = weight.ndim - 2
    if isinstance(groups, SymbolicDim):
        steps, apart = per_dimension(stride, count), per_dimension(dilation, count)
        return counted_groups.conv(input, weight, bias, steps, padding, apart, groups)
    y = ops.conv(
        add_batch(input, count),
        weight,
        bias,
        stride=per_dimension(stride, count),
        padding=padding,
        dilation=per_dimension(dilation, count),
        groups=groups,
    )
    return remove_batch(y, input)
