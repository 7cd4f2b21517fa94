"""Operators of the domain ai.onnx.ml that are tensor computations."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ....runtime.errors import ShapeError
from ....runtime.ir.dims import product
from ....runtime.ir.types import FLOAT32, INT64, is_floating
from ....runtime.ops import activation, comparison, elementwise, indexing, linear, reduction, shaping, sorting
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from ..model import protos
from .context import Context
from .table import cast, onnx, require_few

DOMAIN = "ai.onnx.ml"


@onnx("ArrayFeatureExtractor", domain=DOMAIN)
def array_feature_extractor(context: Context, X: SymbolicTensor, Y: SymbolicTensor) -> Any:
    """ArrayFeatureExtractor-1(X, Y) -> Z: the elements at Y along the last axis"""
    count = product(Y.shape)
    picked = indexing.take(X, shaping.reshape(Y, shape=(count,)), axis=X.ndim - 1)
    return shaping.reshape(picked, shape=(1, count)) if X.ndim == 1 else picked


@onnx("Binarizer", domain=DOMAIN)
def binarizer(context: Context, X: SymbolicTensor, *, threshold: float = 0.0) -> Any:
    """Binarizer-1(X) -> Y: whether above a threshold"""
    return cast(comparison.greater(X, np.asarray(threshold, X.dtype)), X.dtype)


@onnx("Scaler", domain=DOMAIN)
def scaler(context: Context, X: SymbolicTensor, *, offset: Any = (), scale: Any = ()) -> Any:
    """Scaler-1(X) -> Y: (X - offset) * scale, with one number or one per feature for each"""
    width = X.shape[-1] if X.ndim else 1
    for name, numbers in (("offset", offset), ("scale", scale)):
        if len(numbers) not in {1, width}:
            raise ShapeError(f"{name} has {len(numbers)} numbers for {width} features")
    return (cast(X, FLOAT32) - np.asarray(offset, FLOAT32)) * np.asarray(scale, FLOAT32)


@onnx("Normalizer", domain=DOMAIN)
def normalizer(context: Context, X: SymbolicTensor, *, norm: str = "MAX") -> Any:
    """Normalizer-1(X) -> Y: X divided by its largest element, its L1 norm or its L2 norm, unless that is 0"""
    x, last = cast(X, FLOAT32), (X.ndim - 1,)
    match norm:
        case "MAX":
            divisor = reduction.reduce_max(x, axes=last, keepdims=True)
        case "L1":
            divisor = reduction.reduce_sum(elementwise.abs(x), axes=last, keepdims=True)
        case "L2":
            divisor = elementwise.sqrt(reduction.reduce_sum(x * x, axes=last, keepdims=True))
        case _:
            raise ShapeError(f"norm must be MAX, L1 or L2, given {norm!r}")
    zero, one = np.asarray(0, FLOAT32), np.asarray(1, FLOAT32)
    return x / elementwise.where(comparison.equal(divisor, zero), one, divisor)


@onnx("LinearRegressor", domain=DOMAIN)
def linear_regressor(
    context: Context, X: SymbolicTensor, *, coefficients: Any = (), intercepts: Any = (), post_transform: str = "NONE",
    targets: int = 1,
) -> Any:  # fmt: skip
    """LinearRegressor-1(X) -> Y"""
    return apply_post_transform(_scores(X, coefficients, intercepts, targets), post_transform)


@onnx("LinearClassifier", domain=DOMAIN)
def linear_classifier(
    context: Context, X: SymbolicTensor, *, classlabels_ints: Any = (), classlabels_strings: Any = (),
    coefficients: Any,
    intercepts: Any = (), multi_class: int = 0, post_transform: str = "NONE",
) -> Any:  # fmt: skip
    """LinearClassifier-1(X) -> Y, Z: the class with the largest score, and the scores"""
    if classlabels_strings:
        raise Unsupported("classes that are strings: tensors hold numbers only")
    classes = len(classlabels_ints)
    width = X.shape[-1]
    if classes < 2 or (classes == 2 and len(coefficients) == width):
        raise Unsupported("two classes chosen by the sign of one score")
    scores = _scores(X, coefficients, intercepts, classes)
    labels = indexing.take(np.asarray(classlabels_ints, INT64), sorting.argmax(scores, axis=1), axis=0)
    return labels, apply_post_transform(scores, post_transform)


def _scores(x: SymbolicTensor, coefficients: Any, intercepts: Any, count: int) -> Any:
    """A linear layer with its coefficients in attributes."""
    if x.ndim != 2:
        raise Unsupported(f"an input of {x.ndim} dimensions instead of (batch, features)")
    width = x.shape[1]
    if not isinstance(width, int):
        raise Unsupported("a symbolic number of features")
    if count < 1 or len(coefficients) != count * width or len(intercepts) not in (0, count):
        raise ShapeError(
            f"needed {count * width} coefficients for {width} features and {count} results and as many intercepts as "
            f"results or none, given {len(coefficients)} and {len(intercepts)}"
        )
    weight = np.asarray(coefficients, FLOAT32).reshape(count, width)
    bias = np.asarray(intercepts, FLOAT32) if intercepts else None
    return linear.linear(cast(x, FLOAT32), weight, bias)


def apply_post_transform(scores: Any, how: str) -> Any:
    """Apply a `post_transform` to scores of several targets or classes, shape (batch, count)."""
    match how:
        case "NONE":
            return scores
        case "LOGISTIC":
            return elementwise.sigmoid(scores)
        case "SOFTMAX":
            return activation.softmax(scores, axis=1)
        case "SOFTMAX_ZERO":
            return _softmax_keeping_zeros(scores)
        case "PROBIT":
            return _probit(scores)
    raise Unsupported(f"post_transform {how!r}")


def _softmax_keeping_zeros(scores: Any) -> Any:
    """A softmax in which zeros stay zeros."""
    highest = reduction.reduce_max(scores, axes=(1,), keepdims=True)
    counts = comparison.greater(elementwise.abs(scores), np.asarray(1e-7, scores.dtype))
    shares = elementwise.where(counts, elementwise.exp(scores - highest), scores * elementwise.exp(-highest))
    total = reduction.reduce_sum(
        elementwise.where(counts, shares, np.asarray(0, scores.dtype)), axes=(1,), keepdims=True
    )
    return shares / total


def _probit(scores: Any) -> Any:
    """sqrt(2) times the inverse of erf by Winitzki's approximation, as ONNX Runtime computes it."""
    a, dtype = 0.147, scores.dtype
    x = scores * 2.0 - 1.0
    log = elementwise.log((1.0 - x) * (1.0 + x))
    half = log * 0.5 + 2.0 / (3.14159 * a)
    size = elementwise.sqrt(elementwise.sqrt(half * half - log * (1.0 / a)) - half)
    negative = comparison.less(x, np.asarray(0, dtype))
    return elementwise.where(negative, -size, size) * 1.41421356


@onnx("LabelEncoder", domain=DOMAIN)
def label_encoder(
    context: Context, X: SymbolicTensor, *, default_float: float = -0.0, default_int64: int = -1,
    default_string: str = "",
    keys_floats: Any = (), keys_int64s: Any = (), keys_strings: Any = (), values_floats: Any = (),
    values_int64s: Any = (), values_strings: Any = (), keys_tensor: Any = None, values_tensor: Any = None,
    default_tensor: Any = None,
) -> Any:  # fmt: skip
    """LabelEncoder-2..4(X) -> Y: the value for the key equal to an element, or the default"""
    tensors = {"keys": keys_tensor, "values": values_tensor, "default": default_tensor}
    texts = [t for t in tensors.values() if t is not None and t.data_type == TensorProto.STRING]
    if keys_strings or values_strings or texts:
        raise Unsupported("labels that are strings: tensors hold numbers only")
    arrays = {n: protos.array_of(t, context.folder, n).reshape(-1) for n, t in tensors.items() if t is not None}
    keys = arrays.get("keys", np.asarray(keys_floats or keys_int64s)).astype(X.dtype)
    lists = np.asarray(values_floats, FLOAT32) if values_floats else np.asarray(values_int64s, INT64)
    values = arrays.get("values", lists)
    default = np.asarray(default_float if is_floating(values.dtype) else default_int64, values.dtype)
    if "default" in arrays:
        if arrays["default"].size != 1:
            raise ShapeError(f"needed one default, given {arrays['default'].size}")
        default = arrays["default"].astype(values.dtype).reshape(())
    if keys.size != values.size or not keys.size:
        raise ShapeError(f"needed as many keys as values, given {keys.size} and {values.size}")
    require_few(keys.size, "labels")
    labels = shaping.reshape(X, shape=(*X.shape, 1))
    same = comparison.equal(labels, keys)
    if is_floating(keys.dtype):
        same = comparison.logical_or(same, comparison.logical_and(comparison.isnan(labels), np.isnan(keys)))
    index = sorting.argmax(cast(same, INT64), axis=X.ndim)
    value = indexing.take(values, index, axis=0)
    return elementwise.where(reduction.reduce_any(same, axes=(X.ndim,)), value, default)
