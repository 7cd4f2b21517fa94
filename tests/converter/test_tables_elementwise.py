"""ATen elementwise functions, comparisons and logic against torch."""

from __future__ import annotations

import pytest
import torch

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=RNG, dtype=torch.float64)


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=RNG, dtype=torch.float64) * 2 + 0.2


def unit(*shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=RNG, dtype=torch.float64) * 1.8 - 0.9


def whole(*shape: int) -> torch.Tensor:
    return torch.randint(-5, 6, shape, generator=RNG)


X, Y, P, U = normal(3, 4), normal(3, 4), positive(3, 4), unit(3, 4)
ROW = normal(4)
ZERO_DIM = torch.tensor(0.7, dtype=torch.float64)
N, M = whole(3, 4), whole(3, 4).clamp(min=1)
INF, NAN = float("inf"), float("nan")
ODD = torch.tensor([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, 2.5], dtype=torch.float64)
BITS = torch.tensor([[True, False, True], [False, False, True]])
OTHER_BITS = torch.tensor([True, True, False])


FUNCTIONS = [
    "abs", "acos", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
    "floor", "frac", "neg", "round", "sgn", "sigmoid", "sign", "sin", "sinh", "square", "tan", "tanh", "trunc",
]  # fmt: skip
FUNCTIONS_OF_POSITIVE_NUMBERS = ["acosh", "log", "log10", "log1p", "log2", "reciprocal", "rsqrt", "sqrt"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.every(3)
def test_functions(check, dtype):
    def functions(u, p):
        return [getattr(torch, name)(u) for name in FUNCTIONS] + [
            getattr(torch, name)(p) for name in FUNCTIONS_OF_POSITIVE_NUMBERS
        ]

    check(functions, U, P + 1, dtype=dtype, gradients=dtype != torch.float16)


def test_logit(check):
    check(lambda u: (torch.logit(u.abs() + 0.05), torch.logit(u, eps=0.1)), U)


def test_gradients_where_formulas_divide_by_zero(check):
    x = torch.tensor([0.0, 0.5, -2.0], dtype=torch.float64)
    check(lambda x, y: (torch.sinc(x), torch.atan2(x, y), torch.atan2(x, 0.0 * y)), x, x.clone())
    check(torch.sinc, x, dtype=torch.float16)


def test_functions_of_integers(check):
    check(
        lambda n: (n.abs(), -n, n.sign(), n.floor(), n.round(), n.exp(), n.sqrt(), n.square(), n.sigmoid(), n.float()),
        N,
        tolerance=1e-6,
    )


def test_round_to_decimals(check):
    check(lambda x: (torch.round(x, decimals=2), torch.round(x * 100, decimals=-1)), X)


def test_special_values(check):
    check(lambda x: (x.abs(), x.sgn(), x.exp(), x.relu(), x.tanh(), x.sigmoid(), x.round()), ODD, gradients=False)
    check(lambda x: (x.isnan(), x.isinf(), x.isfinite(), x.nan_to_num(), x.nan_to_num(1.0, 2.0, -3.0)), ODD)


@pytest.mark.parametrize("other", [Y, ROW, ZERO_DIM, normal(5, 1, 1)], ids=["same", "row", "scalar", "outer"])
@pytest.mark.every(3)
def test_arithmetic(check, other):
    def functions(x, y):
        return [
            x + y, x - y, x * y, x / y, x + 1, 2 - x, x * 3, 1 / y, x - 0.1, x / 7, torch.add(x, y, alpha=2.5),
            torch.sub(x, y, alpha=3), torch.rsub(x, y, alpha=2), torch.true_divide(x, y), torch.maximum(x, y),
            torch.minimum(x, y), torch.max(x, y), torch.fmax(x, y), torch.fmin(x, y),
            torch.fmax(x, x.detach()), torch.fmax(x.detach(), x), torch.fmin(x, x.detach()), torch.atan2(x, y),
            torch.hypot(x, y), torch.logaddexp(x, y), torch.lerp(x, y, 0.3), torch.addcmul(x, x, y, value=0.5),
            torch.addcdiv(x, x, y, value=2), torch.lerp(x, y, y.sigmoid()),
        ]  # fmt: skip

    check(functions, X, other)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.every(2)
def test_numbers_that_half_precision_rounds(check, dtype):
    """torch multiplies and divides by them as they are, and adds them rounded; addcmul and the like round once."""

    def functions(x, y):
        return [
            x * 1.1, 0.3 * x, x * -1e9, x * 1e-8, x / 0.3, x / 1e5, 1e5 / x, x // 0.3, x * 0.5,
            torch.div(x, 0.3, rounding_mode="floor"), torch.div(x, 0.3, rounding_mode="trunc"),
            x + 1.1, x - 0.3, 0.3 - x, torch.rsub(x, 1.1), torch.add(x, y, alpha=0.3), x.abs() ** 1.1, 3.3**x,
        ]  # fmt: skip

    check(functions, torch.cat([X.flatten(), torch.tensor([0.0])]), torch.cat([Y.flatten(), torch.tensor([1.0])]),
          dtype=dtype, tolerance=0, gradients=False)  # fmt: skip
    check(lambda x: (x * 1.1, x / 0.3, x * -1e-4), X, dtype=dtype, tolerance=1e-6 if dtype == torch.float16 else 1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.every(2)
def test_steps_that_round_once(check, dtype):
    def functions(x, y, p):
        return [
            torch.addcmul(x, y, y), torch.addcmul(x, x, y, value=0.3), torch.addcdiv(x, y, p, value=1.1),
            torch.lerp(x, y, 0.3), torch.lerp(x, y, 0.4 * p), torch.hypot(x, y), torch.logaddexp(x, y),
        ]  # fmt: skip

    check(functions, X, Y, P / P.max(), dtype=dtype, tolerance=0, gradients=False)
    check(lambda x: torch.addcmul(-x, x, x), torch.tensor([300.0]), dtype=torch.float16, gradients=False)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.every(2)
def test_lengths_whose_squares_are_out_of_range(check, dtype):
    sizes = [300.0, 1e-5] if dtype == torch.float16 else [1e30, 1e-30]
    check(lambda x, y: torch.hypot(x, y), torch.tensor([*sizes, 0.5, INF]), torch.tensor([*sizes, 0.0, 1.0]),
          dtype=dtype, gradients=False)  # fmt: skip
    check(torch.hypot, torch.tensor([*sizes, 0.0]), torch.tensor([*sizes, 0.0]), dtype=dtype)


def test_a_factor_without_dimensions_is_not_rounded(check):
    """A parameter in float32 beside a tensor in half precision, as after `module.half()` but for one."""
    check(lambda x: x.half() * torch.tensor(1.1), X, tolerance=0, gradients=False)


@pytest.mark.parametrize("mode", ["floor", "trunc", None])
def test_division_with_rounding(check, mode):
    check(lambda x, y: (torch.div(x, y, rounding_mode=mode), torch.div(x, 0.3, rounding_mode=mode)), X, Y)
    check(lambda n, m: (torch.div(n, m, rounding_mode=mode), torch.div(n, -3, rounding_mode=mode)), N, M)


def test_remainders(check):
    check(lambda x, y: (torch.fmod(x, y), torch.remainder(x, y), x % 0.7, torch.fmod(x, -0.7)), X, Y)
    check(lambda x, y: (x // y, x // 0.3), X, Y, gradients=False)
    check(lambda n, m: (torch.fmod(n, m), torch.remainder(n, -m), n % 3, n // m, n // -2), N, M, gradients=False)


def test_powers_by_a_number(check):
    check(lambda p: [p**exponent for exponent in (-2, -1, -0.5, 0, 0.5, 1, 2, 3, 2.5, 4)], P)


def test_powers(check):
    check(lambda p, x: (p**x, 2.0**x, torch.pow(p, 2 * x)), P, X)
    check(lambda x: (x**2, x**3), torch.cat([X.flatten(), torch.zeros(1, dtype=torch.float64)]))
    check(lambda n, m: (n**2, n**m, 2**m, n**2.0, n.pow(0.5).nan_to_num()), N, M, gradients=False)


def test_xlogy(check):
    zeros = torch.tensor([0.0, 0.0, 2.0], dtype=torch.float64)
    check(lambda x, y: (torch.xlogy(x, y), torch.xlogy(0.0, y), torch.xlogy(x, 2.0)), zeros, positive(3))


@pytest.mark.parametrize("other", [N.double(), M, torch.tensor(3), torch.tensor(2.5), BITS[:1, :1]], ids=str)
@pytest.mark.every(3)
def test_type_promotion(check, other):
    def function(x, y):
        return x + y, y * x, x > y, torch.where(x > 0, x, y), x + y.float(), y * 2.5, y + 1

    check(function, X, other, tolerance=1e-6)
    check(function, N, other, tolerance=1e-6)


def test_bounds(check):
    bounds = torch.tensor([-0.5, 0.5, 0.0], dtype=torch.float64)
    check(lambda x: (x.clamp(-0.5, 0.5), x.clamp(min=0), x.clamp(max=0.0), x.clamp_min(-1), x.clamp_max(1)), bounds)
    check(lambda x, y: (x.clamp(-y.abs(), y.abs()), x.clamp_min(y), x.clamp_max(y), torch.clip(x, max=y)), X, ROW)
    check(lambda n: (n.clamp(-2, 3), n.clamp(min=0), n.clamp(min=0.5)), N)


def test_choice(check):
    check(
        lambda x, y: (
            torch.where(x > 0, x, y),
            torch.where(x > y, 1.0, y),
            torch.where(x > 0, x, 0),
            torch.where(x > 0, 1, 2),
        ),
        X,
        ROW,
    )
    check(lambda x, y: (x.masked_fill(x > 0, 2), x.masked_fill(x > y, -INF), x.masked_fill(x < 0, y.sum())), X, ROW)


@pytest.mark.parametrize("x", [X, N], ids=["float", "integer"])
@pytest.mark.every(2)
def test_comparisons(check, x):
    def functions(x, y, n, scalar):
        return [
            (x == other, x != other, x < other, x <= other, x > other, x >= other) for other in (y, n, 0, 0.5, scalar)
        ]

    check(functions, x, Y, N, torch.tensor(0))


def test_isclose(check):
    check(lambda x: (torch.isclose(x, x + 1e-7), torch.isclose(x, x * 1.1)), X)


def test_logic(check):
    check(lambda a, b: (a & b, a | b, a ^ b, ~a, a.logical_and(b), a.logical_or(b), a.logical_xor(b), ~b, a + b, a * b),
          BITS, OTHER_BITS)  # fmt: skip
    check(lambda x, n: (x.logical_not(), x.logical_and(n), n.logical_or(x), n & 3, n | 1, n ^ 2, ~n), X, N)
    check(lambda n: (n << 2, n >> 1, torch.bitwise_and(n, n + 1), 5 & n), M)


def test_sizes_as_numbers(check):
    batch = torch.export.Dim("batch", min=2, max=50)
    check(
        lambda x: (x / x.shape[0], x * x.shape[0] + x.shape[0] // 2, x.clamp(max=x.shape[0]), x > x.shape[0]),
        X,
        dynamic_shapes=[{0: batch}],
        others=(normal(7, 4),),
    )
