"""Dropout: sets random elements or channels to 0, and scales the others so that the mean is preserved."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import checks
from ..ops import comparison, elementwise, random, shaping
from .operands import as_tensor, require_floating
from .public_op import Primitive, public_op


@public_op()
def dropout(input: Any, p: float = 0.5, training: bool = True, seed: int | None = None) -> Any:
    """Set each element to 0 with probability `p`, and divide the others by 1 - p (Srivastava et al. 2014).

    Args:
        input: floating-point.
        p: in [0, 1).
        training: whether to drop at all; False returns `input`.
        seed: makes this call reproducible; if it is None, use `set_seed`.

    Raises:
        TypeError: `input` isn't floating-point, `p` isn't a number, or `training` isn't a bool.
        ValueError: `p` is out of range.
    """
    x = require_floating(input, of="dropout")
    checks.in_range(p, "p", "[0, 1)", of="dropout")
    if not checks.of_type(training, "training", bool, of="dropout"):
        return x
    return _drop(x, 1.0 - p, x.shape, seed)[0]


@public_op()
def dropout1d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Set each channel, of shape (L,), to 0 with probability `p`, and divide the others by 1 - p.

    `input` is (N, C, L) or (C, L); `ValueError` for another number of dimensions. Other arguments and errors are those
    of `dropout`, but `p` may be 1.
    """
    return _channel_dropout(input, p, training, (2, 3), of="dropout1d")


@public_op()
def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Like `dropout1d`, for an `input` (N, C, H, W) (Tompson et al. 2014)."""
    return _channel_dropout(input, p, training, (4,), of="dropout2d")


@public_op()
def dropout3d(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Like `dropout1d`, for an `input` (N, C, D, H, W)."""
    return _channel_dropout(input, p, training, (5,), of="dropout3d")


# ---- as operator objects, which return the mask too ----


@public_op(primitive=Primitive("Dropout", init_args=("keep_prob", "Seed0", "Seed1")))
def _dropout_and_mask(x: Any, keep_prob: float = 0.5, Seed0: int = 0, Seed1: int = 0) -> tuple[Any, Any]:  # noqa: N803
    """The output of `dropout`, and the mask: 1 where an element is kept. A seed other than 0 makes it reproducible."""
    x = require_floating(x, "x", of="Dropout")
    checks.in_range(keep_prob, "keep_prob", "(0, 1]", of="Dropout")
    dropped, mask = _drop(x, keep_prob, x.shape, [Seed0, Seed1] if Seed0 or Seed1 else None)
    return dropped, as_tensor(mask)


@public_op(primitive=Primitive("Dropout2D", init_args=("keep_prob",)))
def _dropout2d_and_mask(x: Any, keep_prob: float = 0.5) -> tuple[Any, Any]:
    """The output of `dropout2d`, and the mask, a bool for each element."""
    return _channels_and_mask(x, keep_prob, (4,), of="Dropout2D")


@public_op(primitive=Primitive("Dropout3D", init_args=("keep_prob",)))
def _dropout3d_and_mask(x: Any, keep_prob: float = 0.5) -> tuple[Any, Any]:
    """The output of `dropout3d`, and the mask, a bool for each element."""
    return _channels_and_mask(x, keep_prob, (5,), of="Dropout3D")


# ---- shared by functions and operator objects ----


def _drop(x: Any, keep_prob: float, shape: tuple[Any, ...], seed: Any = None) -> tuple[Any, Any]:
    """Return `x` times a random mask of `shape`, divided by `keep_prob`, and the mask."""
    mask = (
        random.random_like(x, random.bernoulli, shape, probability=keep_prob)
        if seed is None
        else (np.random.default_rng(seed).random(shape) < keep_prob).astype(x.dtype)
    )
    return elementwise.mul(x, mask) * (1.0 / keep_prob if keep_prob else 0.0), mask


def _channel_dropout(input: Any, p: float, training: bool, ranks: tuple[int, ...], *, of: str) -> Any:
    x = require_floating(input, of=of)
    checks.in_range(p, "p", "[0, 1]", of=of)
    if not checks.of_type(training, "training", bool, of=of):
        return x
    return _drop(x, 1.0 - p, _channel_mask_shape(x, ranks, of=of))[0]


def _channels_and_mask(x: Any, keep_prob: float, ranks: tuple[int, ...], *, of: str) -> tuple[Any, Any]:
    x = require_floating(x, "x", of=of)
    checks.in_range(keep_prob, "keep_prob", "[0, 1]", of=of)
    dropped, mask = _drop(x, keep_prob, _channel_mask_shape(x, ranks, of=of))
    return dropped, comparison.not_equal(shaping.expand(as_tensor(mask), shape=tuple(x.shape)), 0.0)


def _channel_mask_shape(x: Any, ranks: tuple[int, ...], *, of: str) -> tuple[Any, ...]:
    """Return the shape of a mask with one element for each channel of `x`; of two `ranks`, the smaller has no batch."""
    if x.ndim not in ranks:
        needed = " or ".join(map(str, ranks))
        raise ValueError(f"For '{of}', 'input' must have {needed} dimensions, but got shape {tuple(x.shape)}")
    leading = x.ndim - (max(ranks) - 2)
    return (*x.shape[:leading], *(1,) * (x.ndim - leading))
