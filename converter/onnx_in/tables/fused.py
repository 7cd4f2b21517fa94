"""Fused operators of the domain com.microsoft, with which ONNX Runtime's optimizers replace standard operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....runtime.ir.types import INT32, INT64
from ....runtime.ops import (
    comparison,
    creation,
    elementwise,
    indexing,
    normalization,
    rectifier,
    reduction,
    shaping,
    trigonometry,
)
from ....runtime.ops.common import normalize_axis
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .context import Context
from .convolution import convolve, gemm, matrix_product
from .table import cast, onnx

DOMAIN = "com.microsoft"

# ---- activations ----


@onnx("BiasAdd", domain=DOMAIN)
def bias_add(context: Context, X: SymbolicTensor, bias: SymbolicTensor, skip: SymbolicTensor) -> Any:
    """BiasAdd-1(X, bias, skip) -> Y"""
    return context.broadcast("Add", context.broadcast("Add", X, bias), skip)


def apply_activation(x: Any, name: str, parameters: Sequence[float]) -> Any:
    """Apply the activation of a fused operator, by the name and attributes of the standard operator."""
    values = [*parameters, 0.0, 0.0]
    match name:
        case "":
            return x
        case "Relu":
            return rectifier.relu(x)
        case "Tanh":
            return trigonometry.tanh(x)
        case "Sigmoid":
            return elementwise.sigmoid(x)
        case "LeakyRelu":
            return rectifier.leaky_relu(x, negative_slope=values[0])
        case "HardSigmoid":
            return elementwise.clamp(x * values[0] + values[1], minimum=0.0, maximum=1.0)
        case "Clip":
            return elementwise.clamp(x, minimum=values[0], maximum=values[1])
    raise Unsupported(f"activation {name!r}")


# ---- products ----


@onnx("FusedMatMul", "TransposeMatMul", domain=DOMAIN)
def fused_matmul(
    context: Context, A: SymbolicTensor, B: SymbolicTensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
    transBatchA: int = 0, transBatchB: int = 0,
) -> Any:  # fmt: skip
    """FusedMatMul-1(A, B) -> Y: alpha * A @ B, with operands whose last two axes may be transposed"""
    if transBatchA or transBatchB:
        raise Unsupported("transposed batch axes")
    first, second = (_swap_axes(x) if turned and x.ndim > 1 else x for x, turned in ((A, transA), (B, transB)))
    result = matrix_product(context, first, second)
    return result if alpha == 1.0 else result * alpha


def _swap_axes(x: SymbolicTensor) -> Any:
    return shaping.transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@onnx("FusedGemm", domain=DOMAIN)
def fused_gemm(
    context: Context, A: SymbolicTensor, B: SymbolicTensor, C: SymbolicTensor | None = None, *, alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0, transB: int = 0, activation: str = "", activation_alpha: float = 0.0,
    activation_beta: float = 0.0, activation_gamma: float = 0.0,
) -> Any:  # fmt: skip
    """FusedGemm-1(A, B, C?) -> Y: Gemm, and an activation"""
    y = gemm(context, A, B, C, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return apply_activation(y, activation, (activation_alpha, activation_beta))


@onnx("FusedConv", domain=DOMAIN)
def fused_conv(
    context: Context, X: SymbolicTensor, W: SymbolicTensor, B: SymbolicTensor | None = None,
    Z: SymbolicTensor | None = None, *,
    activation: str = "", activation_params: Any = (), auto_pad: str = "NOTSET", dilations: Any = None,
    group: int = 1, kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """FusedConv-1(X, W, B?, Z?) -> Y: Conv, plus Z, and an activation"""
    y = convolve(X, W, B, auto_pad, dilations, group, kernel_shape, pads, strides)
    return apply_activation(y if Z is None else context.broadcast("Add", y, Z), activation, activation_params)


# ---- normalizations ----


@onnx("SimplifiedLayerNormalization")
def simplified_layer_normalization(
    context: Context,
    X: SymbolicTensor,
    scale: SymbolicTensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Any:
    """SimplifiedLayerNormalization-1(X, scale) -> Y: ONNX Runtime's name of RMSNormalization"""
    if context.uses(1):
        raise Unsupported("the inverse of the root mean square as a result")
    return elementwise.mul(
        normalization.rms_norm(X, axes_count=X.ndim - normalize_axis(axis, X.ndim), eps=epsilon), scale
    )


@onnx("SkipLayerNormalization", domain=DOMAIN)
def skip_layer_normalization(
    context: Context, input: SymbolicTensor, skip: SymbolicTensor, gamma: SymbolicTensor,
    beta: SymbolicTensor | None = None,
    bias: SymbolicTensor | None = None, *, epsilon: float = 1e-12,
) -> Any:  # fmt: skip
    """SkipLayerNormalization-1(input, skip, gamma, beta?, bias?) -> output, mean?, inv_std_var?, sum?"""
    total = _with_skip(context, input, skip, bias)
    return normalization.layer_norm(total, gamma, beta, axes_count=1, eps=epsilon), None, None, total


@onnx("SkipSimplifiedLayerNormalization", domain=DOMAIN)
def skip_simplified_layer_normalization(
    context: Context, input: SymbolicTensor, skip: SymbolicTensor, gamma: SymbolicTensor,
    bias: SymbolicTensor | None = None, *,
    epsilon: float = 1e-12,
) -> Any:  # fmt: skip
    """SkipSimplifiedLayerNormalization-1(input, skip, gamma, bias?) -> output, mean?, inv_std_var?, sum?"""
    total = _with_skip(context, input, skip, bias)
    return normalization.rms_norm(total, gamma, axes_count=1, eps=epsilon), None, None, total


def _with_skip(context: Context, x: SymbolicTensor, skip: SymbolicTensor, bias: SymbolicTensor | None) -> Any:
    if context.uses(1) or context.uses(2):
        raise Unsupported("statistics as results")
    total = context.broadcast("Add", x, skip)
    return total if bias is None else context.broadcast("Add", total, bias)


@onnx("EmbedLayerNormalization", domain=DOMAIN)
def embed_layer_normalization(
    context: Context, input_ids: SymbolicTensor, segment_ids: SymbolicTensor | None, word_embedding: SymbolicTensor,
    position_embedding: SymbolicTensor, segment_embedding: SymbolicTensor | None, gamma: SymbolicTensor,
    beta: SymbolicTensor,
    mask: SymbolicTensor | None = None, position_ids: SymbolicTensor | None = None, *, epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> Any:  # fmt: skip
    """EmbedLayerNormalization-1(input_ids, segment_ids?, word_embedding, position_embedding, segment_embedding?,
    gamma, beta, mask?, position_ids?) -> output, mask_index?, embedding_sum?; mask_index counts the ones of the mask
    """
    batch, length = input_ids.shape
    total = indexing.take(word_embedding, input_ids, axis=0)
    if position_ids is None:
        places = context.builder.create(creation.arange, stop=length, dtype=INT64)
        position_ids = shaping.reshape(places, shape=(1, length))
    total = context.broadcast("Add", total, indexing.take(position_embedding, position_ids, axis=0))
    if segment_ids is not None and segment_embedding is not None:
        total = context.broadcast("Add", total, indexing.take(segment_embedding, segment_ids, axis=0))
    y = normalization.layer_norm(total, gamma, beta, axes_count=1, eps=epsilon)
    if mask is None:
        counts = context.full((batch,), 0, INT32)
    else:
        ones = comparison.equal(mask, np.ones((), mask.dtype))
        counts = cast(reduction.reduce_sum(cast(ones, INT32), axes=(1,)), INT32)
    return y, counts, total
