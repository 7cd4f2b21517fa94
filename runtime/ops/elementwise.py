"""Elementwise arithmetic and exponentials, `where`, `clamp` and `cast`.

Trigonometric functions are in `trigonometry`, rounding and remainders in `rounding`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..ir.types import BOOL, INT64, as_dtype, is_floating
from ..traits import Traits
from . import comparison, error_function, float64_forms, integers_onnx
from .common import broadcast_shapes, in_float32, require_same_dtype, unbroadcast
from .declarations import (
    binary,
    from_writer,
    infer_broadcast,
    infer_floating,
    infer_numeric,
    onnx_larger,
    onnx_smaller,
    or_bool,
    or_float64,
    unary,
    zero,
)
from .float8 import cast_to_float8, is_float8, to_float8
from .registry import Array, OnnxGraph, Rule, Tensor, Type, operator, require

# ---- arithmetic ----


@binary(infer_broadcast, np.add, vjp=lambda g, y, a, b: (g, g), onnx=or_bool("Add", "Or"))
def add(a: Tensor, b: Tensor) -> Tensor:
    """Sum; for bools, or. ATen add.Tensor, ONNX Add-14."""


add.traits = Traits(elementwise=True, family="arithmetic")


@binary(infer_numeric, np.subtract, vjp=lambda g, y, a, b: (g, -g), onnx="Sub")
def sub(a: Tensor, b: Tensor) -> Tensor:
    """Difference. ATen sub.Tensor, ONNX Sub-14."""


sub.traits = Traits(elementwise=True, family="arithmetic")


@binary(infer_broadcast, np.multiply, vjp=lambda g, y, a, b: (g * b, g * a), onnx=or_bool("Mul", "And"))
def mul(a: Tensor, b: Tensor) -> Tensor:
    """Product; for bools, and. ATen mul.Tensor, ONNX Mul-14."""


mul.traits = Traits(elementwise=True, family="arithmetic")


@in_float32
def _div_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    scaled = g / b
    return scaled, -(scaled * y)


@binary(infer_floating, np.divide, vjp=_div_vjp, onnx="Div")
def div(a: Tensor, b: Tensor) -> Tensor:
    """Quotient of floating-point numbers; for integers see `floor_divide`. ATen div.Tensor, ONNX Div-14."""


div.traits = Traits(elementwise=True, family="arithmetic")


def _pow_kernel(a: Array, b: Array) -> Array:
    if b.ndim == 0 and b in (1, 2, 3):  # NumPy's general power is about thirty times slower than a product
        return a if b == 1 else a * a if b == 2 else a * a * a
    if is_floating(a.dtype):
        return np.asarray(np.power(a, b))
    # 1 / a**-b in integers, as in ATen: 0 except for a = 1 and -1
    inverse = np.where(a == 1, 1, np.where(a == -1, 1 - 2 * (b % 2), 0))
    return np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))).astype(a.dtype)


@in_float32
def _pow_vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    no_gradient = zero(y)
    to_base = where(comparison.equal(b, no_gradient), no_gradient, g * (b * pow(a, b - 1.0)))
    is_flat = comparison.logical_and(comparison.equal(a, no_gradient), comparison.greater_equal(b, no_gradient))
    return to_base, where(is_flat, no_gradient, g * (y * log(a)))


def _pow_onnx(graph: OnnxGraph, a: str, b: str) -> str:
    return str(graph.op("Pow", a, b)) if is_floating(graph.type(a).dtype) else integers_onnx.power(graph, a, b)


@binary(infer_numeric, _pow_kernel, vjp=_pow_vjp, onnx=_pow_onnx)
def pow(a: Tensor, b: Tensor) -> Tensor:
    """`a` to the power of `b`; an integer to a negative power is truncated. ATen pow.Tensor_Tensor, ONNX Pow-15."""


pow.traits = Traits(elementwise=True, mixed_precision="float32")


def _extremum_vjp(wins: str) -> Rule:
    """Return the rule that gives the gradient to the selected operand, or half to each where they are equal."""

    def vjp(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        compare = getattr(comparison, wins)
        split = where(comparison.equal(a, b), g * 0.5, g)
        return where(compare(b, a), zero(g), split), where(compare(a, b), zero(g), split)

    return vjp


@binary(
    infer_broadcast,
    np.maximum,
    vjp=_extremum_vjp("greater"),
    onnx=lambda graph, a, b: onnx_larger(graph, a, b, graph.type(a).dtype),
)
def maximum(a: Tensor, b: Tensor) -> Tensor:
    """The larger operand; NaN if either is; for bools, or. ATen maximum, ONNX Max-13."""


maximum.traits = Traits(
    elementwise=True, exact=True, wider_integers="most", family="extremum", in_torch="torch", in_cells=True
)


@binary(
    infer_broadcast,
    np.minimum,
    vjp=_extremum_vjp("less"),
    onnx=lambda graph, a, b: onnx_smaller(graph, a, b, graph.type(a).dtype),
)
def minimum(a: Tensor, b: Tensor) -> Tensor:
    """The smaller operand; NaN if either is; for bools, and. ATen minimum, ONNX Min-13."""


minimum.traits = Traits(
    elementwise=True, exact=True, wider_integers="most", family="extremum", in_torch="torch", in_cells=True
)


@unary(infer_numeric, np.negative, vjp=lambda g, y, x: -g, onnx="Neg")
def neg(x: Tensor) -> Tensor:
    """Minus x. ATen neg, ONNX Neg-13."""


neg.traits = Traits(elementwise=True, exact=True, wider_integers="all", in_torch="torch")


def _sign_onnx(graph: OnnxGraph, x: str) -> str:
    dtype = graph.type(x).dtype
    if dtype != INT64 and not is_floating(dtype):
        return str(graph.op("Sign", x))
    zero = graph.constant(0, dtype)  # Sign(NaN) is NaN in ONNX; for int64, see `onnx_larger`
    positive, negative = (graph.cast(graph.op(name, x, zero), dtype) for name in ("Greater", "Less"))
    return str(graph.op("Sub", positive, negative))


@unary(infer_numeric, lambda x: np.subtract(x > 0, x < 0, dtype=x.dtype), vjp=lambda g, y, x: None, onnx=_sign_onnx)
def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1; 0 for NaN. ATen sign, ONNX Sign-13."""


sign.traits = Traits(elementwise=True, exact=True, in_torch="torch", in_cells=True)


@unary(infer_numeric, np.abs, vjp=lambda g, y, x: g * sign(x) if is_floating(x.dtype) else None, onnx="Abs")
def abs(x: Tensor) -> Tensor:
    """Absolute value; its gradient at 0 is 0. ATen abs, ONNX Abs-13."""


abs.traits = Traits(elementwise=True, exact=True, in_torch="torch", in_cells=True)


@unary(infer_floating, np.reciprocal, vjp=in_float32(lambda g, y, x: -(g * (y * y))), onnx="Reciprocal")
def reciprocal(x: Tensor) -> Tensor:
    """1 / x. ATen reciprocal, ONNX Reciprocal-13."""


reciprocal.traits = Traits(elementwise=True, mixed_precision="float32", family="root", in_torch="torch", in_cells=True)


# ---- powers, exponentials and logarithms ----


@unary(infer_floating, np.sqrt, vjp=in_float32(lambda g, y, x: g / (y * 2.0)), onnx="Sqrt")
def sqrt(x: Tensor) -> Tensor:
    """Square root. ATen sqrt, ONNX Sqrt-13."""


sqrt.traits = Traits(elementwise=True, family="root", in_torch="torch", in_cells=True)


def _rsqrt_kernel(x: Array) -> Array:
    root: Array = np.asarray(np.sqrt(x))
    np.reciprocal(root, out=root)
    return root


@unary(
    infer_floating,
    _rsqrt_kernel,
    vjp=in_float32(lambda g, y, x: g * -0.5 * (y * y * y)),
    onnx=from_writer(lambda w, x: w("Reciprocal", w("Sqrt", x))),
)
def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x). ATen rsqrt."""


rsqrt.traits = Traits(
    elementwise=True, pole=True, mixed_precision="float32", family="root", in_torch="torch", in_cells=True
)


@unary(infer_floating, np.exp, vjp=lambda g, y, x: g * y, onnx="Exp")
def exp(x: Tensor) -> Tensor:
    """e to the power of x. ATen exp, ONNX Exp-13."""


exp.traits = Traits(elementwise=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(infer_floating, np.expm1, vjp=in_float32(lambda g, y, x: g * (y + 1.0)), onnx=from_writer(float64_forms.expm1))
def expm1(x: Tensor) -> Tensor:
    """exp(x) - 1, accurate near 0. ATen expm1."""


expm1.traits = Traits(elementwise=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(infer_floating, np.log, vjp=lambda g, y, x: g / x, onnx="Log")
def log(x: Tensor) -> Tensor:
    """Natural logarithm. ATen log, ONNX Log-13."""


log.traits = Traits(elementwise=True, pole=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(infer_floating, np.log1p, vjp=in_float32(lambda g, y, x: g / (x + 1.0)), onnx=from_writer(float64_forms.log1p))
def log1p(x: Tensor) -> Tensor:
    """log(1 + x), accurate near 0. ATen log1p."""


log1p.traits = Traits(elementwise=True, pole=True, mixed_precision="float32", in_torch="torch", in_cells=True)


def _scaled_log(base: float) -> Rule:
    return from_writer(lambda w, x: w("Div", w("Log", x), math.log(base)))


@unary(infer_floating, np.log2, vjp=in_float32(lambda g, y, x: g / (x * math.log(2.0))), onnx=_scaled_log(2.0))
def log2(x: Tensor) -> Tensor:
    """Logarithm to base 2. ATen log2."""


log2.traits = Traits(elementwise=True, pole=True, mixed_precision="float32", in_torch="torch", in_cells=True)


@unary(infer_floating, np.log10, vjp=in_float32(lambda g, y, x: g / (x * math.log(10.0))), onnx=_scaled_log(10.0))
def log10(x: Tensor) -> Tensor:
    """Logarithm to base 10. ATen log10."""


log10.traits = Traits(elementwise=True, pole=True, mixed_precision="float32", in_torch="torch", in_cells=True)


def _sigmoid_kernel(x: Array) -> Array:
    result: Array = np.asarray(np.negative(x))
    np.exp(result, out=result)  # inf for a large -x, whose reciprocal is correctly 0
    result += 1
    np.reciprocal(result, out=result)
    return result


@unary(infer_floating, _sigmoid_kernel, vjp=in_float32(lambda g, y, x: g * (y * (1.0 - y))), onnx="Sigmoid")
def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)). ATen sigmoid, ONNX Sigmoid-13."""


sigmoid.traits = Traits(elementwise=True, family="activation", in_torch="torch", in_cells=True)


def _erf_derivative(x: Tensor) -> Any:
    """The derivative of erf: 2 / sqrt(pi) * exp(-x**2)."""
    return exp(-(x * x)) * (2.0 / math.sqrt(math.pi))


@unary(
    infer_floating,
    error_function.erf,
    vjp=in_float32(lambda g, y, x: g * _erf_derivative(x)),
    onnx=or_float64("Erf", float64_forms.erf),
)
def erf(x: Tensor) -> Tensor:
    """2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x. ATen erf, ONNX Erf-13."""


erf.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


@unary(
    infer_floating,
    error_function.erfc,
    vjp=in_float32(lambda g, y, x: -(g * _erf_derivative(x))),
    onnx=from_writer(float64_forms.erfc),
)
def erfc(x: Tensor) -> Tensor:
    """1 - erf(x), accurate where erf(x) is close to 1. ATen erfc."""


erfc.traits = Traits(elementwise=True, in_torch="torch", in_cells=True)


# ---- choice and conversion ----


@operator
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`a` where the bool `condition` is true, `b` elsewhere; all three broadcast. ATen where.self, ONNX Where-16."""


where.traits = Traits(elementwise=True, moves="several", wider_integers="most", bfloat16_kernel=False)


@where.infer
def _(condition: Type, a: Type, b: Type) -> Type:
    require(condition.dtype == BOOL, f"needed a bool condition, given {condition}; cast first")
    require_same_dtype(a, b)
    return a.with_shape(broadcast_shapes(condition.shape, a.shape, b.shape))


@where.native_kernel
def _(condition: Array, a: Array, b: Array) -> Array:
    return np.where(condition, a, b)


@where.vjp
def _(g: Tensor, y: Tensor, condition: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor | None, ...]:
    if not is_floating(a.dtype):
        return None, None, None
    return None, unbroadcast(where(condition, g, zero(g)), a), unbroadcast(where(condition, zero(g), g), b)


@where.onnx
def _(graph: OnnxGraph, condition: str, a: str, b: str) -> str:
    if graph.type(a).dtype == BOOL:  # ONNX Runtime's Where doesn't support bool
        chosen = graph.op("And", condition, a), graph.op("And", graph.op("Not", condition), b)
        return str(graph.op("Or", *chosen))
    return str(graph.op("Where", condition, a, b))


@operator
def clamp(x: Tensor, *, minimum: float | None = None, maximum: float | None = None, inclusive: bool = True) -> Tensor:
    """`x` clipped to two bounds (None: no bound); `maximum` takes precedence if the bounds cross.

    The gradient passes between the bounds, and at them if `inclusive`. ATen clamp, which is inclusive up to torch 2.13;
    ONNX Clip-13.
    """


clamp.traits = Traits(elementwise=True, exact=True, wider_integers="most")


@clamp.infer
def _(x: Type, *, minimum: float | None, maximum: float | None, inclusive: bool) -> Type:
    bounds = [bound for bound in (minimum, maximum) if bound is not None]
    require(
        is_floating(x.dtype) or all(float(bound).is_integer() for bound in bounds),
        f"needed integer bounds for {x.dtype.name}, given minimum {minimum} and maximum {maximum}; cast first",
    )
    return infer_numeric(x)


@clamp.kernel
def _(x: Array, *, minimum: float | None, maximum: float | None, inclusive: bool) -> Array:
    kind = float if is_floating(x.dtype) else int
    result = x
    if minimum is not None:
        result = np.maximum(result, kind(minimum))
    if maximum is not None:
        result = np.minimum(result, kind(maximum))
    return result


@clamp.vjp
def _(
    g: Tensor, y: Tensor, x: Tensor, *, minimum: float | None, maximum: float | None, inclusive: bool
) -> Tensor | None:
    if not is_floating(x.dtype):
        return None
    above, below = (comparison.greater_equal, comparison.less_equal) if inclusive else _STRICTLY
    if minimum is not None:
        g = where(above(x, minimum), g, zero(g))
    if maximum is not None:
        g = where(below(x, maximum), g, zero(g))
    return g


_STRICTLY = comparison.greater, comparison.less


@clamp.onnx
def _(graph: OnnxGraph, x: str, *, minimum: float | None, maximum: float | None, inclusive: bool) -> str:
    dtype = graph.type(x).dtype
    if is_floating(dtype):  # without a bound, ONNX Runtime clips at the largest finite number
        minimum = -np.inf if minimum is None else minimum
        maximum = np.inf if maximum is None else maximum
    if dtype == INT64:
        x = x if minimum is None else onnx_larger(graph, x, graph.constant(minimum, dtype), dtype)
        return x if maximum is None else onnx_smaller(graph, x, graph.constant(maximum, dtype), dtype)
    bounds = ["" if bound is None else graph.constant(bound, dtype) for bound in (minimum, maximum)]
    return str(graph.op("Clip", x, *bounds))


@operator
def cast(x: Tensor, *, dtype: np.dtype[Any]) -> Tensor:
    """`x` in another dtype: floats are truncated to integers, nonzero numbers are True. ATen _to_copy, ONNX Cast-19.

    For 8-bit floats, see `float8`.
    """


cast.traits = Traits(elementwise=True, exact=True, mixed_precision="as given")


@cast.infer
def _(x: Type, *, dtype: np.dtype[Any]) -> Type:
    return x.with_dtype(as_dtype(dtype))


@cast.native_kernel
def _(x: Array, *, dtype: np.dtype[Any]) -> Array:
    return to_float8(x, dtype) if is_float8(dtype) and x.dtype != dtype else x.astype(dtype, copy=False)


@cast.vjp
def _(g: Tensor, y: Tensor, x: Tensor, *, dtype: np.dtype[Any]) -> Rule:
    return lambda: cast(g, dtype=x.dtype)


@cast.onnx
def _(graph: OnnxGraph, x: str, *, dtype: np.dtype[Any]) -> str:
    return cast_to_float8(graph, x, dtype) if is_float8(dtype) else graph.cast(x, dtype)
