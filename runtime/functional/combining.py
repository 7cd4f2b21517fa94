"""Combinations and powers of the elements of vectors, integrals, covariances and batched dot products."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import int64
from ..common.tensor import from_array
from ..ir.dims import product
from ..ir.types import is_floating
from ..ops import elementwise, indexing, reduction, shaping
from ..ops.common import normalize_axis
from .arguments import integer, known_size
from .joining import meshgrid, part, stack
from .linear_algebra import matmul
from .operands import as_floating, as_numeric, as_tensor
from .public_op import public_op
from .reductions import sum as total
from .shapes import atleast_2d, reshape


@public_op()
def cartesian_prod(*inputs: Any) -> Any:
    """Cartesian product of vectors, the last varying fastest: (count, number of vectors)."""
    vectors = [as_tensor(x, "inputs", of="cartesian_prod") for x in inputs]
    for x in vectors:
        if x.ndim != 1:
            raise ValueError(f"For 'cartesian_prod', 'inputs' must be vectors, but got shape {tuple(x.shape)}")
    grids = meshgrid(*vectors, indexing="ij")
    return reshape(stack(list(grids), -1), (-1, len(vectors)))


@public_op()
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All combinations of `r` elements of a vector, optionally with replacement: (count, r)."""
    x = as_tensor(input, of="combinations")
    if x.ndim != 1:
        raise ValueError(f"For 'combinations', 'input' must be a vector, but got shape {tuple(x.shape)}")
    count = known_size(x.shape[0], "For 'combinations', the size of the vector")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(count), checks.positive_int(r, "r", of="combinations")))
    return indexing.take(x, from_array(np.array(places, np.int64).reshape(-1, r)), axis=0)


@public_op()
def vander(x: Any, N: int | None = None) -> Any:  # noqa: N803
    """Vandermonde matrix (n, N): the powers N - 1, ..., 1, 0 of each element of a vector; N defaults to n."""
    vector = as_numeric(x, "x", of="vander")
    if not is_floating(vector.dtype):
        vector = elementwise.cast(vector, dtype=int64)
    if vector.ndim != 1:
        raise ValueError(f"For 'vander', 'x' must be a vector, but got shape {tuple(vector.shape)}")
    count = vector.shape[0] if N is None else integer(N, "N", of="vander")
    powers = from_array(np.arange(count - 1, -1, -1).astype(vector.dtype))
    return elementwise.pow(shaping.reshape(vector, shape=(*vector.shape, 1)), powers)


@public_op()
def trapz(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """Integral along `dim` by the trapezoidal rule, with sample points `x`, or with spacing `dx`."""
    values = as_floating(y, "y", of="trapz")
    at = normalize_axis(integer(dim, "dim", of="trapz"), values.ndim)
    size = values.shape[at]
    heights = (part(values, at, 1, size) + part(values, at, 0, size - 1)) / 2
    if x is None:
        return reduction.reduce_sum(heights, axes=(at,)) * dx
    points = elementwise.cast(as_tensor(x, "x", of="trapz"), dtype=values.dtype)
    along = at if points.ndim == values.ndim else 0
    widths = part(points, along, 1, size) - part(points, along, 0, size - 1)
    if points.ndim == 1:
        widths = shaping.reshape(widths, shape=tuple(size - 1 if i == at else 1 for i in range(values.ndim)))
    return reduction.reduce_sum(heights * widths, axes=(at,))


@public_op(method="cov")
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """Covariance matrix (n, n) of n variables, or the variance of a single variable.

    Args:
        input: (n, observations), or a vector of observations.
        correction: subtracted from the number of observations in the divisor.
        fweights: the frequency of each observation, integers.
        aweights: the weight of each observation.

    Raises:
        ValueError: `input` has more than two dimensions.
    """
    variables = as_tensor(input, of="cov")
    if variables.ndim > 2:
        raise ValueError(f"For 'cov', 'input' must have at most two dimensions, but got {variables.ndim}")
    x = atleast_2d(as_floating(variables, of="cov"))
    weights = None
    for w in (fweights, aweights):
        if w is not None:
            w = elementwise.cast(as_tensor(w, "weights", of="cov"), dtype=x.dtype)
            weights = w if weights is None else weights * w
    if weights is None:
        weights = from_array(np.ones(x.shape[1], x.dtype))
    count = total(weights)
    deviations = x - total(x * weights, 1, True) / count
    if aweights is None or correction == 0:
        divisor = count - correction
    else:
        a = elementwise.cast(as_tensor(aweights, "aweights", of="cov"), dtype=x.dtype)
        divisor = count - correction * total(weights * a) / count
    covariances = matmul(deviations * weights, shaping.transpose(deviations, permutation=(1, 0)))
    covariances = covariances / elementwise.clamp(divisor, minimum=0)
    return covariances if variables.ndim == 2 else shaping.reshape(covariances, shape=())


@public_op()
def batch_dot(x1: Any, x2: Any, axes: Any = None) -> Any:
    """Dot product of `x1` and `x2` over one axis of each, for each item of a batch.

    Args:
        x1: (batch, ...).
        x2: (batch, ...).
        axes: the two axes, or one int for both; by default the last axis of `x1`, and the second to last of `x2` (the
            last if it has two).

    Returns:
        (batch, the other axes of x1, the other axes of x2); (batch, 1) if there are none.

    Raises:
        ValueError: the batches or the two axes differ in size, an operand has fewer than two dimensions, or an axis is
            the batch axis.
    """
    a, b = as_tensor(x1, "x1", of="batch_dot"), as_tensor(x2, "x2", of="batch_dot")
    if a.ndim < 2 or b.ndim < 2 or a.shape[0] != b.shape[0]:
        raise ValueError(
            f"For 'batch_dot', needed two batches of one size, but got shapes {tuple(a.shape)} and {tuple(b.shape)}"
        )
    if axes is None:
        axes = (a.ndim - 1, max(b.ndim - 2, 1))
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
    first, second = (
        normalize_axis(integer(i, "axes", of="batch_dot"), x.ndim) for i, x in zip(pair, (a, b), strict=True)
    )
    if 0 in (first, second) or a.shape[first] != b.shape[second]:
        raise ValueError(f"For 'batch_dot', 'axes' {pair} don't fit shapes {tuple(a.shape)} and {tuple(b.shape)}")
    rest_a = [i for i in range(1, a.ndim) if i != first]
    rest_b = [i for i in range(1, b.ndim) if i != second]
    size_a, size_b = (tuple(x.shape[i] for i in rest) for x, rest in ((a, rest_a), (b, rest_b)))
    left = shaping.reshape(
        shaping.transpose(a, permutation=(0, *rest_a, first)), shape=(a.shape[0], product(size_a), a.shape[first])
    )
    right = shaping.reshape(
        shaping.transpose(b, permutation=(0, second, *rest_b)), shape=(b.shape[0], b.shape[second], product(size_b))
    )
    return shaping.reshape(matmul(left, right), shape=(a.shape[0], *((*size_a, *size_b) or (1,))))
