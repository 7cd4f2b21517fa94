"""Similarity and distance of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..common.tensor import from_array
from ..ops import elementwise, indexing, shaping
from ..ops.common import normalize_axis
from ..ops.reduction import reduce_sum
from .arguments import known_size
from .losses import real_pair
from .norms import vector_norm
from .operands import require_floating, require_one_dtype
from .public_op import Primitive, public_op


@public_op()
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """Cosine similarity: the dot product of two vectors divided by the product of their norms.

    It is 0 where a vector is 0.

    Args:
        x1: vectors along axis `dim`; integers become float32.
        x2: likewise; broadcasts with `x1`.
        dim: the axis of the vectors, which the result doesn't have.
        eps: the lower bound of a norm.

    Raises:
        TypeError: an operand can't be a tensor.
        ValueError: the shapes don't broadcast, or `dim` is out of range.
    """
    of = "cosine_similarity"
    a, b = real_pair(x1, x2, ("x1", "x2"), of=of)
    checks.of_type(dim, "dim", int, of=of)
    axes = (normalize_axis(dim, max(a.ndim, b.ndim)) - max(a.ndim, b.ndim),)
    directions = (
        x / elementwise.sqrt(elementwise.clamp(reduce_sum(x * x, axes=axes, keepdims=True), minimum=eps * eps))
        for x in (a, b)
    )
    return reduce_sum(elementwise.mul(*directions), axes=axes)


def pairwise_distance(x: Any, y: Any, p: float = 2, eps: float = 1e-6) -> Any:
    """The p-norm of x - y + eps along the last axis."""
    difference = x - y + eps
    axes = (difference.ndim - 1,)
    if p == 2:
        return elementwise.sqrt(reduce_sum(difference * difference, axes=axes))
    sizes = elementwise.abs(difference)
    if p == 1:
        return reduce_sum(sizes, axes=axes)
    return elementwise.pow(reduce_sum(elementwise.pow(sizes, float(p)), axes=axes), 1.0 / p)


@public_op(primitive=Primitive("Cdist", init_args=("p",)))
def cdist(x1: Any, x2: Any, p: float = 2.0) -> Any:
    """Distances of each vector of `x1` from each of `x2`: (..., n, d) and (..., m, d) give (..., n, m).

    A distance is the p-norm of the difference.

    Raises:
        TypeError: an operand isn't floating-point.
        ValueError: `p` is negative, or the shapes don't fit.
    """
    a, b = require_floating(x1, "x1", of="cdist"), require_floating(x2, "x2", of="cdist")
    require_one_dtype(a, b, of="cdist")
    checks.in_range(p, "p", "[0, inf]", of="cdist")
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"For 'cdist', vectors of one size are needed, but got shapes {tuple(a.shape)}, {tuple(b.shape)}"
        )
    rows = shaping.reshape(a, shape=(*a.shape[:-1], 1, a.shape[-1]))
    columns = shaping.reshape(b, shape=(*b.shape[:-2], 1, *b.shape[-2:]))
    return vector_norm(elementwise.sub(rows, columns), float(p), -1)


@public_op(primitive=Primitive("Pdist", init_args=("p",)))
def pdist(input: Any, p: float = 2.0) -> Any:
    """Distances (p-norms of the differences) of all pairs of rows: (..., n, d) gives (..., n * (n - 1) / 2)."""
    x = require_floating(input, of="pdist")
    if x.ndim < 2:
        raise ValueError(f"For 'pdist', 'input' must have at least 2 dimensions, but got shape {tuple(x.shape)}")
    first, second = np.triu_indices(known_size(x.shape[-2], "For 'pdist', the number of rows"), 1)
    a, b = (indexing.take(x, from_array(rows), axis=x.ndim - 2) for rows in (first, second))
    return vector_norm(elementwise.sub(a, b), float(checks.in_range(p, "p", "[0, inf]", of="pdist")), -1)
