"""Queries, keys and values that a module has head by head, and a port one after the other."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity

WIDTH, HEADS = 12, 2


def attend(qkv: Tensor) -> Tensor:
    b, _, n = qkv.shape
    q, k, v = qkv.reshape(b * HEADS, -1, n).chunk(3, dim=1)
    scores = torch.einsum("bct,bcs->bts", q, k) * (WIDTH // HEADS) ** -0.5
    return torch.einsum("bts,bcs->bct", scores.softmax(-1), v).reshape(b, -1, n)


class Attend(nn.Module):
    def forward(self, qkv: Tensor) -> Tensor:
        return attend(qkv)


class Block(nn.Module):
    """Attention over the pixels of a map, of which a convolution makes the channels of each head in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.attend, self.proj = nn.Conv1d(WIDTH, 3 * WIDTH, 1), Attend(), nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = x.flatten(2)
        return (y + self.proj(self.attend(self.qkv(y)))).reshape(x.shape)


class Lone(nn.Module):
    """The same with parameters of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(3 * WIDTH, WIDTH, 1) / 3), nn.Parameter(torch.randn(36) / 3)
        self.proj = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = x.flatten(2)
        return (y + self.proj(attend(F.conv1d(y, self.weight, self.bias)))).reshape(x.shape)


class Network(nn.Module):
    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.stem, self.block, self.head = nn.Conv2d(3, WIDTH, 3, padding=1), block, nn.Conv2d(WIDTH, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.block(torch.tanh(self.stem(x))))
        return y


class Port(nn.Module):
    """Pixels are tokens, and queries, keys and values have layers of their own."""

    def __init__(self, reference: Network, weights: dict[str, Tensor], *, by_heads: bool) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, WIDTH, 3, padding=1), nn.Conv2d(WIDTH, 4, 1)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        for layer, of in ((self.first, reference.stem), (self.last, reference.head)):
            layer.load_state_dict(of.state_dict())
        for name, rows in weights.items():
            whole = rows.unflatten(0, (HEADS, 3, -1)).transpose(0, 1) if by_heads else rows.unflatten(0, (3, -1))
            for layer, part in zip((self.q, self.k, self.v), whole.reshape(3, WIDTH, *rows.shape[1:]), strict=True):
                getattr(layer, name).data = part.flatten(1).clone() if name == "weight" else part.clone()
        proj: Any = reference.block.proj
        self.o.load_state_dict({"weight": proj.weight.squeeze(-1), "bias": proj.bias})

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(self.first(x))
        tokens = y.flatten(2).mT
        q, k, v = (layer(tokens).unflatten(-1, (HEADS, -1)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        z = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        result: Tensor = self.last(y + self.o(z).mT.reshape(y.shape))
        return result


def compared(block: type[Block | Lone], *, by_heads: bool) -> parity.Report:
    torch.manual_seed(0)
    reference = Network(block()).eval()
    holder: Any = reference.block if block is Lone else reference.block.qkv
    weights = {"weight": holder.weight.detach(), "bias": holder.bias.detach()}
    port = Port(reference, weights, by_heads=by_heads).eval()
    return parity.compare(reference, port, (torch.randn(2, 3, 3, 5),))


@pytest.mark.slow
def test_a_convolution_of_all_heads_has_a_place_among_three_layers() -> None:
    report = compared(Block, by_heads=True)
    assert report.ok, str(report)
    assert any(c.kind == "output" for c in report.cells["block.qkv"].comparisons)
    gradients = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert gradients >= {"block.qkv.weight", "block.qkv.bias"}


@pytest.mark.causes
@pytest.mark.slow
def test_rows_that_were_not_divided_by_heads() -> None:
    report = compared(Block, by_heads=False)
    assert report.failing == ["block.attend"], str(report)
    (cause,) = report.cells["block.attend"].causes
    assert "as thirds with all heads each in the candidate, and head by head" in cause.summary


@pytest.mark.causes
def test_rows_of_weight_and_bias_are_arranged_alike() -> None:
    report = compared(Lone, by_heads=False)
    assert report.failing == ["block"], str(report)
    (cause,) = report.cells["block"].causes
    assert "blocks along axis 0 in the order 0, 2, 4, 1, 3, 5" in cause.summary
