"""ONNX activation functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import product
from ....runtime.ops import activation, comparison, creation, elementwise, rectifier, self_gated, shaping, sorting
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from .context import Context
from .fused import DOMAIN
from .heads import align
from .table import onnx
from .whole import as_single_node


@onnx("LeakyRelu")
def leaky_relu(context: Context, X: SymbolicTensor, *, alpha: float = 0.01) -> Any:
    """LeakyRelu-6..16(X) -> Y"""
    return rectifier.leaky_relu(X, negative_slope=alpha)


@onnx("Elu")
def elu(context: Context, X: SymbolicTensor, *, alpha: float = 1.0) -> Any:
    """Elu-6..22(X) -> Y"""
    return rectifier.elu(X, alpha=alpha)


@onnx("Celu")
def celu(context: Context, X: SymbolicTensor, *, alpha: float = 1.0) -> Any:
    """Celu-12..28(X) -> Y"""
    return rectifier.elu(X, alpha=alpha, input_scale=1.0 / alpha)


@onnx("Selu")
def selu(
    context: Context,
    X: SymbolicTensor,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Any:
    """Selu-6..22(X) -> Y"""
    return rectifier.elu(X, alpha=alpha, scale=gamma)


@onnx("ThresholdedRelu")
def thresholded_relu(context: Context, X: SymbolicTensor, *, alpha: float = 1.0) -> Any:
    """ThresholdedRelu-10..22(X) -> Y"""
    threshold = np.asarray(alpha).astype(X.dtype)
    return elementwise.where(comparison.greater(X, threshold), X, np.zeros((), X.dtype))


@onnx("HardSigmoid")
def hard_sigmoid(context: Context, X: SymbolicTensor, *, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """HardSigmoid-6..22(X) -> Y"""
    return elementwise.clamp(X * alpha + beta, minimum=0.0, maximum=1.0)


@onnx("Gelu")
@onnx("Gelu", domain=DOMAIN)
def gelu(context: Context, X: SymbolicTensor, *, approximate: str = "none") -> Any:
    """Gelu-20(X) -> Y; com.microsoft's has no attribute"""
    if approximate not in ("none", "tanh"):
        raise ShapeError(f"approximate must be none or tanh, given {approximate!r}")
    return self_gated.gelu(X, approximate=approximate)


@onnx("BiasGelu", domain=DOMAIN)
def bias_gelu(context: Context, A: SymbolicTensor, B: SymbolicTensor) -> Any:
    """BiasGelu-1(A, B) -> C: Gelu of the sum"""
    return self_gated.gelu(context.broadcast("Add", A, B), approximate="none")


@onnx("FastGelu", domain=DOMAIN)
def fast_gelu(context: Context, X: SymbolicTensor, bias: SymbolicTensor | None = None) -> Any:
    """FastGelu-1(X, bias?) -> Y: Gelu by tanh"""
    return self_gated.gelu(X if bias is None else context.broadcast("Add", X, bias), approximate="tanh")


@onnx("QuickGelu", domain=DOMAIN)
def quick_gelu(context: Context, X: SymbolicTensor, *, alpha: float = 1.702) -> Any:
    """QuickGelu-1(X) -> Y: X * sigmoid(alpha * X)"""
    return X * elementwise.sigmoid(X * alpha)


@onnx("Softplus")
def softplus(context: Context, X: SymbolicTensor) -> Any:
    """Softplus-1..22(X) -> Y"""
    return rectifier.softplus(X, beta=1.0, threshold=float("inf"))


@onnx("Softsign")
def softsign(context: Context, input: SymbolicTensor) -> Any:
    """Softsign-1..22(input) -> output"""
    return input / (elementwise.abs(input) + 1.0)


@onnx("Swish")
def swish(context: Context, X: SymbolicTensor, *, alpha: float = 1.0) -> Any:
    """Swish-24(X) -> Y"""
    return as_single_node("Swish", 24, lambda x: [_swish(x, alpha)], [X], {"alpha": alpha})[0]


def _swish(x: SymbolicTensor, alpha: float) -> Any:
    return self_gated.silu(x) if alpha == 1.0 else x * elementwise.sigmoid(x * alpha)


@onnx("SwiGLU")
def swiglu(context: Context, A: SymbolicTensor, B: SymbolicTensor, *, alpha: float = 1.0) -> Any:
    """SwiGLU-28(A, B) -> Y: Swish of the gate times the value, which have the same shape"""
    if A.ndim != B.ndim:
        raise ShapeError(f"A and B must have the same shape, given {tuple(A.shape)} and {tuple(B.shape)}")
    pairs = zip(A.shape, B.shape, strict=True)
    if any(a != b for a, b in pairs if isinstance(a, int) and isinstance(b, int)):
        raise ShapeError(f"A and B must have the same shape, given {tuple(A.shape)} and {tuple(B.shape)}")

    def definition(A: Any, B: Any) -> list[Any]:
        return [_swish(A, alpha) * align(B, tuple(A.shape))]

    return as_single_node("SwiGLU", 28, definition, [A, B], {"alpha": alpha})[0]


def _apply_along_axis(context: Context, x: SymbolicTensor, axis: int | None, op: Callable[..., Any]) -> Any:
    """Apply `op` along an axis; before version 13, along the axes from `axis` (1 by default) to the last, flattened."""
    if context.opset >= 13:
        return op(x, normalize_axis(-1 if axis is None else axis, x.ndim))
    at = normalize_axis(1 if axis is None else axis, x.ndim) if axis != x.ndim else x.ndim
    if at == x.ndim - 1:
        return op(x, at)
    flat = shaping.reshape(x, shape=(product(x.shape[:at]), product(x.shape[at:])))
    return shaping.reshape(op(flat, 1), shape=x.shape)


@onnx("Softmax")
def softmax(context: Context, input: SymbolicTensor, *, axis: int | None = None) -> Any:
    """Softmax-1..13(input) -> output"""
    return _apply_along_axis(context, input, axis, lambda x, at: activation.softmax(x, axis=at))


@onnx("LogSoftmax")
def log_softmax(context: Context, input: SymbolicTensor, *, axis: int | None = None) -> Any:
    """LogSoftmax-1..13(input) -> output"""
    return _apply_along_axis(context, input, axis, lambda x, at: activation.log_softmax(x, axis=at))


@onnx("Hardmax")
def hardmax(context: Context, input: SymbolicTensor, *, axis: int | None = None) -> Any:
    """Hardmax-1..13(input) -> output: 1 at the first largest element, 0 elsewhere"""

    def first(x: SymbolicTensor, at: int) -> Any:
        index = sorting.argmax(x, axis=at, keepdims=True)
        shape = tuple(x.shape[at] if i == at else 1 for i in range(x.ndim))
        counted = context.builder.create(creation.arange, stop=x.shape[at], dtype=index.dtype)
        return elementwise.cast(comparison.equal(shaping.reshape(counted, shape=shape), index), dtype=x.dtype)

    return _apply_along_axis(context, input, axis, first)
