"""Ports that return more tensors than their module, or fewer, or in another container."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch import nn as tnn

from cellbridge import parity
from cellbridge.parity.results.structure import OTHER_RESULT
from cellbridge.runtime import nn, ops

X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Module(tnn.Module):
    def __init__(self, *, returns_hidden: bool) -> None:
        super().__init__()
        self.first, self.second, self.returns_hidden = tnn.Linear(4, 4), tnn.Linear(4, 2), returns_hidden

    def forward(self, x: Tensor) -> Any:
        hidden = torch.tanh(self.first(x))
        return (self.second(hidden), hidden) if self.returns_hidden else self.second(hidden)


class Port(nn.Cell):
    def __init__(self, form: str, factor: float = 1.0) -> None:
        super().__init__()
        self.first, self.second, self.form, self.factor = nn.Dense(4, 4), nn.Dense(4, 2), form, factor

    def construct(self, x: Any) -> Any:
        hidden = ops.tanh(self.first(x))
        logits = self.second(hidden) * self.factor
        return {"tensor": logits, "pair": (logits, hidden), "dict": {"hidden": hidden, "logits": logits}}[self.form]


@pytest.mark.parametrize(
    ("returns_hidden", "form", "sentence", "text"),
    [
        (False, "pair", "Parity holds: cell", "[1] of the candidate has no partner and was not compared"),
        (False, "dict", "Parity holds: cell", "compared was result with the candidate's logits"),
        (True, "tensor", "Parity holds in 1 of 2 results: cell", "[1] of the reference has no partner"),
    ],
)
def test_what_both_return_is_compared(*, returns_hidden: bool, form: str, sentence: str, text: str) -> None:
    module = Module(returns_hidden=returns_hidden)
    report = parity.compare(module, Port(form), (X,))
    assert report.sentence.startswith(sentence), str(report)
    (difference,) = [difference for difference in report.structure if difference.kind == OTHER_RESULT]
    assert text in difference.text
    assert not parity.compare(module, Port(form), (X,), strict=True).ok
    assert isinstance(module(X), tuple) is returns_hidden  # the module is left as it was
    wrong = parity.compare(module, Port(form, 1.01), (X,), diagnose_seconds=0)
    assert wrong.failing == [""]
    assert "the same function" not in wrong.sentence


def test_results_in_the_same_order_need_no_word() -> None:
    report = parity.compare(Module(returns_hidden=True), Port("pair"), (X,))
    assert report.ok
    assert not report.structure
