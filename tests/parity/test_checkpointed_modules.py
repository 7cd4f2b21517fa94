"""Networks with activation checkpointing (`torch.utils.checkpoint`) are compared as without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from cellbridge import parity

X = torch.linspace(-2.0, 2.0, 12).reshape(3, 4).sin()


class Block(nn.Module):
    def __init__(self, eps: float) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(4, eps=eps), nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.tensor(0.3) * x.float().softmax(-1)
        return x + self.dropout(self.linear(self.norm(x)).tanh() * scale)


class Network(nn.Module):
    def __init__(self, how: str, eps: float = 1e-5) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks = nn.Sequential(Block(1e-5), Block(eps))
        self.how = how

    def forward(self, x: Tensor) -> Any:
        if self.how == "sequential":
            return checkpoint_sequential(self.blocks, 2, x, use_reentrant=False)
        for block in self.blocks:
            x = block(x) if self.how == "not" else checkpoint(block, x, use_reentrant=self.how == "reentrant")
        return x


HOW = ["reentrant", "not reentrant", "sequential"]


@pytest.mark.parametrize("train", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("how", HOW)
@pytest.mark.every(6)
def test_checkpoints_change_nothing(how: str, train: bool) -> None:
    for reference, candidate in (("not", how), (how, "not"), (how, how)):
        report = parity.compare(Network(reference), Network(candidate), (X,), train=train)
        assert report.ok, str(report)
        assert report.cells["blocks.1.norm"].gradients
    report = parity.check(Network(how), (X,), train=train)
    assert report.ok, str(report)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.every(3)
def test_a_fault_behind_a_checkpoint_is_found_in_its_cell(how: str) -> None:
    report = parity.compare(Network(how), Network(how, eps=1e-4), (X,), train=True)
    assert report.cells["blocks.1.norm"].status == "fail"
    assert not any(c.feeding == "isolated" for c in report.cells["blocks.0.norm"].failures)


def test_torch_is_left_as_it_was() -> None:
    before = torch.utils.checkpoint.CheckpointFunction
    parity.compare(Network("not"), Network("reentrant"), (X,))
    assert torch.utils.checkpoint.CheckpointFunction is before


@pytest.mark.parametrize("how", HOW)
@pytest.mark.every(3)
def test_a_network_with_checkpoints_is_trained(how: str) -> None:
    report = parity.assert_training_parity(Network(how), (X,), steps=2)
    assert report.ok
