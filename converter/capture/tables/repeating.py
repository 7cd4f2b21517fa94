"""ATen elementwise functions whose number of steps depends on the operands: loops of the IR.

Orthogonal polynomials by their recurrences (NIST Digital Library of Mathematical Functions 18.9), and the greatest
common divisor by Euclid's algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.ir.dims import product
from ....runtime.ir.types import BOOL, FLOAT64, INT64
from ....runtime.ops import comparison, elementwise, reduction, rounding, shaping, slicing
from ....runtime.ops.common import broadcast_shapes
from ....runtime.ops.higher_order import loops
from ....runtime.ops.higher_order.subprogram_rules import as_tuple
from ....runtime.programs.subprograms import trace_subprogram
from ....runtime.tracing import SymbolicTensor
from .table import Context, aten, cast, operands

First = Callable[[Any], Any]
Next = Callable[[Any, Any, Any, Any], Any]

MAX_STEPS = 2**62


def repeat_until(
    context: Context,
    step: Callable[..., Sequence[Any]],
    limit: SymbolicTensor,
    state: Sequence[SymbolicTensor],
    *constants: SymbolicTensor,
) -> tuple[SymbolicTensor, ...]:
    """Run `step` at most `limit` times: `step` takes its number, the state and the constant operands.

    It returns whether to continue, and the new state.
    """
    types = [limit.value.type, *(x.value.type for x in (*state, *constants))]
    body = trace_subprogram(step, types, "steps")
    starts = context.builder.constant(True, BOOL)
    return as_tuple(loops.loop(limit, starts, *state, *constants, body=body, carried=len(state)))


# ---- orthogonal polynomials ----


def _double(x: Any) -> Any:
    return x + x


def _chebyshev(k: Any, x: Any, q: Any, p: Any) -> Any:
    return _double(x) * q - p


# For each family, functions that give the polynomial of degree 1, and the polynomial of degree k + 1 from k, x and the
# polynomials of degrees k and k - 1. The polynomial of degree 0 is 1.
POLYNOMIALS: dict[str, tuple[First, Next]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (_double, _chebyshev),
    "chebyshev_polynomial_v": (lambda x: _double(x) - 1.0, _chebyshev),
    "chebyshev_polynomial_w": (lambda x: _double(x) + 1.0, _chebyshev),
    "hermite_polynomial_h": (_double, lambda k, x, q, p: _double(x * q - k * p)),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, q, p: x * q - k * p),
    "laguerre_polynomial_l": (
        lambda x: 1.0 - x,
        lambda k, x, q, p: ((_double(k) + 1.0 - x) * q - k * p) / (k + 1.0),
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda k, x, q, p: ((_double(k) + 1.0) * x * q - k * p) / (k + 1.0),
    ),
}
SHIFTED = ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w")
HIGHEST_HERMITE = {FLOAT64: 512}  # above it, ATen returns NaN; 128 for the narrower dtypes


def _polynomial(name: str, first: First, following: Next, shifted: bool) -> None:
    entry = f"special_{'shifted_' if shifted else ''}{name}"

    @aten(f"aten.{entry}.default", f"aten.{entry}.x_scalar", f"aten.{entry}.n_scalar")
    def translation(context: Context, x: Any, n: Any) -> Any:
        x, n = operands(context, context.dtype, x, n)
        shape = broadcast_shapes(x.shape, n.shape)
        x, n = (shaping.expand(t, shape=shape) for t in (cast(x, FLOAT64), cast(n, INT64)))
        value = evaluate(context, first, following, x * 2.0 - 1.0 if shifted else x, n)
        if "hermite" in name:
            beyond, nan = operands(context, INT64, HIGHEST_HERMITE.get(context.dtype, 128))[0], float("nan")
            value = elementwise.where(comparison.greater(n, beyond), *operands(context, FLOAT64, nan), value)
        return cast(value, context.dtype)

    translation.__name__ = entry
    translation.__doc__ = f"{entry}(Tensor x, Tensor n) -> Tensor"


def evaluate(context: Context, first: First, following: Next, x: SymbolicTensor, n: SymbolicTensor) -> Any:
    """Evaluate the polynomials of degrees `n` (int64, the shape of `x`) at `x`; 0 for a negative degree."""
    zero, one = operands(context, FLOAT64, 0.0, 1.0)
    nothing, single = operands(context, INT64, 0, 1)
    linear, constant = first(x), x * 0.0 + 1.0
    lowest = elementwise.where(comparison.equal(n, nothing), one, zero)
    value = elementwise.where(comparison.greater(n, nothing), linear, lowest)

    def step(i: Any, value: Any, q: Any, p: Any, x: Any, n: Any) -> tuple[Any, ...]:
        k = i + 1
        r = following(elementwise.cast(k, dtype=FLOAT64), x, q, p)
        return i.builder.constant(True, BOOL), elementwise.where(comparison.greater(n, k), r, value), r, q

    degrees = shaping.reshape(n, shape=(product(n.shape),))
    highest = reduction.reduce_max(slicing.concat(degrees, shaping.reshape(single, shape=(1,)), axis=0))
    return repeat_until(context, step, highest - single, [value, linear, constant], x, n)[0]


for _name, (_first, _next) in POLYNOMIALS.items():
    _polynomial(_name, _first, _next, shifted=False)
for _name in SHIFTED:
    _polynomial(_name, *POLYNOMIALS[_name], shifted=True)


# ---- integers ----


@aten("aten.gcd.default")
def gcd(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """gcd(Tensor self, Tensor other) -> Tensor"""
    return _greatest_common_divisor(context, *_broadcast(context, self, other))


@aten("aten.lcm.default")
def lcm(context: Context, self: SymbolicTensor, other: SymbolicTensor) -> Any:
    """lcm(Tensor self, Tensor other) -> Tensor"""
    a, b = _broadcast(context, self, other)
    (one,) = operands(context, context.dtype, 1)
    divisor = elementwise.maximum(_greatest_common_divisor(context, a, b), one)
    return elementwise.abs(rounding.floor_divide(a, divisor) * b)


def _broadcast(context: Context, *values: SymbolicTensor) -> list[Any]:
    return [shaping.expand(x, shape=context.shape) for x in operands(context, context.dtype, *values)]


def _greatest_common_divisor(context: Context, a: SymbolicTensor, b: SymbolicTensor) -> Any:
    def step(i: Any, a: Any, b: Any) -> tuple[Any, ...]:
        zero, one = (i.builder.constant(number, a.dtype) for number in (0, 1))
        done = comparison.equal(b, zero)
        rest = rounding.remainder(a, elementwise.where(done, one, b))
        kept, rest = elementwise.where(done, a, b), elementwise.where(done, zero, rest)
        return reduction.reduce_any(comparison.not_equal(rest, zero)), kept, rest

    (limit,) = operands(context, INT64, MAX_STEPS)
    return elementwise.abs(repeat_until(context, step, limit, [a, b])[0])
