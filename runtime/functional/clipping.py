"""Clamping of elements to bounds, and clipping of gradients to a norm.

A training step first unscales gradients, then checks them (`all_finite`), then clips them, then calls the optimizer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import checks
from ..common.dtype import float32, float64
from ..ops import comparison, elementwise, shaping, slicing
from ..tensor_like import TensorLike
from .arithmetic import maximum, minimum, mul
from .norms import vector_norm
from .operands import promote_pair
from .public_op import public_op

# ---- bounds ----


@public_op()
def clip_by_value(x: Any, clip_value_min: Any = None, clip_value_max: Any = None) -> Any:
    """Clamp `x`, or each tensor of a tuple or list, to two bounds; the dtype doesn't change.

    Args:
        x: a tensor, or a tuple or list of tensors.
        clip_value_min: number or tensor that broadcasts; None for no bound.
        clip_value_max: the same; it takes precedence where the bounds cross.

    At a bound, the element and the bound each get half of the gradient; see `clamp` for another convention.

    Raises:
        ValueError: both bounds are None.
        TypeError: `x` is neither a tensor nor a tuple or list of tensors.
    """
    if clip_value_min is None and clip_value_max is None:
        raise ValueError("For 'clip_by_value', 'clip_value_min' and 'clip_value_max' must not both be None")

    def clip(tensor: Any) -> Any:
        result = tensor if clip_value_min is None else maximum(tensor, clip_value_min)
        result = result if clip_value_max is None else minimum(result, clip_value_max)
        return elementwise.cast(result, dtype=tensor.dtype)

    return _map_tensors(clip, x, of="clip_by_value")


@public_op(method=("clamp", "clip"), alias="clip")
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Clamp `input` to two bounds.

    Args:
        input: a tensor; integers become float32 if a bound is a float.
        min: number or tensor that broadcasts; None for no bound.
        max: the same; it takes precedence where the bounds cross.

    At a bound, the element gets the whole gradient, the bound none; see `clip_by_value` for another convention.

    Raises:
        ValueError: both bounds are None.
        TypeError: `input` isn't a tensor.
    """
    if min is None and max is None:
        raise ValueError("For 'clamp', 'min' and 'max' must not both be None")
    if not isinstance(input, TensorLike):
        raise TypeError(f"For 'clamp', 'input' must be a Tensor, but got {type(input).__name__}: {input!r}")
    x = input
    if isinstance(min, (int, float, type(None))) and isinstance(max, (int, float, type(None))):
        for bound in (min, max):
            x = x if bound is None else _promote_with_number(x, bound)
        return elementwise.clamp(x, minimum=min, maximum=max)
    for bound, outside in ((min, comparison.less), (max, comparison.greater)):
        if bound is not None:
            x, bound = promote_pair(x, bound, of="clamp")
            x = elementwise.where(outside(x, bound), bound, x)
    return x


def _promote_with_number(x: Any, number: float) -> Any:
    """Convert `x` to the dtype of an operation with a number."""
    return promote_pair(x, number, of="clamp")[0]


# ---- norms ----


@public_op()
def clip_by_norm(x: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """Scale tensors down together, so that the norm of all their elements is at most about `max_norm`.

    The factor is `max_norm / (norm + 1e-6)` where that is below 1, as in torch's `clip_grad_norm_`.

    Args:
        x: a tensor, or a tuple or list of tensors.
        max_norm: the largest norm, at least 0.
        norm_type: the order of the norm; infinity is the largest absolute value.
        error_if_nonfinite: whether to raise an error if the norm is infinite or NaN.

    Returns:
        A tensor, tuple or list like `x`, with the same dtypes.

    Raises:
        TypeError: `x` is neither a tensor nor a tuple or list of tensors.
        ValueError: `max_norm` is negative, or there is no tensor.
        RuntimeError: the norm isn't finite, with `error_if_nonfinite`.
    """
    checks.in_range(max_norm, "max_norm", "[0, inf)", of="clip_by_norm")
    norm = _joint_norm(x, norm_type, of="clip_by_norm")
    if error_if_nonfinite and not math.isfinite(norm):
        raise RuntimeError(f"For 'clip_by_norm', the norm of order {norm_type} must be finite, but got {float(norm)}")
    factor = elementwise.clamp(max_norm / (norm + 1e-6), maximum=1.0)
    return _map_tensors(lambda tensor: _scale(tensor, factor), x, of="clip_by_norm")


@public_op()
def clip_by_global_norm(x: Any, clip_norm: float = 1.0, use_norm: None = None) -> Any:
    """Scale tensors down together, so that the norm of all their elements is at most `clip_norm`.

    They are multiplied by `clip_norm / max(norm, clip_norm)` (Pascanu et al. 2013); the norm of half-precision tensors
    is computed in float32. An infinite element becomes NaN, and all finite elements become 0: check `all_finite` first.

    Args:
        x: a tuple or list of tensors, or a tensor.
        clip_norm: the largest norm, above 0.
        use_norm: must be None.

    Returns:
        A tuple, list or tensor like `x`, with the same dtypes.

    Raises:
        ValueError: `clip_norm` isn't above 0, `use_norm` isn't None, or there is no tensor.
        TypeError: `x` is neither a tensor nor a tuple or list of tensors, or `clip_norm` isn't a number.
    """
    checks.in_range(clip_norm, "clip_norm", "(0, inf)", of="clip_by_global_norm")
    if use_norm is not None:
        raise ValueError(f"For 'clip_by_global_norm', 'use_norm' must be None, but got {use_norm!r}")
    norm = _joint_norm(x, 2, of="clip_by_global_norm")
    factor = np.asarray(clip_norm, norm.dtype) / elementwise.maximum(norm, np.asarray(clip_norm, norm.dtype))
    return _map_tensors(lambda tensor: _scale(tensor, factor), x, of="clip_by_global_norm")


def _joint_norm(x: Any, order: float, *, of: str) -> Any:
    """Return the norm of all elements of a tensor, or of the tensors in a tuple or list, in float32 or float64."""
    tensors = x if isinstance(x, (tuple, list)) else (x,)
    if not tensors:
        raise ValueError(f"For '{of}', 'x' must hold at least one Tensor, but got {x!r}")
    norms = _map_tensors(lambda tensor: vector_norm(_widen(tensor), order), tuple(tensors), of=of)
    dtype = float64 if any(norm.dtype == float64 for norm in norms) else float32
    vector = [shaping.reshape(elementwise.cast(norm, dtype=dtype), shape=(1,)) for norm in norms]
    return vector_norm(slicing.concat(*vector, axis=0), order)


def _widen(tensor: Any) -> Any:
    return tensor if tensor.dtype == float64 else elementwise.cast(tensor, dtype=float32)


def _scale(tensor: Any, factor: Any) -> Any:
    """`tensor * factor`, rounded once."""
    return elementwise.cast(mul(_widen(tensor), factor), dtype=tensor.dtype)


def _map_tensors(function: Callable[[Any], Any], x: Any, *, of: str) -> Any:
    """Apply `function` to a tensor, or to each tensor in a tuple or list; `TypeError` for other values."""
    several = isinstance(x, (tuple, list))
    for item in x if several else (x,):
        if not isinstance(item, TensorLike):
            raise TypeError(
                f"For '{of}', 'x' must be a Tensor or a tuple or list of them, but got {type(item).__name__}: {item!r}"
            )
    if not several:
        return function(x)
    results = [function(item) for item in x]
    return results if isinstance(x, list) else tuple(results)
