"""Branches with a norm in each, against a port that joins them first and has one norm for all."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge import parity
from cellbridge.parity.report.report import Report

WIDTH, BRANCH, COUNT = 4, 3, 3


class Branches(nn.Module):
    """The last branch sees the whole image."""

    def __init__(self) -> None:
        super().__init__()
        layers = ((nn.Conv2d(WIDTH, BRANCH, 1, bias=False), nn.BatchNorm2d(BRANCH), nn.ReLU()) for _ in range(COUNT))
        self.branches = nn.ModuleList(nn.Sequential(*of_branch) for of_branch in layers)
        self.merge = nn.Conv2d(COUNT * BRANCH, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        given = [x] * (COUNT - 1) + [x.mean((2, 3), keepdim=True)]
        branches = [branch(x) for branch, x in zip(self.branches, given, strict=True)]
        branches[-1] = branches[-1].expand_as(branches[0])
        return self.merge(torch.cat(branches, 1))  # type: ignore[no-any-return]


class JoinedFirst(nn.Module):
    """Has the branch of the whole image first."""

    def __init__(self, like: Branches, order: list[int]) -> None:
        super().__init__()
        self.products = nn.ModuleList(nn.Conv2d(WIDTH, BRANCH, 1, bias=False) for _ in range(COUNT))
        self.all, self.out = nn.BatchNorm2d(COUNT * BRANCH), nn.Conv2d(COUNT * BRANCH, 2, 1)
        for product, conv in zip(self.products, (like.branches[i][0] for i in (2, 0, 1)), strict=True):
            product.load_state_dict(conv.state_dict())
        states = [like.branches[i][1].state_dict() for i in order]
        names = ("weight", "bias", "running_mean", "running_var")
        self.all.load_state_dict({n: torch.cat([state[n] for state in states]) for n in names}, strict=False)
        self.out.load_state_dict({"weight": like.merge.weight.roll(BRANCH, 1), "bias": like.merge.bias})

    def forward(self, x: Tensor) -> Tensor:
        whole = self.products[0](x.mean((2, 3), keepdim=True)).expand(-1, -1, *x.shape[2:])
        branches = [whole, *(product(x) for product in self.products[1:])]
        return self.out(torch.relu(self.all(torch.cat(branches, 1))))  # type: ignore[no-any-return]


def compared(order: list[int]) -> Report:
    torch.manual_seed(0)
    reference = Branches().eval()
    with torch.no_grad():
        for _, norm, _ in reference.branches:
            for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
                tensor += torch.rand(BRANCH)
    return parity.compare(reference, JoinedFirst(reference, order).eval(), (torch.randn(2, WIDTH, 3, 2),))


def test_the_norm_of_each_branch_is_compared() -> None:
    report = compared([2, 0, 1])
    assert report.ok, str(report)
    assert [path for path, cell in report.cells.items() if path and not cell.comparisons] == []


def test_a_norm_with_the_branches_in_another_order() -> None:
    assert compared([0, 1, 2]).failing == [f"branches.{number}.1" for number in range(COUNT)]
