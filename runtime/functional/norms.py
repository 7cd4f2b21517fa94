"""Norms of vectors and matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..common.dtype import to_dtype
from ..ops import comparison, elementwise, reduction
from ..ops.common import normalize_axis
from ..ops.declarations import zero
from .arguments import integers
from .arithmetic import pow
from .operands import as_floating, as_tensor
from .public_op import Primitive, public_op
from .reductions import axes_of


@public_op(method="norm")
def norm(A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:  # noqa: N803
    """The norm of vectors or matrices.

    Args:
        A: the tensor; integers become float32.
        ord: None for the square root of the sum of squares over `dim`; otherwise the order of `vector_norm` along one
            axis, or of `matrix_norm` over two.
        dim: an int or two; None for all axes of `A`, one or two if `ord` is given.
        keepdim: whether to keep reduced axes, with size 1.
        dtype: the dtype in which to compute.

    Raises:
        ValueError: `ord` isn't supported, or it is given for another number of axes than one or two.
    """
    x = _in_dtype(A, dtype, of="norm")
    if ord is None:
        return vector_norm(x, 2, dim, keepdim)
    axes = tuple(range(x.ndim)) if dim is None else integers(dim, "dim", of="norm")
    if len(axes) not in (1, 2):
        raise ValueError(f"For 'norm' with 'ord', 'dim' must be one or two axes, but got {axes} of shape {x.shape}")
    return vector_norm(x, ord, axes, keepdim) if len(axes) == 1 else matrix_norm(x, ord, axes, keepdim)


@public_op()
def vector_norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Any:
    """`sum(|x| ** ord) ** (1 / ord)` over `axis`, an int or several, None for all.

    `ord` 0 counts the elements that aren't 0; infinity gives the largest absolute value, minus infinity the smallest.
    """
    if isinstance(ord, bool) or not isinstance(ord, (int, float)):
        raise ValueError(f"For 'vector_norm', 'ord' must be a number, but got {ord!r}")
    x = _in_dtype(x, dtype, of="vector_norm")
    axes = axes_of(axis, of="vector_norm")
    if ord == 2:
        return _root(reduction.reduce_sum(elementwise.mul(x, x), axes=axes, keepdims=keepdims), 2)
    sizes = elementwise.abs(x)
    if math.isinf(ord):
        reduce = reduction.reduce_max if ord > 0 else reduction.reduce_min
        return reduce(sizes, axes=axes, keepdims=keepdims)
    if ord == 0:
        sizes = elementwise.cast(comparison.not_equal(x, zero(x)), dtype=x.dtype)
    elif ord != 1:
        sizes = pow(sizes, ord)
    total = reduction.reduce_sum(sizes, axes=axes, keepdims=keepdims)
    return total if ord in (0, 1) else _root(total, ord)


def _root(total: Any, order: float) -> Any:
    """Return `total ** (1 / order)`, whose gradient at 0 is 0, as in torch."""
    nothing = comparison.equal(total, zero(total))
    usable = elementwise.where(nothing, np.ones((), total.dtype), total)
    root = elementwise.sqrt(usable) if order == 2 else pow(usable, 1 / order)
    return elementwise.where(nothing, total, root)


@public_op()
def matrix_norm(
    A: Any,  # noqa: N803
    ord: Any = "fro",
    axis: Any = (-2, -1),
    keepdims: bool = False,
    *,
    dtype: Any = None,
) -> Any:
    """The norm of the matrices in the two axes `axis`.

    Args:
        A: the tensor, of two or more dimensions.
        ord: "fro" for the square root of the sum of squares; 1 (-1) for the largest (smallest) sum of absolute values
            in a column; infinity (minus infinity) for the largest (smallest) sum in a row.
        axis: the axis of rows and that of columns.
        keepdims: whether to keep reduced axes, with size 1.
        dtype: the dtype in which to compute.

    Raises:
        ValueError: `ord` is something else; norms by singular values (2, -2, "nuc") aren't supported.
    """
    x = _in_dtype(A, dtype, of="matrix_norm")
    axes = integers(axis, "axis", of="matrix_norm")
    if len(axes) != 2:
        raise ValueError(f"For 'matrix_norm', 'axis' must be two axes, but got {axis}")
    if ord == "fro":
        return vector_norm(x, 2, axes, keepdims)
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"For 'matrix_norm', 'ord' must be 'fro', 1, -1, inf or -inf, but got {ord!r}")
    rows, columns = (normalize_axis(a, x.ndim) for a in axes)
    summed, compared = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = reduction.reduce_sum(elementwise.abs(x), axes=(summed,), keepdims=True)
    reduce = reduction.reduce_max if ord > 0 else reduction.reduce_min
    extreme = reduce(sums, axes=(compared,), keepdims=True)
    return extreme if keepdims else reduction.reduce_sum(extreme, axes=(rows, columns))


@public_op(primitive=Primitive("LpNorm", init_args=("axis", "p", "keep_dims", "epsilon")))
def _lp_norm(input: Any, axis: Any, p: int = 2, keep_dims: bool = False, epsilon: float = 1e-12) -> Any:
    """`vector_norm` of order `p` over `axis`, at least `epsilon`."""
    return elementwise.clamp(vector_norm(input, p, axis, keep_dims), minimum=epsilon)


@public_op()
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The `vector_norm` of order `p` of `input - other`."""
    return vector_norm(as_tensor(input, of="dist") - other, p)


def _in_dtype(x: Any, dtype: Any, *, of: str) -> Any:
    x = as_floating(x, of=of)
    return x if dtype is None else elementwise.cast(x, dtype=to_dtype(dtype))
