from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.judging.comparer import Comparer, _common_ancestor
from cellbridge.parity.judging.noise import Noise
from cellbridge.parity.judging.value_judge import ValueJudge
from cellbridge.parity.sides.records import OUTPUT_GRADIENT, Key
from cellbridge.parity.sides.run import ReferenceRun, Run
from cellbridge.parity.sides.torch_side import TorchSide
from cellbridge.parity.verdicts.judge import Tolerance


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["embed", "lm_head"], ""),
        (["encoder.embed", "encoder.head"], "encoder"),
        (["encoder.layers.0.embed", "encoder.layers.1.head"], "encoder.layers"),
        (["left.shared.embed", "right.shared.head"], ""),  # alike further in, but not inside one Cell
    ],
)
def test_common_ancestor_is_a_prefix(paths: list[str], expected: str) -> None:
    assert _common_ancestor(paths) == expected


class FarFromTheKeys(nn.Module):
    """An attention concentrated on the first position, so that the gradient of the keys is close to zero."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        scores = x @ self.key(x).mT + torch.tensor([60.0] + [0.0] * (x.shape[0] - 1))
        return scores.softmax(-1) @ self.value(x)


@pytest.mark.parametrize(("share", "passes"), [(1e-15, True), (1e-12, False), (None, True)])
def test_a_small_difference_of_large_gradients_inherits_their_rounding(share: float | None, passes: bool) -> None:
    """If it is less than their rounding, it may be exactly 0 in another implementation."""
    torch.manual_seed(0)
    side = TorchSide("torch", FarFromTheKeys(), (torch.rand(3, 4),), {})
    truth = side.run(Run("float64"))
    run = Run("float32", reference=ReferenceRun.of(truth, truth.gradients.cotangents), feed=truth)
    noise, candidate = Noise(side, truth, run), side.run(replace(run, dtype="float64"))
    key = Key("key", 0, OUTPUT_GRADIENT, "result")
    assert np.abs(truth.values[key]).max() < 1e-20 < np.abs(truth.values[Key("", 0, OUTPUT_GRADIENT, "result")]).max()
    assert truth.values[key].any()
    candidate.values[key] = np.zeros_like(truth.values[key]) if share is None else truth.values[key] + share
    values = ValueJudge(truth, noise, Tolerance("float32"))
    compared = Comparer("other", "isolated", values, {}, grads=True)
    failed = [c.tensor for _, c in compared.compare("meaning", candidate) if c.status == "fail"]
    assert failed == ([] if passes else ["key result"])


def test_a_gradient_that_one_side_lacks_is_off_by_all_of_it() -> None:
    class Soft(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.softmax(-1)

    class Zero(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * 0

    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    for pair in ((Soft(), Zero()), (Zero(), Soft())):
        report = parity.compare(*pair, (x,), diagnose_seconds=0, probe=False)
        lacking = [c for c in report.cells[""].gradients if c.status == "fail"]
        assert lacking
        assert all(c.error > 0 and c.ratio > 10 for c in lacking)
        assert "≠ 0×" not in str(report)
