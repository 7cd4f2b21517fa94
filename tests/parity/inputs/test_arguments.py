"""Arguments of the functions that people call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from cellbridge import parity
from cellbridge.runtime.errors import UsageError

X = torch.ones(2, 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda module: parity.compare(module, module, X, X),  # type: ignore[arg-type]
        lambda module: parity.assert_parity(module, module, X, X),  # type: ignore[arg-type]
        lambda module: parity.check(module, (X,), X),  # type: ignore[arg-type]
    ],
    ids=["compare", "assert_parity", "check"],
)
def test_a_second_input_outside_of_a_tuple_is_refused(call: Callable[[torch.nn.Module], Any]) -> None:
    with pytest.raises(UsageError, match=r"needs a dict of keyword inputs, given Tensor; .* one tuple: \(x, mask\)"):
        call(torch.nn.Linear(2, 2))
