"""Biases that are added to the residual, and not to the product that they belong to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch
from cellbridge.parity.pairing.by_values.flat import FlatProgram
from cellbridge.parity.pairing.by_values.regrouped_sums import with_biases_added_first
from cellbridge.runtime.ir.program import Program

Sum = Callable[["Sums", Tensor], Tensor]


class Sums(nn.Module):
    def __init__(self, add_up: Sum) -> None:
        super().__init__()
        self.add_up = add_up
        self.w, self.v = (nn.Parameter(torch.randn(4, 4)) for _ in range(2))
        self.b = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.add_up(self, x)


def program_of(add_up: Sum) -> FlatProgram:
    torch.manual_seed(0)
    return FlatProgram(from_torch(Sums(add_up), (torch.randn(3, 4),)))


LATE: dict[str, Sum] = {
    "x + w + b": lambda m, x: x + x @ m.w + m.b,
    "b + (w + x)": lambda m, x: m.b + (x @ m.w + x),
    "in another layout": lambda m, x: x.mT + (x @ m.w).mT + m.b[:, None],
}
OTHER: dict[str, Sum] = {
    "in order": lambda m, x: x + (x @ m.w + m.b),
    "two products": lambda m, x: x @ m.w + x @ m.v + m.b,
    "the sum is used twice": lambda m, x: (y := x + x @ m.w) + m.b + y.sin(),
    "what is added is no parameter": lambda m, x: x + x @ m.w + x.sin(),
    "no product": lambda m, x: x + x.sin() + m.b,
    "the bias makes the sum larger": lambda m, x: (x + x @ m.w)[:1] + m.v,
}  # fmt: skip


@pytest.mark.parametrize("name", LATE)
def test_a_bias_is_added_to_its_product_first(name: str) -> None:
    flat = program_of(LATE[name])
    regrouped = with_biases_added_first(flat, lambda value: False)
    count = sum(node.op == "add" for node in flat.program.nodes)
    assert sum(node.op == "add" for node in regrouped.nodes) == count
    (first, last) = [node for node in regrouped.nodes if node.op == "add"]
    assert first.outputs[0] in last.inputs
    assert not _of_bias(regrouped).isdisjoint(first.inputs)
    x = np.random.default_rng(0).standard_normal((3, 4))
    before, after = (program.astype("float64").value_and_grad(x) for program in (flat.program, regrouped))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-12)
    np.testing.assert_allclose(after[1].parameters["b"], before[1].parameters["b"], rtol=1e-12)


def _of_bias(program: Program) -> set[object]:
    values: set[object] = {program.parameters["b"].value}
    for node in program.nodes:
        if node.op in ("reshape", "expand", "transpose") and node.inputs[0] in values:
            values.update(node.outputs)
    return values


@pytest.mark.parametrize("name", OTHER)
def test_other_sums_stay(name: str) -> None:
    flat = program_of(OTHER[name])
    assert with_biases_added_first(flat, lambda value: False) is flat.program


def test_a_sum_that_is_a_tensor_of_the_module_stays() -> None:
    flat = program_of(LATE["x + w + b"])
    assert with_biases_added_first(flat, lambda value: True) is flat.program
