"""What the tests of the ATen tables share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cellbridge.converter.capture.export import from_torch
from cellbridge.runtime.errors import UnsupportedOperators
from cellbridge.runtime.ir.program import Program
from tests.converter.capturing import Function, assert_matches_torch


@pytest.fixture
def check() -> Callable[..., Program]:
    """`check(function, *args)`: capture a function of tensors, and hold values and gradients against torch.

    `gradients=False` is for what torch has no gradient of, or where it isn't defined; `others=(...)` runs the program
    on arguments of other sizes, along the dimensions that `dynamic_shapes` names (one entry for each argument);
    `tolerance` is for what is float32 among float64.
    """

    def run(
        function: Callable[..., Any],
        *args: Any,
        dtype: torch.dtype = torch.float64,
        gradients: bool = True,
        dynamic_shapes: Any = None,
        others: tuple[Any, ...] | None = None,
        tolerance: float | None = None,
    ) -> Program:
        module = Function(function if gradients else torch.no_grad()(function))
        shapes = None if dynamic_shapes is None else (tuple(dynamic_shapes),)
        return assert_matches_torch(
            module, *args, dtype=dtype, dynamic_shapes=shapes, other_args=others, tolerance=tolerance
        )

    return run


@pytest.fixture
def unsupported() -> Callable[..., str]:
    """`unsupported(function, *args)`: the message of the refusal to convert a function."""

    def run(function: Callable[..., Any], *args: Any) -> str:
        with pytest.raises(UnsupportedOperators) as refusal:
            from_torch(Function(function), args)
        return str(refusal.value)

    return run
