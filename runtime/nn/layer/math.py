"""Norms, similarities and other small functions as Cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from ...common.tensor import Tensor
from ...functional import distances, linear_algebra, mathematics, norms, reductions, statistics
from ...functional.operands import as_floating, promote_pair, require_floating
from ...ops import elementwise, reduction, shaping
from ..cell import Cell


class Norm(Cell):
    """The Euclidean norm: the square root of the sum of squares.

    Args:
        axis: an int or several; () is all.
        keep_dims: whether to keep reduced axes, with size 1.
    """

    def __init__(self, axis: Any = (), keep_dims: bool = False) -> None:
        super().__init__()
        self.axis = axis
        self.keep_dims = checks.of_type(keep_dims, "keep_dims", bool, of="Norm")

    def construct(self, x: Any) -> Any:
        """Any shape; returns the reduced shape."""
        return norms.vector_norm(x, 2, None if self.axis == () else self.axis, self.keep_dims)

    def extend_repr(self) -> str:
        """The arguments."""
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class ClipByNorm(Cell):
    """Scales x down to a largest norm, clip: x * clip / max(norm, clip).

    Args:
        axis: the axes of the norm, an int or several; None is all.
    """

    def __init__(self, axis: Any = None) -> None:
        super().__init__()
        self.axis = axis

    def construct(self, x: Any, clip_norm: Any) -> Any:
        """x, any shape, floating-point; the largest norm, a number or a tensor that broadcasts; returns x's shape."""
        x = require_floating(x, "x", of="ClipByNorm")
        norm, limit = promote_pair(norms.vector_norm(x, 2, self.axis, keepdims=True), clip_norm, of="ClipByNorm")
        return x * elementwise.cast(limit / elementwise.maximum(norm, limit), dtype=x.dtype)

    def extend_repr(self) -> str:
        """The axis."""
        return f"axis={self.axis}"


class ReduceLogSumExp(Cell):
    """log(sum(exp(x))), without overflow.

    Args:
        axis: an int, tuple or list.
        keep_dims: whether to keep reduced axes, with size 1.
    """

    def __init__(self, axis: Any, keep_dims: bool = False) -> None:
        super().__init__()
        self.axis = checks.of_type(axis, "axis", (int, tuple, list), of="ReduceLogSumExp")
        self.keep_dims = checks.of_type(keep_dims, "keep_dims", bool, of="ReduceLogSumExp")

    def construct(self, x: Any) -> Any:
        """Any shape, floating-point; returns the reduced shape."""
        return reductions.logsumexp(x, self.axis, self.keep_dims)

    def extend_repr(self) -> str:
        """The arguments."""
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class L1Regularizer(Cell):
    """The sum of absolute values, times `scale`.

    Args:
        scale: a finite number above 0.

    Raises:
        TypeError: `scale` isn't a number.
        ValueError: it is out of range.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = checks.in_range(scale, "scale", "(0, inf)", of="L1Regularizer")

    def construct(self, weights: Any) -> Any:
        """Any shape; returns a 0-d tensor."""
        return reduction.reduce_sum(elementwise.abs(as_floating(weights, "weights", of="L1Regularizer"))) * self.scale

    def extend_repr(self) -> str:
        """The factor."""
        return f"scale={self.scale}"


class LGamma(Cell):
    """log |gamma(x)|, elementwise."""

    def construct(self, x: Any) -> Any:
        """Any shape; returns the same shape."""
        return mathematics.lgamma(x)


class DiGamma(Cell):
    """The derivative of `LGamma`, elementwise."""

    def construct(self, x: Any) -> Any:
        """Any shape; returns the same shape."""
        return mathematics.digamma(x)


class Moments(Cell):
    """Mean and variance (over n, not n - 1).

    Args:
        axis: an int or a tuple; None or () is all.
        keep_dims: whether to keep reduced axes, with size 1.
    """

    def __init__(self, axis: Any = None, keep_dims: bool | None = None) -> None:
        super().__init__()
        self.axis = checks.of_type(() if axis is None else axis, "axis", (int, tuple), of="Moments")
        self.keep_dims = checks.of_type(bool(keep_dims), "keep_dims", bool, of="Moments")

    def construct(self, x: Any) -> tuple[Any, Any]:
        """Any shape, floating-point; returns mean and variance, each of the reduced shape."""
        x = require_floating(x, "x", of="Moments")
        variance, mean = statistics.var_mean(x, None if self.axis == () else self.axis, 0, self.keep_dims)
        return mean, variance

    def extend_repr(self) -> str:
        """The arguments."""
        return f"axis={self.axis}, keep_dims={self.keep_dims}"


class MatMul(Cell):
    """Matrix product over the last two axes; the other axes broadcast. See `ops.matmul`.

    Args:
        transpose_x1: whether to transpose the last two axes of the first operand first.
        transpose_x2: whether to transpose the last two axes of the second operand first.
    """

    def __init__(self, transpose_x1: bool = False, transpose_x2: bool = False) -> None:
        super().__init__()
        self.transpose_x1 = checks.of_type(transpose_x1, "transpose_x1", bool, of="MatMul")
        self.transpose_x2 = checks.of_type(transpose_x2, "transpose_x2", bool, of="MatMul")

    def construct(self, x1: Any, x2: Any) -> Any:
        """(..., n, k) and (..., k, m) of one dtype; returns (..., n, m)."""
        return linear_algebra.matmul(_transpose_if(self.transpose_x1, x1), _transpose_if(self.transpose_x2, x2))

    def extend_repr(self) -> str:
        """The flags."""
        return f"transpose_x1={self.transpose_x1}, transpose_x2={self.transpose_x2}"


def _transpose_if(flag: bool, x: Any) -> Any:
    if not flag or x.ndim < 2:
        return x
    return shaping.transpose(x, permutation=(*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


class CosineSimilarity(Cell):
    """The cosine of the angle between vectors; see `ops.cosine_similarity`.

    Args:
        dim: the axis of the vectors.
        eps: the lower bound for the norm of a vector.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = checks.of_type(dim, "dim", int, of="CosineSimilarity")
        self.eps = checks.in_range(eps, "eps", "(0, inf)", of="CosineSimilarity")

    def construct(self, x1: Any, x2: Any) -> Any:
        """Two shapes that broadcast; returns the broadcast shape without the axis."""
        return distances.cosine_similarity(x1, x2, self.dim, self.eps)

    def extend_repr(self) -> str:
        """The arguments."""
        return f"dim={self.dim}, eps={self.eps}"


class Range(Cell):
    """An arithmetic sequence, the same at every call; see `ops.range`.

    Args:
        start: the first number; without `limit`, the limit, and the first number is 0.
        limit: the end of the sequence, exclusive.
        delta: the difference between successive numbers, not 0.
    """

    def __init__(self, start: Any, limit: Any = None, delta: Any = 1) -> None:
        super().__init__()
        for value, name in ((start, "start"), (delta, "delta")):
            checks.of_type(value, name, (int, float), of="Range")
        if delta == 0:
            raise ValueError(f"For 'Range', 'delta' must not be 0, but got {delta}")
        self.start: float = 0 if limit is None else start
        self.limit: float = start if limit is None else limit
        self.delta = delta
        numbers = np.arange(self.start, self.limit, delta)
        self.numbers = Tensor(numbers.astype(np.int32 if numbers.dtype.kind == "i" else np.float32))

    def construct(self) -> Any:
        """int32 if all arguments are ints, else float32."""
        return self.numbers

    def extend_repr(self) -> str:
        """The arguments."""
        return f"start={self.start}, limit={self.limit}, delta={self.delta}"
