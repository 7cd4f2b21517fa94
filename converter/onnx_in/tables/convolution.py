"""ONNX convolutions and matrix products."""

from __future__ import annotations

import reprlib
from typing import Any

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import Dim, maximum
from ....runtime.ir.types import Type, is_floating
from ....runtime.ops import contraction, convolution, linear, shaping, slicing
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .context import Context
from .table import onnx

Padding = tuple[tuple[Any, Any], ...]
AUTO = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")


def window_padding(
    auto_pad: str, pads: Any, sizes: tuple[Dim, ...], kernel: tuple[int, ...], stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> Padding:  # fmt: skip
    """The padding of windows: the given pads, or for "SAME" the pads that give ceil(size / stride) windows.

    Widths are symbolic only for "SAME" with a stride along an axis of symbolic size.
    """
    rank = len(kernel)
    if auto_pad not in AUTO:
        raise ShapeError(f"auto_pad must be one of {', '.join(AUTO)}, given {auto_pad!r}")
    if auto_pad == "VALID" or (auto_pad == "NOTSET" and pads is None):
        return ((0, 0),) * rank
    if auto_pad == "NOTSET":
        if len(pads) != 2 * rank:
            raise ShapeError(f"needed {2 * rank} pads, given {len(pads)}")
        return tuple(zip(pads[:rank], pads[rank:], strict=True))
    result = []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        total = maximum(((size + s - 1) // s - 1) * s + d * (k - 1) + 1 - size, 0)
        if s == 1:
            total = d * (k - 1)
        small = total // 2
        result.append((small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small))
    return tuple(result)


def is_symbolic(pads: Padding) -> bool:
    """Whether the width of the padding is symbolic."""
    return not all(isinstance(width, int) for pair in pads for width in pair)


def pad_windows(x: Any, pads: Padding, value: float = 0.0) -> Any:
    """Pad a tensor by the padding of windows."""
    before, after = zip(*pads, strict=True)
    return slicing.pad(x, before=(0, 0, *before), after=(0, 0, *after), value=value)


def with_same_sizes(y: Any, x: Any, stride: tuple[int, ...]) -> Any:
    """A result of windows of `x` with "SAME" padding, whose sizes are expressed as ceil(size / stride)."""
    sizes = ((size + s - 1) // s for size, s in zip(x.shape[2:], stride, strict=True))
    return shaping.reshape(y, shape=(*y.shape[:2], *sizes))


def per_axis(sizes: Any, rank: int, what: str) -> tuple[int, ...]:
    """An attribute with one positive number per spatial axis, by default 1."""
    if sizes is None:
        return (1,) * rank
    if len(sizes) != rank or any(number < 1 for number in sizes):
        raise ShapeError(f"needed {rank} positive {what}, given {reprlib.repr(sizes)}")
    return tuple(sizes)


def constant_sizes(sizes: Any) -> tuple[int, ...]:
    """Sizes of a kernel; raises `Unsupported` if one is symbolic."""
    if any(not isinstance(size, int) for size in sizes):
        raise Unsupported("a kernel of symbolic size")
    return tuple(sizes)


def spatial_rank(x: SymbolicTensor) -> int:
    """The number of spatial dimensions."""
    if not 3 <= x.ndim <= 5:
        raise Unsupported(f"{x.ndim - 2} spatial dimensions")
    return x.ndim - 2


def convolve(
    x: Any, weight: Any, bias: Any, auto_pad: str, dilations: Any, group: int, kernel_shape: Any, pads: Any,
    strides: Any,
) -> Any:  # fmt: skip
    """A convolution with the attributes of Conv."""
    rank = spatial_rank(x)
    if weight.ndim != x.ndim:
        raise ShapeError(f"needed a weight of {x.ndim} dimensions, given {tuple(weight.shape)}")
    kernel = constant_sizes(weight.shape[2:])
    if not isinstance(x.shape[1], int):  # the number of channels is checked at run time
        x = shaping.reshape(x, shape=(x.shape[0], weight.shape[1] * group, *x.shape[2:]))
    if kernel_shape is not None and tuple(kernel_shape) != kernel:
        raise ShapeError(f"kernel_shape is {kernel_shape}, but the weight has {kernel}")
    stride, dilation = per_axis(strides, rank, "strides"), per_axis(dilations, rank, "dilations")
    padded = window_padding(auto_pad, pads, tuple(x.shape[2:]), kernel, stride, dilation)
    options = {"stride": stride, "dilation": dilation, "groups": group}
    if is_symbolic(padded):
        y = convolution.conv(pad_windows(x, padded), weight, bias, padding=((0, 0),) * rank, **options)
        return with_same_sizes(y, x, stride)
    return convolution.conv(x, weight, bias, padding=padded, **options)


@onnx("Conv")
def conv(
    context: Context, X: SymbolicTensor, W: SymbolicTensor, B: SymbolicTensor | None = None, *,
    auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """Conv-1..22(X, W, B?) -> Y"""
    return convolve(X, W, B, auto_pad, dilations, group, kernel_shape, pads, strides)


@onnx("ConvTranspose")
def conv_transpose(
    context: Context, X: SymbolicTensor, W: SymbolicTensor, B: SymbolicTensor | None = None, *,
    auto_pad: str = "NOTSET",
    dilations: Any = None, group: int = 1, kernel_shape: Any = None, output_padding: Any = None,
    output_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """ConvTranspose-1..22(X, W, B?) -> Y"""
    rank = spatial_rank(X)
    stride, dilation = per_axis(strides, rank, "strides"), per_axis(dilations, rank, "dilations")
    extra = (0,) * rank if output_padding is None else tuple(output_padding)
    kernel = constant_sizes(W.shape[2:])
    whole = [
        s * (size - 1) + extra_ + d * (k - 1) + 1
        for size, k, s, d, extra_ in zip(X.shape[2:], kernel, stride, dilation, extra, strict=True)
    ]
    target_sizes: list[Any] | None = None
    if output_shape is not None:
        target_sizes = list(output_shape)[-rank:]
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        target_sizes = [size * s for size, s in zip(X.shape[2:], stride, strict=True)]
    if target_sizes is None:
        padded = window_padding(auto_pad, pads, tuple(X.shape[2:]), kernel, stride, dilation)
    else:
        padded, extra = _fit_to_output(whole, target_sizes, auto_pad, extra)
    return convolution.conv_transpose(
        X, W, B, stride=stride, padding=padded, output_padding=extra, dilation=dilation, groups=group
    )


def _fit_to_output(
    whole: list[Any], target_sizes: list[Any], auto_pad: str, extra: tuple[int, ...]
) -> tuple[Padding, Any]:
    """The padding that crops the whole result to the requested sizes, and the padding that extends it."""
    pads, added = [], []
    for size, target, more in zip(whole, target_sizes, extra, strict=True):
        total = size - target
        if isinstance(total, int) and total < 0:
            pads.append((0, 0))
            added.append(more - total)
            continue
        small = total // 2
        pads.append((small, total - small) if auto_pad == "SAME_UPPER" else (total - small, small))
        added.append(more)
    return tuple(pads), tuple(added)


@onnx("MatMul")
def matmul(context: Context, A: SymbolicTensor, B: SymbolicTensor) -> Any:
    """MatMul-1..13(A, B) -> Y"""
    return matrix_product(context, A, B)


def matrix_product(context: Context, A: Any, B: Any) -> Any:
    """A matrix product, computed at run time if the sizes aren't known to fit."""
    try:
        return linear.matmul(A, B)
    except ShapeError:
        if min(A.ndim, B.ndim) < 2 or all(isinstance(size, int) for size in (*A.shape, *B.shape)):
            raise
    lead = context.broadcast_shape(A.shape[:-2], B.shape[:-2]) if max(A.ndim, B.ndim) > 2 else ()
    return context.apply_at_run_time("MatMul", (A, B), Type(A.dtype, (*lead, A.shape[-2], B.shape[-1])), {})


@onnx("Gemm")
def gemm(
    context: Context, A: SymbolicTensor, B: SymbolicTensor, C: SymbolicTensor | None = None, *, alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0, transB: int = 0, broadcast: int = 1,
) -> Any:  # fmt: skip
    """Gemm-6..13(A, B, C?) -> Y: alpha * A @ B + beta * C"""
    if A.ndim != 2 or B.ndim != 2:
        raise ShapeError(f"needed matrices, given {A.value.type} and {B.value.type}")
    if transA:
        A = shaping.transpose(A, permutation=(1, 0))
    simple = alpha == 1.0 and beta == 1.0 and transB and is_floating(A.dtype) and A.shape[1] == B.shape[1]
    if simple and (C is None or (C.ndim == 1 and C.shape[0] == B.shape[0])):
        return linear.linear(A, B, C)
    if transB:
        B = shaping.transpose(B, permutation=(1, 0))
    product = matrix_product(context, A, B)
    product = product if alpha == 1.0 else product * _like(alpha, A)
    if C is None:
        return product
    return context.broadcast("Add", product, C if beta == 1.0 else C * _like(beta, C))


def _like(number: float, x: SymbolicTensor) -> float | int:
    return number if is_floating(x.dtype) else int(number)


@onnx("Einsum")
def einsum(context: Context, *Inputs: SymbolicTensor, equation: str) -> Any:
    """Einsum-12..28(*Inputs) -> Output"""
    return contraction.einsum(equation.replace(" ", ""), list(Inputs))
