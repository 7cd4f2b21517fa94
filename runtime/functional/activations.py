"""Activation functions: sigmoidal, gated, and normalizing along an axis. See also `rectifiers`."""

from __future__ import annotations

from typing import Any

from .. import checks
from ..common.dtype import to_dtype
from ..ops import activation, elementwise, rectifier, self_gated, slicing, trigonometry
from ..ops.common import normalize_axis
from .operands import as_floating, as_tensor, require_floating
from .public_op import Primitive, public_op

# ---- sigmoidal ----


@public_op(method="sigmoid", primitive="Sigmoid")
def sigmoid(input: Any) -> Any:
    """1 / (1 + exp(-x)), elementwise; integers become float32."""
    return elementwise.sigmoid(as_floating(input, of="sigmoid"))


@public_op(method="tanh", primitive="Tanh")
def tanh(input: Any) -> Any:
    """Hyperbolic tangent, elementwise; integers become float32."""
    return trigonometry.tanh(as_floating(input, of="tanh"))


@public_op(primitive="LogSigmoid")
def logsigmoid(x: Any) -> Any:
    """log(sigmoid(x)), elementwise; floating-point x."""
    return activation.log_sigmoid(require_floating(x, "x", of="logsigmoid"))


@public_op(primitive="HSigmoid")
def hardsigmoid(input: Any) -> Any:
    """min(max(x + 3, 0), 6) / 6, elementwise; floating-point x."""
    return activation.hardsigmoid(require_floating(input, of="hardsigmoid"))


@public_op(primitive="Softsign")
def softsign(x: Any) -> Any:
    """x / (1 + |x|), elementwise; floating-point x."""
    x = require_floating(x, "x", of="softsign")
    return x / (elementwise.abs(x) + 1.0)


@public_op()
def tanhshrink(input: Any) -> Any:
    """x - tanh(x), elementwise; floating-point x."""
    x = require_floating(input, of="tanhshrink")
    return x - trigonometry.tanh(x)


# ---- gated ----


@public_op(primitive="SiLU")
def silu(input: Any) -> Any:
    """x * sigmoid(x), elementwise (Elfwing et al. 2017); floating-point x."""
    return self_gated.silu(require_floating(input, of="silu"))


@public_op(primitive="Mish")
def mish(x: Any) -> Any:
    """x * tanh(softplus(x)), elementwise (Misra 2019); floating-point x."""
    return self_gated.mish(require_floating(x, "x", of="mish"))


@public_op(primitive="HSwish")
def hardswish(input: Any) -> Any:
    """x * hardsigmoid(x), elementwise (Howard et al. 2019); floating-point x."""
    return activation.hardswish(require_floating(input, of="hardswish"))


@public_op(primitive=tuple(Primitive(name, defaults={"approximate": "tanh"}) for name in ("GeLU", "Gelu")))
def gelu(input: Any, approximate: str = "none") -> Any:
    """Gaussian error linear unit: x times the standard normal CDF at x, elementwise (Hendrycks and Gimpel 2016).

    Args:
        input: floating-point x.
        approximate: "none", for 0.5 * x * (1 + erf(x / sqrt(2))), or "tanh", for
            0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), which the operator object `GeLU` computes.

    Raises:
        TypeError: x isn't floating-point.
        ValueError: `approximate` is neither "none" nor "tanh".
    """
    checks.one_of(approximate, "approximate", ("none", "tanh"), of="gelu")
    return self_gated.gelu(require_floating(input, of="gelu"), approximate=approximate)


@public_op(primitive=("FastGeLU", "FastGelu"))
def fast_gelu(x: Any) -> Any:
    """x * sigmoid(1.702 * x), elementwise: an approximation of `gelu` (Hendrycks and Gimpel 2016); floating-point x."""
    x = require_floating(x, "x", of="fast_gelu")
    return x * elementwise.sigmoid(x * 1.702)


@public_op(primitive=Primitive("GLU", init_args=("axis",)))
def glu(x: Any, axis: int = -1) -> Any:
    """Gated linear unit: the first half of `x` along `axis`, times sigmoid of the second half (Dauphin et al. 2016).

    Raises:
        TypeError: `x` isn't floating-point.
        ValueError: `axis` is out of range, or has an odd size.
    """
    x = require_floating(x, "x", of="glu")
    at = normalize_axis(checks.of_type(axis, "axis", int, of="glu"), x.ndim)
    if x.ndim == 0 or x.shape[at] % 2 != 0:
        raise ValueError(f"For 'glu', 'x' must have an even size along axis {axis}, but got shape {x.shape}")
    half = x.shape[at] // 2
    value, gate = (
        slicing.slice(x, starts=(start,), stops=(start + half,), steps=(1,), axes=(at,)) for start in (0, half)
    )
    return value * elementwise.sigmoid(gate)


# ---- along an axis ----


@public_op(method="softmax", primitive=Primitive("Softmax", init_args=("axis",)))
def softmax(input: Any, axis: int = -1, *, dtype: Any = None) -> Any:
    """Softmax along `axis`: exp(x) divided by its sum.

    Args:
        input: floating-point x.
        axis: an int, or a tuple of one.
        dtype: the dtype to cast x to first; None keeps its own.

    Raises:
        TypeError: x isn't floating-point, or `axis` isn't an int.
        ValueError: `axis` is out of range.
    """
    return activation.softmax(_in_dtype(input, dtype, of="softmax"), axis=_single(axis, of="softmax"))


@public_op()
def softmin(x: Any, axis: int = -1, *, dtype: Any = None) -> Any:
    """`softmax` of -x."""
    return activation.softmax(-_in_dtype(x, dtype, of="softmin"), axis=_single(axis, of="softmin"))


@public_op(method="log_softmax", primitive=Primitive("LogSoftmax", init_args=("axis",)))
def log_softmax(logits: Any, axis: int = -1) -> Any:
    """Logarithm of `softmax` along `axis`, computed without underflow; errors are those of `softmax`."""
    logits = require_floating(logits, "logits", of="log_softmax")
    return activation.log_softmax(logits, axis=_single(axis, of="log_softmax"))


@public_op(primitive="Softplus")
def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta * x)) / beta, elementwise; x where beta * x is above `threshold`.

    Raises:
        TypeError: x isn't floating-point.
        ValueError: `beta` is 0.
    """
    if beta == 0:
        raise ValueError(f"For 'softplus', 'beta' must not be 0, but got {beta}")
    return rectifier.softplus(require_floating(input, of="softplus"), beta=float(beta), threshold=float(threshold))


def _in_dtype(x: Any, dtype: Any, *, of: str) -> Any:
    if dtype is not None:
        x = elementwise.cast(as_tensor(x, of=of), dtype=to_dtype(dtype))
    return require_floating(x, of=of)


def _single(axis: Any, *, of: str) -> int:
    if isinstance(axis, tuple) and len(axis) == 1:
        (axis,) = axis
    checked: int = checks.of_type(axis, "axis", int, of=of)
    return checked
