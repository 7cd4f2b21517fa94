"""Similarity and distance of vectors."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ops import elementwise
from ..ops.common import normalize_axis
from ..ops.reduction import reduce_sum
from .losses import real_pair
from .spelling import spelled


@spelled()
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The product of two vectors over the product of their lengths, each at least `eps`; 0 where one is 0.

    Args:
        x1: vectors along axis `dim`; integers become float32.
        x2: likewise; broadcasts with `x1`.
        dim: the axis, which is left out of the result.
        eps: the least length.

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
