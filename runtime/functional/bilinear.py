"""Bilinear products of two inputs with a weight."""

from __future__ import annotations

from typing import Any

from ..ops import elementwise, linear, shaping
from .operands import as_tensor, require_one_dtype
from .public_op import public_op


@public_op()
def bidense(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """Bilinear transformation of two inputs (ATen `bilinear`).

    y[..., o] is the sum over i and j of input1[..., i] * weight[o, i, j] * input2[..., j], plus bias[o].

    Args:
        input1: (..., n).
        input2: (..., m), with the same leading axes.
        weight: (o, n, m).
        bias: (o), or None.

    Raises:
        TypeError: the dtypes differ.
        ValueError: the shapes don't fit.
    """
    operands = {"input1": input1, "input2": input2, "weight": weight} | ({} if bias is None else {"bias": bias})
    a, b, w, *shift = (as_tensor(x, name, of="bidense") for name, x in operands.items())
    require_one_dtype(a, b, w, *shift, of="bidense")
    fits = a.ndim > 0 and b.ndim > 0 and w.ndim == 3 and a.shape[:-1] == b.shape[:-1]
    if not fits or w.shape[1:] != (a.shape[-1], b.shape[-1]):
        raise ValueError(
            f"For 'bidense', needed (..., n), (..., m) and a weight (o, n, m), but got {tuple(a.shape)}, "
            f"{tuple(b.shape)} and {tuple(w.shape)}"
        )
    outputs, n, m = w.shape
    by_input = shaping.reshape(shaping.transpose(w, permutation=(1, 0, 2)), shape=(n, outputs * m))
    rows = shaping.reshape(linear.matmul(a, by_input), shape=(*a.shape[:-1], outputs, m))
    column = shaping.reshape(b, shape=(*b.shape, 1))
    y = shaping.reshape(linear.matmul(rows, column), shape=(*a.shape[:-1], outputs))
    return elementwise.add(y, shift[0]) if shift else y
