"""Cells that compute equal results for themselves, as norms of one tensor whose weights are 1 and 0 at first."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.read = nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, x: Tensor, data: Tensor) -> Tensor:
        return x + torch.tanh(self.read(self.norm(data)) * x)


class Readers(nn.Module):
    """Each layer reads the same data, through a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.last = nn.ModuleList(Reader() for _ in range(3)), nn.Linear(6, 4)

    def forward(self, x: Tensor, data: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x, data)
        return self.last(x)


class Port(nn.Module):
    """The same without layers; `eps` is that of the second one's norm."""

    def __init__(self, reference: Readers, eps: float) -> None:
        super().__init__()
        self.n = nn.ModuleList(nn.LayerNorm(6, eps=eps if i == 1 else 1e-5) for i in range(3))
        self.w = nn.ParameterList(layer.read.weight.detach().T.clone() for layer in reference.layers)
        self.b = nn.ParameterList(layer.read.bias.detach().clone() for layer in reference.layers)
        self.out = nn.Linear(6, 4)
        self.out.load_state_dict(reference.last.state_dict())

    def forward(self, x: Tensor, data: Tensor) -> Tensor:
        for norm, weight, bias in zip(self.n, self.w, self.b, strict=True):
            x = x + torch.tanh((norm(data) @ weight + bias) * x)
        return self.out(x)


def compared(eps: float = 1e-5) -> parity.Report:
    torch.manual_seed(0)
    reference = Readers().eval()
    return parity.compare(reference, Port(reference, eps).eval(), (torch.randn(2, 5, 6), torch.randn(2, 5, 6)))


def test_each_of_several_equal_results_has_its_own_gradient() -> None:
    report = compared()
    assert report.ok, str(report)
    outputs = {path for path, cell in report.cells.items() if any(c.kind == "output" for c in cell.comparisons)}
    assert outputs >= {f"layers.{i}.norm" for i in range(3)}
    gradients = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert gradients >= {f"layers.{i}.norm.{name}" for i in range(3) for name in ("weight", "bias")}


def test_the_layer_of_the_one_that_differs_is_accused() -> None:
    # which of three equal results the two others are is not known, so the Cell around them is the smallest
    assert compared(eps=1e-2).failing == ["layers.1"]


class Branches(nn.Module):
    """Branches that take the same tensor, each with a norm of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6), nn.Linear(6, 4)
        self.branches = nn.ModuleList(Branch(width) for width in (7, 9, 11))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.last(torch.tanh(sum(branch(x) for branch in self.branches)))


class Branch(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(6), nn.Linear(6, width), nn.Linear(width, 6)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(self.norm(x))))


class Backwards(nn.Module):
    """The same, which computes the last branch first."""

    def __init__(self, reference: Branches) -> None:
        super().__init__()
        layers = copy.deepcopy(reference)
        self.start, self.end = layers.first, layers.last
        self.n, self.u, self.d = (
            nn.ModuleList(getattr(branch, name) for branch in reversed(layers.branches))
            for name in ("norm", "up", "down")
        )

    def forward(self, x: Tensor) -> Tensor:
        x, total = self.start(x), torch.zeros(())
        for norm, up, down in zip(self.n, self.u, self.d, strict=True):
            total = total + down(up(norm(x)).relu())
        return self.end(total.tanh())


@pytest.mark.parametrize(
    ("wrong", "failing"),
    [("", []), ("u.0.weight", ["branches.2.up"]), ("n.0.weight", ["branches.2.norm"]), ("start.weight", ["first"])],
)
def test_equal_results_of_branches_in_another_order(wrong: str, failing: list[str]) -> None:
    torch.manual_seed(0)
    reference = Branches().eval()
    port = Backwards(reference).eval()
    if wrong:
        port.get_parameter(wrong).data.mul_(1.3).add_(0.1)
    report = parity.compare(reference, port, (torch.randn(4, 6),))
    assert report.failing == failing, str(report)
    assert failing or len(report.cells) - sum(cell.status == "unpaired" for cell in report.cells.values()) == 15
