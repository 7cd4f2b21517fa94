"""Operators of the domain ai.onnx.ml that are tensor computations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.ir.dims import product
from ....runtime.ops import comparison, indexing, shaping
from ....runtime.tracing import Traced
from ..context import Context
from ..table import cast, onnx

DOMAIN = "ai.onnx.ml"


@onnx("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(context: Context, X: Traced, Y: Traced) -> Any:
    """ArrayFeatureExtractor-1(X, Y) -> Z: the elements at Y along the last axis"""
    count = product(Y.shape)
    picked = indexing.take(X, shaping.reshape(Y, shape=(count,)), axis=X.ndim - 1)
    return shaping.reshape(picked, shape=(1, count)) if X.ndim == 1 else picked


@onnx("Binarizer", domain=DOMAIN)
def binarizer(context: Context, X: Traced, *, threshold: float = 0.0) -> Any:
    """Binarizer-1(X) -> Y: whether above a threshold"""
    return cast(comparison.greater(X, np.asarray(threshold, X.dtype)), X.dtype)
