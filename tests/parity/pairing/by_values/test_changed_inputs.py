"""Networks with Cells that change what they are given, and ports that don't."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity


class Residual(nn.Module):
    """Its first activation changes `x`, so that the sum takes what was activated."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.ReLU(True), nn.Linear(4, 4, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = x + self.block(x)
        return result


class Port(nn.Module):
    def __init__(self, is_wrong: bool = False, depth: int = 1) -> None:
        super().__init__()
        self.is_wrong = is_wrong
        self.a = nn.Linear(3, 4)
        self.b = nn.ModuleList(nn.Linear(4, 4, bias=False) for _ in range(depth))
        self.c = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        for layer in self.b:
            y = torch.relu(x)
            x = (x if self.is_wrong else y) + layer(y)
        result: Tensor = self.c(x)
        return result


def networks(is_wrong: bool = False, depth: int = 1) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    blocks = [Residual() for _ in range(depth)]
    reference = nn.Sequential(nn.Linear(3, 4), *blocks, nn.Linear(4, 2)).eval()
    port = Port(is_wrong, depth).eval()
    port.load_state_dict(dict(zip(port.state_dict(), reference.state_dict().values(), strict=True)))
    return reference, port


def test_result_in_place_is_what_follows_takes() -> None:
    """The gradient of the sum passes through the activation's result, whichever name the caller has for it."""
    report = parity.compare(*networks(), (torch.randn(5, 3),), probe=False)
    assert report.ok, report.failing
    assert any(c.kind == "passed gradient" for c in report.cells["1"].comparisons)


def test_port_that_adds_the_input_is_wrong() -> None:
    """It adds what wasn't activated."""
    report = parity.compare(*networks(is_wrong=True), (torch.randn(5, 3),), probe=False, diagnose_seconds=0)
    assert report.failing == ["1"]


def test_each_of_two_wrong_blocks_is_named() -> None:
    """In place of the first sum, what the next block activates explains more than the sum: its own sum takes that."""
    report = parity.compare(*networks(is_wrong=True, depth=2), (torch.randn(5, 3),), probe=False, diagnose_seconds=0)
    assert report.failing == ["1", "2"]
