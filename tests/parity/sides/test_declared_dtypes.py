"""The float64 run tells code the dtypes that its tensors have in the working dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from cellbridge.parity.sides.precision import DoublePrecision

EXPRESSIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "itself": lambda x: x.dtype,
    "a view": lambda x: x[0].T.dtype,
    "in place": lambda x: x.clone().add_(torch.ones(3)).dtype,
    "of integers": lambda x: (torch.arange(3) / 2).dtype,
    "with integers": lambda x: (x * torch.arange(3)).dtype,
    "a comparison": lambda x: (x > 0).dtype,
    "made without a dtype": lambda x: torch.zeros(3).dtype,
    "promoted": lambda x: (x * torch.zeros(3)).dtype,
    "promoted without dimensions": lambda x: (x * torch.zeros(())).dtype,
    "cast to half": lambda x: (x.half() + 1).dtype,
    "cast to float32": lambda x: x.float().relu().dtype,
    "cast to float64": lambda x: (x.double() @ torch.ones(3, dtype=torch.float64)).dtype,
    "cast by `to`": lambda x: x.to(torch.bfloat16).mean(0).dtype,
    "cast to another's dtype": lambda x: torch.zeros(3).to(x).dtype,
    "cast by `type_as`": lambda x: x.float().type_as(x).dtype,
    "cast by `softmax`": lambda x: F.softmax(x, -1, dtype=torch.float32).dtype,
    "cast by `sum`": lambda x: x.sum(dtype=torch.float64).dtype,
    "like": lambda x: torch.zeros_like(x.float()).dtype,
    "numbers": lambda x: torch.tensor([0.1]).dtype,
    "numbers in a dtype": lambda x: torch.tensor([0.1], dtype=torch.float16).dtype,
    "new numbers": lambda x: x.new_tensor([0.1]).dtype,
    "old constructor": lambda x: torch.Tensor([0.1]).dtype,
    "old constructor, changed": lambda x: torch.Tensor(3).copy_(x[0]).dtype,
    "a method of old": lambda x: x.new([0.1]).dtype,
    "an array": lambda x: torch.from_numpy(np.ones(3, np.float32)).add_(x[0]).dtype,
    "complex numbers": lambda x: torch.tensor([0.1j]).dtype,
    "parts of complex numbers": lambda x: torch.complex(x.float(), x.float()).real.dtype,
    "the default": lambda x: torch.get_default_dtype(),
    "the type of a result": lambda x: torch.result_type(x, 1.0),
    "promoted types": lambda x: torch.promote_types(x.dtype, torch.float32),
    "a limit": lambda x: torch.finfo(x.dtype).max,
    "a limit of float64": lambda x: torch.finfo(torch.float64).tiny,
    "the default's eps": lambda x: torch.finfo().eps,
}


@pytest.mark.parametrize("working", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_dtypes_are_those_of_the_working_run(expression: str, working: torch.dtype) -> None:
    compute = EXPRESSIONS[expression]
    expected = compute(torch.ones(2, 3, dtype=working))
    x = torch.ones(2, 3, dtype=torch.float64)
    with DoublePrecision(working):
        result = compute(x)
    assert result == expected


def test_kept_dtypes_are_told() -> None:
    table, x = torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    with DoublePrecision(torch.float32, {table: torch.float16}):
        assert [table.dtype, x.dtype, (table * 2).dtype, (table * x).dtype] == [
            torch.float16, torch.float32, torch.float16, torch.float32,
        ]  # fmt: skip


def test_results_are_of_float64_all_the_same() -> None:
    x = torch.ones(3, dtype=torch.float64)
    with DoublePrecision(torch.bfloat16):
        results = [x.float(), torch.tensor([0.1]), torch.zeros(3, dtype=x.dtype), x.to(torch.float16), torch.ones(3)]
    assert {result.dtype for result in results} == {torch.float64}


def test_a_changed_array_is_narrow_again_after_the_run() -> None:
    array = np.zeros(3, np.float32)
    held = torch.from_numpy(array)
    with DoublePrecision(torch.float32):
        assert held.add_(0.1).mul(10).sub(1).abs().max() < 1e-15
    assert held.dtype == torch.float32
    assert array.tolist() == [np.float32(0.1)] * 3


AUTOCAST: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "linear": lambda x: F.linear(x, torch.ones(4, 3)),
    "an operator": lambda x: x @ x.T,
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "convolution": lambda x: F.conv1d(x[None], torch.ones(2, 2, 2)),
    "into a layer": lambda x: F.linear(x.double(), torch.ones(4, 3, dtype=torch.float64)),
    "pointwise": lambda x: x + x,
    "of a product": lambda x: (x @ x.T).relu(),
    "in float32": lambda x: F.mse_loss(x @ x.T, x @ x.T),
    "promoted": lambda x: torch.cat([x @ x.T, x]),
    "a sum with a product": lambda x: torch.ones(2, 2) + x @ x.T,
    "cast afterwards": lambda x: (x @ x.T).float() + 1,
    "in place": lambda x: torch.ones(2, 2).add_(x @ x.T),
    "cast by function": lambda x: F.softmax(x @ x.T, -1, dtype=torch.float32),
    "switched off inside": lambda x: _without_autocast(x),
    "depending on data": lambda x: (x @ x.T)[(x @ x.T) > 0],
}


def _without_autocast(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", enabled=False):
        return x @ x.T


@pytest.mark.parametrize("lower", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("expression", AUTOCAST)
def test_the_casts_of_autocast_are_followed(expression: str, lower: torch.dtype) -> None:
    compute = AUTOCAST[expression]
    square = torch.ones(2, 3) if expression != "promoted" else torch.ones(2, 2)
    with torch.autocast("cpu", dtype=lower):
        expected = compute(square).dtype
    wide = square.double()
    with torch.autocast("cpu", dtype=lower), DoublePrecision(torch.float32):
        assert compute(wide).dtype == expected


def test_following_autocast_draws_no_random_numbers() -> None:
    x = torch.ones(2, 3, dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.manual_seed(0)
        expected = F.dropout(x, 0.5)
        torch.manual_seed(0)
        with DoublePrecision(torch.float32):
            result = F.dropout(x, 0.5)
    assert torch.equal(result, expected)
