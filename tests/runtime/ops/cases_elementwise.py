"""Cases of `elementwise`, `trigonometry` and `rounding`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from cellbridge.converter.torch_version import has_change
from tests.runtime.ops.cases import OpCase

Array = np.ndarray[Any, Any]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def between(low: float, high: float, *shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(low, high, size=shape)


def integers(low: int, high: int, *shape: int, seed: int = 0, dtype: Any = np.int64) -> Array:
    return np.random.default_rng(seed).integers(low, high, size=shape).astype(dtype)


def bools(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 2, size=shape).astype(bool)


def unary(
    op: str, x: Array, judge: Callable[..., Any] | None = None, name: str = "", differentiable: bool = True
) -> OpCase:
    smooth = differentiable and x.dtype.kind == "f"
    return OpCase(op, (x,), torch=judge or getattr(torch, op), name=name, differentiable=smooth)


def binary(
    op: str, a: Array, b: Array, judge: Callable[..., Any] | None = None, name: str = "", differentiable: bool = True
) -> OpCase:
    smooth = differentiable and a.dtype.kind == "f"
    return OpCase(op, (a, b), torch=judge or getattr(torch, op), name=name, differentiable=smooth)


NUMBERS = normal(3, 4)
POSITIVE = between(0.1, 4.0, 3, 4)
INSIDE = between(-0.9, 0.9, 3, 4)
INFINITE = np.array([-np.inf, -1.0, 1.0, np.inf])
SIGNED_ZEROS = np.array([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5])
TIES = np.array([[1.0, 2.0, -3.0], [0.0, 5.0, 2.0]]), np.array([[1.0, -2.0, -3.0], [0.5, 5.0, 4.0]])
WHOLE = integers(-9, 10, 3, 4)
DIVISORS = integers(1, 5, 3, 4, seed=1) * np.where(bools(3, 4, seed=2), 1, -1)


def arithmetic() -> list[OpCase]:
    cases = []
    for op, judge in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div)):
        b = POSITIVE[0] if op == "div" else normal(4, seed=1)
        cases.append(binary(op, NUMBERS, b, judge))
        cases.append(binary(op, normal(3, 1, 4), b[:1].reshape(1, 1), judge, "broadcast-both"))
        cases.append(binary(op, normal(), b.reshape(2, 2), judge, "scalar"))
        if op != "div":
            cases.append(binary(op, WHOLE, DIVISORS, judge, "int64"))
            cases.append(binary(op, WHOLE.astype(np.int32), DIVISORS.astype(np.int32), judge, "int32"))
    for op, judge in (("add", torch.add), ("mul", torch.mul), ("maximum", torch.maximum), ("minimum", torch.minimum)):
        cases.append(binary(op, bools(2, 8), bools(2, 8, seed=1), judge, "bool"))
    for op in ("maximum", "minimum"):
        cases.append(binary(op, NUMBERS, normal(4, seed=1)))
        cases.append(binary(op, *TIES, name="ties"))
        cases.append(binary(op, WHOLE, DIVISORS, name="int64"))
        cases.append(binary(op, np.array([np.nan, 1.0, np.nan]), np.array([1.0, np.nan, np.nan]), name="nan",
                            differentiable=False))  # fmt: skip
    return cases


def powers() -> list[OpCase]:
    return [
        binary("pow", POSITIVE, normal(4, seed=1)),
        *(binary("pow", NUMBERS, np.array(float(n)), name=f"exponent {n}") for n in (-1, 0, 1, 2, 3, 4)),
        binary("pow", POSITIVE, np.array(0.5), name="exponent 0.5"),
        OpCase(
            "pow",
            (np.array([0.0, 0.0, 2.0]), np.array([2.0, 3.0, 0.0])),
            torch=torch.pow,
            name="zeros",
            differentiable=False,  # test_elementwise.py: a base below 0 has no neighbours to take differences of
        ),
        binary("pow", WHOLE, integers(0, 5, 4), name="int64"),
        binary("pow", np.array([1, -1, -1, 2, -3]), np.array([-2, -2, -3, -1, -2]), name="negative int64"),
    ]


def functions() -> list[OpCase]:
    cases = [
        unary(op, NUMBERS) for op in ("neg", "exp", "expm1", "sin", "cos", "sinh", "cosh", "tanh", "asinh", "atan")
    ]
    cases += [unary(op, NUMBERS) for op in ("sigmoid", "erf", "erfc", "abs")]
    cases += [unary(op, POSITIVE) for op in ("log", "log1p", "log2", "log10", "sqrt", "rsqrt", "reciprocal")]
    cases += [unary(op, INSIDE) for op in ("asin", "acos", "atanh", "tan")]
    cases += [
        unary("acosh", POSITIVE + 1.0),
        unary("sign", NUMBERS, torch.sign),
        unary("sign", SIGNED_ZEROS, torch.sign, "zeros", differentiable=False),
        unary("abs", SIGNED_ZEROS, name="zeros"),
        unary("sign", WHOLE, torch.sign, "int64"),
        unary("neg", WHOLE, name="int64"),
        unary("abs", WHOLE, name="int64"),
        unary("sigmoid", np.array([-800.0, -80.0, -1.0, 0.0, 80.0, 800.0]), name="large"),
        *(unary(op, between(-6.0, 6.0, 5, 9), name="wide") for op in ("erf", "erfc", "sinh", "asinh", "atan")),
        *(
            unary(op, between(-1e-4, 1e-4, 9), name="small")
            for op in ("expm1", "log1p", "erf", "sinh", "asinh", "atanh")
        ),
        *(unary(op, np.array(0.4), name="scalar") for op in ("exp", "rsqrt", "sigmoid", "erf", "erfc", "tanh")),
        binary("atan2", normal(3, 4), normal(4, seed=1)),
        binary("atan2", np.array([0.0, 1.0, -1.0, 0.0]), np.array([2.0, 0.0, 0.0, -2.0]), name="axes"),
        binary(
            "atan2",
            np.array([0.0, -0.0, 0.0, -0.0, 0.0, -0.0, -np.inf]),
            np.array([-2.0, -2.0, -0.0, -0.0, 0.0, 0.0, -1.0]),
            name="signed zeros",
            differentiable=False,
        ),
    ]
    return cases


def rounding() -> list[OpCase]:
    cases = [unary(op, SIGNED_ZEROS) for op in ("floor", "ceil", "round", "trunc")]
    away = between(0.3, 2.7, 3, 4) * np.sign(NUMBERS)
    for op in ("floor_divide", "remainder", "fmod"):
        cases.append(binary(op, NUMBERS * 5, away, differentiable=op != "floor_divide"))
        cases.append(binary(op, WHOLE, DIVISORS, name="int64"))
        cases.append(binary(op, WHOLE.astype(np.int32), DIVISORS.astype(np.int32), name="int32"))
    edges = np.array([1.0, -1.0, 0.0, 5.0, -5.0]), np.array([0.0, 0.0, 0.0, -2.5, 2.5])
    cases += [binary(op, *edges, name="zero divisors", differentiable=False) for op in ("floor_divide", "remainder")]
    return cases


def choices() -> list[OpCase]:
    def to(dtype: torch.dtype) -> Callable[..., Any]:
        return lambda x: x.to(dtype)

    return [
        OpCase("where", (bools(3, 4), NUMBERS, normal(4, seed=1)), torch=torch.where),
        OpCase("where", (bools(3, 1), normal(4), normal(2, 1, 1, seed=1)), torch=torch.where, name="broadcast"),
        OpCase("where", (bools(3, 4), WHOLE, DIVISORS), torch=torch.where, name="int64", differentiable=False),
        OpCase(
            "where",
            (bools(8), bools(8, seed=1), bools(8, seed=2)),
            torch=torch.where,
            name="bool",
            differentiable=False,
        ),
        OpCase("clamp", (NUMBERS,), {"minimum": -0.5, "maximum": 0.5}, lambda x: torch.clamp(x, -0.5, 0.5)),
        OpCase("clamp", (NUMBERS,), {"minimum": 0.25}, lambda x: torch.clamp(x, min=0.25), "minimum"),
        OpCase("clamp", (NUMBERS,), {"maximum": 0.25}, lambda x: torch.clamp(x, max=0.25), "maximum"),
        OpCase(
            "clamp",
            (SIGNED_ZEROS,),
            {"minimum": -0.5, "maximum": 1.5, "inclusive": not has_change("gradient at bounds")},
            lambda x: torch.clamp(x, -0.5, 1.5),
            "bounds",
        ),
        OpCase("clamp", (INFINITE,), {"minimum": 0.25}, lambda x: x.clamp(min=0.25), "minimum_of_infinity", False),
        OpCase("clamp", (INFINITE,), {"maximum": 0.25}, lambda x: x.clamp(max=0.25), "maximum_of_infinity", False),
        OpCase("clamp", (NUMBERS,), {"minimum": 1.0, "maximum": -1.0}, lambda x: torch.clamp(x, 1.0, -1.0), "crossed"),
        OpCase("clamp", (WHOLE,), {"minimum": -2, "maximum": 3}, lambda x: torch.clamp(x, -2, 3), "int64", False),
        OpCase("cast", (NUMBERS * 9,), {"dtype": np.dtype(np.float32)}, to(torch.float32), "float32"),
        OpCase("cast", (NUMBERS * 9,), {"dtype": np.dtype(np.float16)}, to(torch.float16), "float16", False),
        OpCase("cast", (NUMBERS * 9,), {"dtype": np.dtype(np.int64)}, to(torch.int64), "int64", False),
        OpCase("cast", (SIGNED_ZEROS,), {"dtype": np.dtype(bool)}, to(torch.bool), "bool", False),
        OpCase("cast", (WHOLE,), {"dtype": np.dtype(np.float64)}, to(torch.float64), "from int64", False),
        OpCase("cast", (bools(8),), {"dtype": np.dtype(np.float32)}, to(torch.float32), "from bool", False),
    ]


CASES = [*arithmetic(), *powers(), *functions(), *rounding(), *choices()]
