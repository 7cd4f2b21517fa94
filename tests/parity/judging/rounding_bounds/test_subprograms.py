"""Bounds of branches and loops, forward and backward, are those of what they run."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops.map import map as map_over

from cellbridge.converter import from_torch
from cellbridge.parity.judging.rounding_bounds.analysis import analyse
from cellbridge.parity.judging.rounding_bounds.estimates import Units
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import is_floating
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.programs.interpreter import execute
from tests.converter.test_control_flow import Branches, Mapped, Nested, Repeated, Scanned

UNITS = Units.of("float32")
OPS = {Branches: "cond", Nested: "cond", Repeated: "loop", Scanned: "scan", Mapped: "scan"}


def captured(module_class: type[nn.Module], shift: float) -> tuple[Program, np.ndarray]:
    torch.manual_seed(1)
    x = (torch.randn(5, 3) * 0.3 + shift).double()
    program = from_torch(module_class().double(), (x,))
    assert any(node.op == OPS[module_class] for node in program.nodes)
    return program, x.numpy().astype(np.float32).astype(np.float64)


@pytest.mark.parametrize("shift", [1.0, -1.0])
@pytest.mark.parametrize("module_class", OPS)
@pytest.mark.every(6)
def test_float32_is_within_the_bounds_and_half_precision_is_not(module_class: type[nn.Module], shift: float) -> None:
    program, x = captured(module_class, shift)
    narrow = program.astype("float32")
    computed = execute(narrow, [x.astype(np.float32)])
    halves = execute(narrow, [x.astype(np.float16).astype(np.float32)])
    for (value, bound), single, half in zip(
        analyse(program, [x], program.outputs, UNITS), computed, halves, strict=True
    ):
        if not is_floating(value.dtype):
            continue
        assert bound is not None
        assert (np.abs(single - value) <= 2 * bound + 1e-12).all()
        assert (np.abs(half - value) > 2 * bound).any()


@pytest.mark.slow
@pytest.mark.parametrize("module_class", [Branches, Repeated, Scanned, Mapped])
@pytest.mark.every(3)
def test_gradients_in_float32_are_within_the_bounds(module_class: type[nn.Module]) -> None:
    program, x = captured(module_class, 1.0)
    outputs = [y for y in execute(program, [x]) if is_floating(y.dtype)]
    inputs = [x, *(np.ones_like(y) for y in outputs)]
    gradient, narrow = differentiate(program), differentiate(program.astype("float32"))
    ((value, bound),) = analyse(gradient.program, inputs, gradient.input_gradients, UNITS)
    (computed,) = execute(narrow.program, [array.astype(np.float32) for array in inputs], wanted=narrow.input_gradients)
    assert bound is not None
    assert (np.abs(computed - value) <= 2 * bound + 1e-12).all()
    assert bound.max() < 1e-4 * np.abs(value).max()


def test_what_one_iteration_does_not_know_is_not_known() -> None:
    """The body of the loop has an op without a rule."""

    class Unknown(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = map_over(torch.special.bessel_j0, x)
            return y

    x = torch.rand(3, 2).double()
    program = from_torch(Unknown(), (x,))
    ((value, bound),) = analyse(program, [x.numpy()], program.outputs, UNITS)
    assert value.shape == (3, 2)
    assert bound is None
