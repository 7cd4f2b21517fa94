"""What the tests of the ATen tables share: a function captured as a program, and judged by torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from cellbridge import converter
from cellbridge.runtime.errors import UnsupportedOperators
from cellbridge.runtime.ir.program import Program

TOLERANCES = {torch.float64: {"rtol": 1e-9, "atol": 1e-11}, torch.float32: {"rtol": 2e-5, "atol": 1e-5}, torch.float16: {"rtol": 2e-3, "atol": 1e-3}}


class Function(nn.Module):
    """A module without parameters whose forward is a given function of tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _leaves(result: Any) -> list[Any]:
    return [x for x in torch.utils._pytree.tree_leaves(result) if x is not None]


def _as_tensor(array: Any) -> torch.Tensor:
    return torch.from_numpy(array.copy()) if hasattr(array, "copy") else torch.as_tensor(array)


def judged(program: Program, function: Callable[..., Any], args: tuple[Any, ...], gradients: bool = True) -> None:
    """Compare outputs (dtypes too) and the gradients of all inputs with torch's, for random cotangents."""
    generator = torch.Generator().manual_seed(1)
    given = tuple(a.clone().requires_grad_(a.is_floating_point()) if torch.is_tensor(a) else a for a in args)
    expected = [x for x in _leaves(function(*given)) if torch.is_tensor(x)]
    cotangents = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in expected if x.is_floating_point()]
    outputs, grads = program.value_and_grad(*args, cotangents=[c.numpy() for c in cotangents])
    actual = [_as_tensor(x) for x in _leaves(outputs) if hasattr(x, "dtype")]
    assert len(actual) == len(expected)
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        tolerance = TOLERANCES.get(e.dtype, {"rtol": 0, "atol": 0})
        torch.testing.assert_close(a, e.detach(), equal_nan=True, **tolerance, msg=lambda m, i=i: f"output {i}: {m}")
    if not gradients:
        return
    floating = [x for x in expected if x.is_floating_point()]
    pairs = [(x, c) for x, c in zip(floating, cotangents, strict=True) if x.requires_grad]
    tensors = [x for x in given if torch.is_tensor(x)]
    wanted = [x for x in tensors if x.requires_grad]
    found: Any = [None] * len(wanted)
    if pairs and wanted:
        found = torch.autograd.grad([x for x, _ in pairs], wanted, [c for _, c in pairs], allow_unused=True)
    by_input = dict(zip(map(id, wanted), found, strict=True))
    for i, (x, gradient) in enumerate(zip(tensors, grads.inputs, strict=True)):
        if id(x) in by_input:
            exact = torch.zeros_like(x) if by_input[id(x)] is None else by_input[id(x)]
            torch.testing.assert_close(
                _as_tensor(gradient), exact, equal_nan=True, **TOLERANCES[x.dtype],
                msg=lambda m, i=i: f"gradient of input {i}: {m}",
            )  # fmt: skip


@pytest.fixture
def check() -> Callable[..., Program]:
    """`check(function, *args)`: capture, run and differentiate, and compare with torch. Returns the program.

    `gradients=False` leaves out the gradients; `others=(...)` runs the program on arguments of other sizes too, along
    the dimensions that `dynamic_shapes` names (one entry for each argument).
    """

    def run(
        function: Callable[..., Any],
        *args: Any,
        gradients: bool = True,
        dynamic_shapes: Any = None,
        others: tuple[Any, ...] | None = None,
    ) -> Program:
        shapes = None if dynamic_shapes is None else (tuple(dynamic_shapes),)
        program = converter.from_torch(Function(function), args, dynamic_shapes=shapes)
        judged(program, function, args, gradients)
        if others is not None:
            judged(program, function, others, gradients)
        return program

    return run


@pytest.fixture
def unsupported() -> Callable[..., str]:
    """`unsupported(function, *args)`: the message of the refusal to convert the function."""

    def run(function: Callable[..., Any], *args: Any) -> str:
        with pytest.raises(UnsupportedOperators) as refusal:
            converter.from_torch(Function(function), args)
        return str(refusal.value)

    return run
