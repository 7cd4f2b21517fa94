"""Experts that a module computes one by one, and a port together: each is found, with its parameters and its faults."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report

WIDTH, INNER, EXPERTS = 4, 6, 5


class Expert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.act, self.down = nn.SiLU(), nn.Linear(INNER, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]


class Mixture(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x: Tensor) -> Tensor:
        flat = self.norm(x).flatten(0, 1)
        shares = self.router(flat).softmax(-1)
        mixed = torch.stack([shares[:, n, None] * expert(flat) for n, expert in enumerate(self.experts)]).sum(0)
        return x + mixed.view(x.shape)


class Stacked(nn.Module):
    """Has the weights of all experts in one tensor each, gate and up side by side."""

    def __init__(self, like: Mixture, fault: str) -> None:
        super().__init__()
        experts = [expert for expert in like.experts if isinstance(expert, Expert)]
        down = torch.stack([expert.down.weight.T for expert in experts])
        self.fault = fault
        self.n, self.choose = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS)
        self.n.load_state_dict(like.norm.state_dict())
        self.choose.load_state_dict(like.router.state_dict())
        self.wide = nn.Parameter(torch.stack([torch.cat([e.gate.weight, e.up.weight]).T for e in experts]).detach())
        self.narrow = nn.Parameter((down.roll(1, 0) if fault == "order" else down).detach())
        self.bias = nn.Parameter(torch.stack([expert.down.bias for expert in experts]).detach())

    def forward(self, x: Tensor) -> Tensor:
        y = self.n(x)
        gate, up = torch.einsum("btd,edf->ebtf", y, self.wide).chunk(2, -1)
        hidden = (F.gelu(gate) if self.fault == "gelu" else F.silu(gate)) * up
        each = torch.einsum("ebtf,efd->ebtd", hidden, self.narrow) + self.bias[:, None, None]
        return x + torch.einsum("bte,ebtd->btd", self.choose(y).softmax(-1), each)


def compared(fault: str = "") -> Report:
    torch.manual_seed(0)
    reference = Mixture()
    return parity.compare(reference.eval(), Stacked(reference, fault).eval(), torch.randn(2, 3, WIDTH), probe=False)


def test_experts_are_found_with_their_gradients() -> None:
    report = compared()
    assert report.ok, str(report)
    assert "parameters" not in report.conditions_in_words
    judged = {path for path, cell in report.cells.items() if any(c.kind == "output" for c in cell.comparisons)}
    assert {f"experts.{n}.{part}" for n in range(EXPERTS) for part in ("gate", "up", "act", "down")} <= judged


@pytest.mark.causes
@pytest.mark.parametrize(
    ("fault", "part", "words"),
    [("gelu", "act", "gelu is computed in the candidate, silu"), ("order", "down", "has the values of experts.4.down")],
)
def test_a_fault_is_placed_in_each_expert(fault: str, part: str, words: str) -> None:
    report = compared(fault)
    assert set(report.failing) == {f"experts.{n}.{part}" for n in range(EXPERTS)}, str(report)
    assert words in report.cells[f"experts.0.{part}"].causes[0].summary


def test_steps_of_a_sequence_keep_their_shared_parameters() -> None:
    """A layer that the module calls for each step, and the port once for all."""

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.out(torch.stack([self.layer(x[:, n]).tanh() for n in range(x.shape[1])]).sum(0))  # type: ignore[no-any-return]

    class AtOnce(nn.Module):
        def __init__(self, like: Steps) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2)
            self.a.load_state_dict(like.layer.state_dict())
            self.b.load_state_dict(like.out.state_dict())

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x).tanh().sum(1))  # type: ignore[no-any-return]

    torch.manual_seed(0)
    reference = Steps()
    report = parity.compare(reference.eval(), AtOnce(reference).eval(), torch.randn(3, 4, WIDTH), probe=False)
    assert report.ok, str(report)
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert compared == {"layer.weight", "layer.bias", "out.weight", "out.bias"}
    assert any(c.kind == "output" for c in report.cells["layer"].comparisons)


class Head(nn.Module):
    """Has its weight as a parameter of its own, so that no boundary shows the product."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.gain = nn.Parameter(torch.randn(WIDTH, 3)), nn.Parameter(torch.randn(3))

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight
        return (y * self.gain).tanh() + y.mean(1, keepdim=True)


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads, self.last = nn.ModuleList(Head() for _ in range(4)), nn.Linear(12, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.cat([head(x) for head in self.heads], -1))  # type: ignore[no-any-return]


class HeadsAtOnce(nn.Module):
    """Has the features of all heads side by side in one product, which is parted afterwards."""

    def __init__(self, like: Heads) -> None:
        super().__init__()
        heads = [head for head in like.heads if isinstance(head, Head)]
        self.project, self.out = nn.Linear(WIDTH, 12, bias=False), like.last
        self.project.weight = nn.Parameter(torch.cat([head.weight.T for head in heads]).detach())
        self.gains = nn.Parameter(torch.stack([head.gain for head in heads]).detach())

    def forward(self, x: Tensor) -> Tensor:
        y = self.project(x).unflatten(-1, (4, 3))
        y = (y * self.gains).tanh() + y.mean(1, keepdim=True)
        return self.out(y.flatten(2))  # type: ignore[no-any-return]


def test_heads_are_found_where_their_features_lie_side_by_side() -> None:
    torch.manual_seed(0)
    reference = Heads()
    report = parity.compare(reference, HeadsAtOnce(reference), torch.randn(2, 5, WIDTH), probe=False)
    assert report.ok, str(report)
    judged = {
        path for path, cell in report.cells.items() if any(c.kind == "parameter gradient" for c in cell.comparisons)
    }
    assert {f"heads.{n}" for n in range(4)} <= judged
    assert "parameters" not in report.conditions_in_words
    assert all(report.cells[f"heads.{n}"].presence is None for n in range(4)), str(report)
