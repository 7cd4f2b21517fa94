"""One convolution, also with its norm, for several of the module's: each is found, with its gradients and faults."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

SIZES = (3, 5, 4)


class Unit(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(6, size, 1, bias=False), nn.BatchNorm2d(size)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.running_mean)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x)).relu()  # type: ignore[no-any-return]


class Branches(nn.Module):
    """Three branches of unequal sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.units = nn.ModuleList(Unit(size) for size in SIZES)
        self.act, self.last = nn.Tanh(), nn.Conv2d(SIZES[1], 2, 3)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second, third = (unit(x) for unit in self.units)
        return torch.cat((first, third), 1), self.last(self.act(second))


class Fused(nn.Module):
    def __init__(self, like: Branches, *, eps: float) -> None:
        super().__init__()
        units = [unit for unit in like.units if isinstance(unit, Unit)]
        self.entry, self.normed, self.narrow = (
            nn.Conv2d(6, sum(SIZES), 1, bias=False),
            nn.BatchNorm2d(12, eps),
            like.last,
        )
        self.entry.weight = nn.Parameter(torch.cat([unit.conv.weight for unit in units]).detach())
        states = [unit.norm.state_dict() for unit in units]
        names = ("weight", "bias", "running_mean", "running_var")
        self.normed.load_state_dict(
            {name: torch.cat([state[name] for state in states]) for name in names}
            | {"num_batches_tracked": torch.tensor(0)}
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first, second, third = self.normed(self.entry(x)).relu().split(SIZES, dim=1)
        return torch.cat([first, third], dim=1), self.narrow(second.tanh())


class Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.filter, self.gate = nn.Conv1d(4, 5, 3), nn.Conv1d(4, 5, 3)
        self.residual, self.skip = nn.Conv1d(5, 4, 1), nn.Conv1d(5, 7, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.filter(x).tanh() * self.gate(x).sigmoid()
        return self.residual(y) + x[..., 2:], self.skip(y)


class Halves(nn.Module):
    """Has filter and gate, and residual and skip, in one convolution each."""

    def __init__(self, like: Gated) -> None:
        super().__init__()
        self.both, self.out = nn.Conv1d(4, 10, 3), nn.Conv1d(5, 11, 1)
        for layer, parts in ((self.both, (like.filter, like.gate)), (self.out, (like.residual, like.skip))):
            layer.weight = nn.Parameter(torch.cat([part.weight for part in parts]).detach())
            layer.bias = nn.Parameter(torch.cat([part.bias for part in parts if part.bias is not None]).detach())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = self.both(x).chunk(2, 1)
        y = self.out(a.tanh() * b.sigmoid())
        return y[:, :4] + x[..., 2:], y[:, 4:]


def of_branches(eps: float = 1e-5) -> Report:
    torch.manual_seed(0)
    reference = Branches().eval()
    return parity.compare(reference, Fused(reference, eps=eps).eval(), torch.randn(2, 6, 4, 5), probe=False)


def judged(report: Report, *kinds: str) -> set[str]:
    return {path for path, cell in report.cells.items() if {c.kind for c in cell.comparisons} & {*kinds}}


def test_branches_are_found_with_their_gradients() -> None:
    report = of_branches()
    assert report.ok, str(report)
    parts = {f"units.{number}.{name}" for number in range(len(SIZES)) for name in ("conv", "norm")}
    assert parts <= judged(report, "output")
    assert parts <= judged(report, "parameter gradient")


@pytest.mark.causes
def test_a_fault_is_placed_in_each_branch() -> None:
    report = of_branches(eps=1e-3)
    assert set(report.failing) == {f"units.{number}.norm" for number in range(len(SIZES))}, str(report)
    assert "eps is" in report.cells["units.0.norm"].causes[0].summary


@pytest.mark.slow
def test_halves_of_a_convolution_are_found_with_their_gradients() -> None:
    torch.manual_seed(0)
    reference = Gated()
    report = parity.compare(reference, Halves(reference), torch.randn(2, 4, 8), probe=False)
    assert report.ok, str(report)
    assert {"filter", "gate", "residual", "skip"} <= judged(report, "parameter gradient")
