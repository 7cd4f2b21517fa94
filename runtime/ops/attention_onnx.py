"""Lowering of attention to ONNX: the operator Attention-23 if possible, else matrix products and a softmax."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np

from ..ir.types import BOOL, FLOAT16, FLOAT32, FLOAT64
from .registry import OnnxGraph, Type


def score_scale(q: Any, scale: float | None) -> float:
    """Return the factor of the scores: `scale`, by default 1 / sqrt(features)."""
    return 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale


def keep_scale(dropout: float) -> float:
    """Return the factor of weights that dropout keeps; with dropout 1 it keeps none."""
    return 1.0 / (1.0 - dropout) if dropout < 1.0 else 0.0


def has_attention(graph: OnnxGraph, q: str, k: str, v: str, mask: str) -> bool:
    """Whether Attention-23 takes these operands: (batch, heads, length, size), with no broadcasting except the mask."""
    types = [graph.type(x) for x in (q, k, v)]
    return (
        types[0].dtype in (FLOAT32, FLOAT16)  # ONNX Runtime has no other kernels
        and all(type.rank == 4 and type.shape[:2] == types[0].shape[:2] for type in types)
        and (not mask or 2 <= graph.type(mask).rank <= 4)
        and graph.has("Attention", 23)
    )


def expand_to_queries(graph: OnnxGraph, bias: str, mask: Type, q: Type, k: Type) -> str:
    """Return the mask with a row for each query, since ONNX Runtime doesn't broadcast a single row."""
    matrix = (q.shape[-2], k.shape[-2])
    if mask.shape[-2:] == matrix:
        return bias
    return str(graph.op("Expand", bias, graph.dims((*mask.shape[:-2], *matrix))))


def softmax_weights(graph: OnnxGraph, q: str, k: str, mask: str, causal: bool, scale: float | None) -> tuple[str, str]:
    """Return the weights, and a factor that zeroes those of queries without keys (`""` if there is none)."""
    rank = graph.type(k).rank
    scaled = _scale(graph, q, score_scale(graph.type(q), scale))
    scores = graph.op("MatMul", scaled, graph.op("Transpose", k, perm=[*range(rank - 2), rank - 1, rank - 2]))
    bias, attends = additive_mask(graph, q, k, mask, causal)
    return graph.op("Softmax", graph.op("Add", scores, bias) if bias else scores, axis=-1), attends


def additive_mask(graph: OnnxGraph, q: str, k: str, mask: str, causal: bool) -> tuple[str, str]:
    """Return the term to add to the scores, and a factor that zeroes results of queries without keys; `""` if absent.

    Masked scores are reduced by half the dtype's range instead of infinity: a row of infinities would become NaN.
    """
    dtype = graph.type(k).dtype
    lowest = graph.constant(float(ml_dtypes.finfo(dtype).min) / 2, dtype)  # type: ignore[no-untyped-call]
    bias = ""
    allowed: list[str] = []
    if mask and graph.type(mask).dtype == BOOL:
        allowed.append(mask)
    if causal:
        rows, columns = (_range(graph, graph.type(x).shape[-2]) for x in (q, k))
        allowed.append(graph.op("GreaterOrEqual", graph.op("Unsqueeze", rows, graph.constant(np.array([1]))), columns))
    if allowed:
        bias = graph.op("Where", _all(graph, allowed), graph.constant(0.0, dtype), lowest)
    if mask and graph.type(mask).dtype != BOOL:
        finite = graph.op("Max", mask, lowest)
        bias = graph.op("Add", bias, finite) if bias else finite
        allowed.append(graph.op("Greater", mask, graph.constant(-np.inf, dtype)))
    if not mask:
        return bias, ""
    attends = graph.cast(_all(graph, allowed), dtype)
    return bias, graph.op("ReduceMax", attends, graph.constant(np.array([-1])))


def _all(graph: OnnxGraph, conditions: list[str]) -> str:
    return functools.reduce(lambda a, b: str(graph.op("And", a, b)), conditions)


def _scale(graph: OnnxGraph, x: str, factor: float) -> str:
    kind = graph.type(x)
    # ONNX Runtime fuses a scalar factor into MatMul as a float32; in float64, a vector prevents that
    count = kind.shape[-1] if kind.dtype == FLOAT64 else 1
    return str(graph.op("Mul", x, graph.constant(np.full(count, factor), kind.dtype)))


def _range(graph: OnnxGraph, size: Any) -> str:
    zero, one = graph.constant(np.array(0)), graph.constant(np.array(1))
    return str(graph.op("Range", zero, graph.op("Squeeze", graph.dims((size,))), one))


def apply_weights(graph: OnnxGraph, weights: str, v: str, dropout_mask: str, dropout: float) -> str:
    """Return the result of attention, from the weights."""
    if dropout_mask:
        weights, v = graph.op("Mul", weights, dropout_mask), _scale(graph, v, keep_scale(dropout))
    return str(graph.op("MatMul", weights, v))
