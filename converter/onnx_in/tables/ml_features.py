"""Operators of the domain ai.onnx.ml that prepare features, and support vector regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....runtime.errors import ShapeError
from ....runtime.ir.types import FLOAT32, INT64, is_floating
from ....runtime.ops import comparison, elementwise, linear, reduction, shaping, slicing, trigonometry
from ....runtime.tracing import SymbolicTensor
from ...unsupported import Unsupported
from .context import Context
from .ml import DOMAIN
from .table import cast, onnx, require_few


@onnx("Imputer", domain=DOMAIN)
def imputer(
    context: Context, X: SymbolicTensor, *, imputed_value_floats: Any = (), imputed_value_int64s: Any = (),
    replaced_value_float: float = 0.0, replaced_value_int64: int = 0,
) -> Any:  # fmt: skip
    """Imputer-1(X) -> Y: replaces the value that marks a missing element, by one number or one per feature"""
    real = is_floating(X.dtype)
    values, replaced = (
        (imputed_value_floats, replaced_value_float) if real else (imputed_value_int64s, replaced_value_int64)
    )
    width = X.shape[-1] if X.ndim else 1
    if len(values) not in {1, width}:
        raise ShapeError(f"needed one imputed value, or {width}, given {len(values)}")
    missing = comparison.isnan(X) if real and np.isnan(replaced) else comparison.equal(X, np.asarray(replaced, X.dtype))
    return elementwise.where(missing, np.asarray(values, X.dtype), X)


@onnx("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(
    context: Context, X: SymbolicTensor, *, cats_int64s: Any = (), cats_strings: Any = (), zeros: int = 1
) -> Any:
    """OneHotEncoder-1(X) -> Y: 1 at the index of the element's category"""
    if cats_strings:
        raise Unsupported("categories that are strings: tensors hold numbers only")
    if not zeros:
        raise Unsupported("zeros = 0, an error for an unknown category")
    require_few(len(cats_int64s), "categories")
    categories = np.asarray(cats_int64s, INT64)
    elements = shaping.reshape(cast(X, INT64), shape=(*X.shape, 1))
    return cast(comparison.equal(elements, categories), FLOAT32)


@onnx("FeatureVectorizer", domain=DOMAIN)
def feature_vectorizer(context: Context, *X: SymbolicTensor, inputdimensions: Any = ()) -> Any:
    """FeatureVectorizer-1(*X) -> Y: concatenated features, with a declared number from each input"""
    if len(X) != len(inputdimensions):
        raise ShapeError(f"{len(inputdimensions)} inputdimensions for {len(X)} inputs")
    columns = []
    for x, count in zip(X, inputdimensions, strict=True):
        width = x.shape[-1]
        if x.ndim != 2 or not isinstance(width, int):
            raise Unsupported("an input that isn't (batch, features) with a fixed number of features")
        if not 1 <= count <= 2**24:
            raise ShapeError(f"needed 1 to {2**24} features of an input, given {count}")
        kept = slicing.slice(cast(x, FLOAT32), starts=(0,), stops=(min(width, count),), steps=(1,), axes=(1,))
        columns.append(slicing.pad(kept, before=(0, 0), after=(0, max(count - width, 0))) if count > width else kept)
    return columns[0] if len(columns) == 1 else slicing.concat(*columns, axis=1)


@onnx("SVMRegressor", domain=DOMAIN)
def svm_regressor(
    context: Context, X: SymbolicTensor, *, coefficients: Any = (), kernel_params: Any = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0, one_class: int = 0, post_transform: str = "NONE", rho: Any = (), support_vectors: Any = (),
) -> Any:  # fmt: skip
    """SVMRegressor-1(X) -> Y: a sum of kernels with support vectors, or a linear function"""
    if X.ndim != 2 or not isinstance(X.shape[1], int) or post_transform != "NONE":
        raise Unsupported("an input that isn't (batch, features), or a post_transform")
    x, width = cast(X, FLOAT32), X.shape[1]
    weights, vectors = np.asarray(coefficients, FLOAT32), np.asarray(support_vectors, FLOAT32)
    count = n_supports or 1
    if n_supports < 0 or len(rho) < 1 or weights.size != (n_supports or width):
        raise ShapeError(
            f"{n_supports} vectors of {width} features with {weights.size} coefficients and {len(rho)} rho"
        )
    if n_supports == 0:
        total = linear.matmul(x, weights.reshape(width, 1))
    elif vectors.size != count * width:
        raise ShapeError(f"needed {count} support vectors of {width} features, given {vectors.size} numbers")
    else:
        total = linear.matmul(_kernel(x, vectors.reshape(count, width), kernel_type, kernel_params), weights[:, None])
    total = total + np.asarray(rho[0], FLOAT32)
    if not one_class:
        return total
    one = np.asarray(1, FLOAT32)
    return elementwise.where(comparison.greater(total, np.asarray(0, FLOAT32)), one, -one)


def _kernel(x: SymbolicTensor, vectors: Any, kind: str, parameters: Any) -> Any:
    """The kernel of each sample with each support vector; shape (batch, vectors)."""
    if kind not in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        raise ShapeError(f"kernel_type may be LINEAR, POLY, RBF or SIGMOID, given {kind!r}")
    if kind != "LINEAR" and len(parameters) < 3:
        raise ShapeError(f"needed the kernel_params gamma, coef0 and degree, given {len(parameters)}")
    if kind == "RBF":
        apart = shaping.reshape(x, shape=(x.shape[0], 1, x.shape[1])) - vectors
        return elementwise.exp(reduction.reduce_sum(apart * apart, axes=(2,)) * -float(parameters[0]))
    products = linear.matmul(x, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return products
    gamma, offset, degree = map(float, parameters[:3])
    shifted = products * gamma + offset
    return trigonometry.tanh(shifted) if kind == "SIGMOID" else elementwise.pow(shifted, np.asarray(degree, FLOAT32))
