"""Building blocks of language models: Gumbel softmax, SwiGLU, rotary position embedding, renormalization."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..ops import activation, elementwise, indexing, self_gated, shaping
from ..ops.common import normalize_axis
from ..ops.random import exponential, random_like
from .arguments import integer
from .creation import ones_like, zeros_like
from .extremes import argmax
from .joining import cat, split_evenly, stack, unstack
from .norms import vector_norm
from .operands import as_tensor, require_floating
from .public_op import Primitive, public_op
from .tracking import stop_gradient


@public_op()
def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Any:
    """Softmax of (logits + Gumbel noise) / tau: nearly one-hot samples (Jang et al. 2016).

    Args:
        logits: floating-point, not normalised.
        tau: above 0; the smaller, the closer to one-hot.
        hard: whether the result is one-hot, with the gradient of the softmax.
        dim: axis of the classes.

    Raises:
        ValueError: `tau` isn't above 0.
    """
    x = require_floating(logits, "logits", of="gumbel_softmax")
    checks.in_range(tau, "tau", "(0, inf)", of="gumbel_softmax")
    axis = normalize_axis(integer(dim, "dim", of="gumbel_softmax"), x.ndim)
    noise = elementwise.neg(elementwise.log(as_tensor(random_like(x, exponential))))
    soft = activation.softmax((x + noise) / tau, axis=axis)
    if not hard:
        return soft
    position = argmax(soft, axis, True)
    one_hot = indexing.scatter(
        zeros_like(soft), position, ones_like(elementwise.cast(position, dtype=x.dtype)), axis=axis
    )
    return one_hot + (soft - stop_gradient(soft))


@public_op()
def swiglu(input: Any, dim: int = -1) -> Any:
    """SwiGLU: silu(a) * b for the halves a and b of `input` along `dim` (Shazeer 2020)."""
    a, b = split_evenly(require_floating(input, of="swiglu"), dim, 2)
    return self_gated.silu(a) * b


@public_op()
def rotary_position_embedding(x: Any, cos: Any, sin: Any, mode: int = 0) -> Any:
    """Rotary position embedding: x * cos + rotate(x) * sin along the last axis (Su et al. 2021).

    Args:
        x: (..., D), D even.
        cos: broadcasts with `x`.
        sin: likewise.
        mode: 0 rotates the halves, (-second, first); 1 rotates pairs of neighbours, (-x[1], x[0], -x[3], x[2], ...).
    """
    x = require_floating(x, "x", of="rotary_position_embedding")
    checks.one_of(mode, "mode", (0, 1), of="rotary_position_embedding")
    if mode == 0:
        first, second = split_evenly(x, -1, 2)
        rotated = cat([elementwise.neg(second), first], -1)
    else:
        pairs = shaping.reshape(x, shape=(*x.shape[:-1], x.shape[-1] // 2, 2))
        first, second = unstack(pairs, -1)
        rotated = shaping.reshape(stack([elementwise.neg(second), first], -1), shape=tuple(x.shape))
    return x * as_tensor(cos, "cos") + rotated * as_tensor(sin, "sin")


@public_op(method="renorm", primitive=Primitive("Renorm", init_args={"p": "p", "dim": "axis", "maxnorm": "maxnorm"}))
def renorm(input: Any, p: float, axis: int, maxnorm: float) -> Any:
    """Scale the slices along `axis` down to a p-norm of at most `maxnorm`."""
    x = require_floating(input, of="renorm")
    at = normalize_axis(integer(axis, "axis", of="renorm"), x.ndim)
    others = tuple(i for i in range(x.ndim) if i != at)
    norm = vector_norm(x, float(p), others, True)
    factor = elementwise.clamp(maxnorm / (norm + 1e-7), maximum=1.0)
    return x * factor
