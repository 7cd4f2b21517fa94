"""Ports by another hand with wrong weights, an order of Cells that differs, and weights that were computed."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report

WIDTH, HEADS = 8, 2


class Attention(nn.Module):
    """Has one product, and an explicit mask."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores = (q @ k.mT / (WIDTH // HEADS) ** 0.5).masked_fill(hidden, float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    """Attention and layers of a block are computed from the same input."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.up, self.down = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm1(x)) + self.down(self.up(self.norm2(x)).relu())  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.pool, self.head = (
            nn.Sequential(Block(), Block()),
            nn.AdaptiveAvgPool1d(1),
            nn.Linear(WIDTH, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.blocks(x).mT).flatten(1))  # type: ignore[no-any-return]


class PortedBlock(nn.Module):
    """Has three products, and torch's attention."""

    def __init__(self, like: Block, fault: str) -> None:
        super().__init__()
        self.fault = fault
        self.n1, self.n2, self.o = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.a, self.b = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)
        first, second = (like.norm2, like.norm1) if fault == "norms exchanged" else (like.norm1, like.norm2)
        pairs = (
            (self.n1, first),
            (self.n2, second),
            (self.o, like.attention.proj),
            (self.a, like.up),
            (self.b, like.down),
        )
        for own, other in pairs:
            own.load_state_dict(other.state_dict())
        if fault == "transposed":
            self.o.weight.data = self.o.weight.data.T.clone()
        layers = (self.k, self.q, self.v) if fault == "q and k exchanged" else (self.q, self.k, self.v)
        for name in ("weight", "bias"):
            for layer, part in zip(layers, getattr(like.attention.qkv, name).detach().chunk(3), strict=True):
                getattr(layer, name).data = part.clone()

    def forward(self, x: Tensor) -> Tensor:
        y = self.n1(x)
        q, k, v = (layer(y).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        shift = 1 + (self.fault == "mask")
        mask = ~torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(shift)
        mixed = self.o(F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2))
        given = x + mixed if self.fault == "one after the other" else x
        return x + mixed + self.b(F.relu(self.a(self.n2(given))))  # type: ignore[no-any-return]


class Port(nn.Module):
    def __init__(self, like: Network, fault: str) -> None:
        super().__init__()
        blocks = [block for block in like.blocks if isinstance(block, Block)]
        self.layers = nn.ModuleList(PortedBlock(block, fault if number else "") for number, block in enumerate(blocks))
        self.out = nn.Linear(WIDTH, 3)
        self.out.load_state_dict(like.head.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.out(x.mean(1))  # type: ignore[no-any-return]


def compared(fault: str = "") -> Report:
    torch.manual_seed(0)
    reference = Network().eval()
    for parameter in reference.parameters():
        parameter.data += 0.2 * torch.rand_like(parameter)
    return parity.compare(reference, Port(reference, fault).eval(), torch.randn(2, 5, WIDTH))


def test_a_sound_port_holds_with_all_gradients() -> None:
    report = compared()
    assert report.ok, str(report)
    assert "parameters" not in report.conditions_in_words
    assert {cell.status for path, cell in report.cells.items() if path != "blocks"} <= {"pass"}


@pytest.mark.causes
@pytest.mark.parametrize(
    ("fault", "failing", "words"),
    [
        ("mask", {"blocks.1.attention"}, "diagonal is 2"),
        ("transposed", {"blocks.1.attention.proj"}, "is transposed"),
        ("q and k exchanged", {"blocks.1.attention"}, "in the order 1, 0, 2"),
        ("one after the other", {"blocks.1"}, "blocks.1.norm2"),
    ],
)
def test_faults_are_placed_and_named(fault: str, failing: set[str], words: str) -> None:
    report = compared(fault)
    assert set(report.failing) == failing, str(report)
    said = [cause.summary for path in failing for cause in report.cells[path].causes]
    assert any(words in summary for summary in said), said


class Scaled(nn.Module):
    """Multiplies what a layer returns; its port has the factors in the weights of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
        self.factors = nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(torch.tanh(self.first(x) * self.factors))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("error", "holds"), [(0.0, True), (3e-5, False)])
def test_weights_that_were_computed_may_be_rounded_and_not_wrong(error: float, holds: bool) -> None:
    torch.manual_seed(0)
    reference = Scaled()
    port = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, 3))
    factors = reference.factors.detach() * (1 + error)
    port[0].load_state_dict(
        {name: x * (factors[:, None] if x.ndim == 2 else factors) for name, x in reference.first.state_dict().items()}
    )
    port[2].load_state_dict(reference.second.state_dict())
    assert parity.compare(reference.eval(), port.eval(), torch.randn(2, WIDTH)).ok is holds
