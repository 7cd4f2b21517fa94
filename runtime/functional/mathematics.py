"""Absolute values, roots, exponentials, logarithms and special functions, elementwise; integers become float32.

See `trigonometry` for functions of angles, `roundings` for steps, `arithmetic` for powers.
"""

from __future__ import annotations

from typing import Any

from ..common.dtype import bool_
from ..ops import elementwise, special, trigonometry
from .arguments import integer
from .arithmetic import pow
from .operands import as_floating, as_numeric, as_tensor
from .public_op import Primitive, argument_aliases, public_op

# ---- size and sign ----


@public_op(method=("abs", "absolute", "__abs__"), primitive="Abs", alias="absolute")
def abs(input: Any) -> Any:
    """Absolute value, in the dtype of `input`; its gradient at 0 is 0."""
    x = as_tensor(input, of="abs")
    return x if x.dtype == bool_ else elementwise.abs(x)


@public_op(method=("sign", "sgn"), primitive="Sign", alias="sgn")
def sign(input: Any) -> Any:
    """-1, 0 or 1, in the dtype of `input`."""
    return elementwise.sign(as_numeric(input, of="sign"))


@public_op(method=("reciprocal", "inv"), primitive=("Reciprocal", "Inv"), alias="inv")
@argument_aliases(x="input")
def reciprocal(input: Any) -> Any:
    """1 / input."""
    return elementwise.reciprocal(as_floating(input, of="reciprocal"))


# ---- roots ----


@public_op(method="sqrt", primitive="Sqrt")
def sqrt(x: Any) -> Any:
    """Square root."""
    return elementwise.sqrt(as_floating(x, "x", of="sqrt"))


@public_op(method="rsqrt", primitive="Rsqrt")
def rsqrt(input: Any) -> Any:
    """1 / sqrt(input)."""
    return elementwise.rsqrt(as_floating(input, of="rsqrt"))


# ---- exponentials ----


@public_op(method="exp", primitive="Exp", alias="tensor_exp")
def exp(input: Any) -> Any:
    """e to the power of `input`."""
    return elementwise.exp(as_floating(input, of="exp"))


@public_op(method="exp2")
def exp2(input: Any) -> Any:
    """2 to the power of `input`."""
    return pow(2, as_floating(input, of="exp2"))


@public_op(method="expm1", primitive="Expm1", alias="tensor_expm1")
def expm1(input: Any) -> Any:
    """exp(input) - 1, accurate near 0."""
    return elementwise.expm1(as_floating(input, of="expm1"))


# ---- logarithms ----


@public_op(method="log", primitive="Log")
def log(input: Any) -> Any:
    """Natural logarithm."""
    return elementwise.log(as_floating(input, of="log"))


@public_op(method="log1p", primitive="Log1p")
def log1p(input: Any) -> Any:
    """log(1 + input), accurate near 0."""
    return elementwise.log1p(as_floating(input, of="log1p"))


@public_op(method="log2")
def log2(input: Any) -> Any:
    """Logarithm to base 2."""
    return elementwise.log2(as_floating(input, of="log2"))


@public_op(method="log10")
def log10(input: Any) -> Any:
    """Logarithm to base 10."""
    return elementwise.log10(as_floating(input, of="log10"))


@public_op(method="logit")
def logit(input: Any, eps: float | None = None) -> Any:
    """log(p / (1 - p)) for a probability p, `input`, which is clamped to [eps, 1 - eps] if `eps` is given."""
    p = as_floating(input, of="logit")
    if eps is not None:
        p = elementwise.clamp(p, minimum=eps, maximum=1 - eps)
    return elementwise.log(p / (1 - p))


@public_op(primitive=Primitive("Logit", init_args=("eps",)))
def _logit(input: Any, eps: float = -1.0) -> Any:
    """`logit`; a negative `eps` means no clamping."""
    return logit(input, None if eps < 0 else eps)


# ---- error functions ----


@public_op(method="erf", primitive="Erf")
def erf(input: Any) -> Any:
    """Error function: 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to `input`."""
    return elementwise.erf(as_floating(input, of="erf"))


@public_op(method="erfc", primitive="Erfc")
def erfc(input: Any) -> Any:
    """Complementary error function: 1 - erf(input), accurate where erf(input) is close to 1."""
    return elementwise.erfc(as_floating(input, of="erfc"))


@public_op(method="erfinv", primitive="Erfinv")
def erfinv(input: Any) -> Any:
    """Inverse error function; infinite at -1 and 1, NaN outside [-1, 1]."""
    return special.erfinv(as_floating(input, of="erfinv"))


# ---- others ----


@public_op(method="lgamma", primitive="Lgamma")
def lgamma(input: Any) -> Any:
    """Logarithm of the absolute value of the gamma function."""
    return special.lgamma(as_floating(input, of="lgamma"))


@public_op(method="digamma", primitive="Digamma")
def digamma(input: Any) -> Any:
    """Digamma function, the derivative of `lgamma`."""
    return special.polygamma(as_floating(input, of="digamma"), order=0)


@public_op(primitive="Polygamma")
def polygamma(n: Any, input: Any) -> Any:
    """The `n`-th derivative of `digamma`; for n >= 2, NaN where `input` is negative."""
    return special.polygamma(as_floating(input, of="polygamma"), order=integer(n, "n", of="polygamma"))


@public_op(method="sinc", primitive="Sinc")
def sinc(input: Any) -> Any:
    """sin(pi * input) / (pi * input), and 1 at 0."""
    return trigonometry.sinc(as_floating(input, of="sinc"))
