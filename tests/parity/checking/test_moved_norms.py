"""Ports by another hand whose norms stand on the other side of each residual block, compared without a map."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge import parity
from cellbridge.parity.report.report import Report

WIDTH, HEADS = 8, 2


class Scaled(nn.Module):
    """A norm that is written out."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        parts = (layer(x).unflatten(-1, (HEADS, -1)).mT for layer in (self.query, self.key, self.value))
        q, k, v = (part.mT.transpose(1, 2) for part in parts)
        weights = (q @ k.mT / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self, norm: type[nn.Module], is_first: bool) -> None:
        super().__init__()
        self.is_first, self.attention = is_first, Attention()
        self.feed = nn.Sequential(nn.Linear(WIDTH, 12), nn.GELU(), nn.Linear(12, WIDTH))
        self.norm_attention, self.norm_feed = norm(WIDTH), norm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = x + self.attention(self.norm_attention(x))
            return x + self.feed(self.norm_feed(x))  # type: ignore[no-any-return]
        x = self.norm_attention(x + self.attention(x))
        return self.norm_feed(x + self.feed(x))  # type: ignore[no-any-return]


class Network(nn.Module):
    def __init__(self, norm: type[nn.Module], is_first: bool, blocks: int) -> None:
        super().__init__()
        self.words = nn.Embedding(11, WIDTH)
        self.blocks = nn.Sequential(*(Block(norm, is_first) for _ in range(blocks)))
        self.norm, self.head = norm(WIDTH), nn.Linear(WIDTH, 5)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.words(ids))))  # type: ignore[no-any-return]


class Port(nn.Module):
    """Has fused products and no Cells, and its norms before or after."""

    def __init__(self, like: Network, is_first: bool) -> None:
        super().__init__()
        self.is_first, self.is_scaled, self.blocks = is_first, isinstance(like.norm, Scaled), len(like.blocks)
        self.w = nn.ParameterDict()
        self.w["words"] = like.words.weight.detach().clone()
        for i, block in enumerate(like.blocks):
            assert isinstance(block, Block)
            layers = (block.attention.query, block.attention.key, block.attention.value)
            for part in ("weight", "bias"):
                self.w[f"{i}qkv{part}"] = torch.cat([getattr(layer, part).detach() for layer in layers])
            self._take(f"{i}o", block.attention.out)
            self._take(f"{i}a", block.feed[0])
            self._take(f"{i}b", block.feed[2])
            self._take(f"{i}n", block.norm_attention)
            self._take(f"{i}m", block.norm_feed)
        self._take("n", like.norm)
        self._take("head", like.head)

    def _take(self, name: str, layer: nn.Module) -> None:
        self.w.update({f"{name}{part}": p.detach().clone() for part, p in layer.named_parameters()})

    def _norm(self, name: str, x: Tensor) -> Tensor:
        if self.is_scaled:
            return F.rms_norm(x, (WIDTH,), self.w[f"{name}gain"], 1e-6)
        return F.layer_norm(x, (WIDTH,), self.w[f"{name}weight"], self.w[f"{name}bias"])

    def _layer(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.w[f"{name}weight"], self.w[f"{name}bias"])

    def _attend(self, i: int, x: Tensor) -> Tensor:
        q, k, v = self._layer(f"{i}qkv", x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self._layer(f"{i}o", F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def _feed(self, i: int, x: Tensor) -> Tensor:
        return self._layer(f"{i}b", F.gelu(self._layer(f"{i}a", x)))

    def forward(self, ids: Tensor) -> Tensor:
        x = F.embedding(ids, self.w["words"])
        for i in range(self.blocks):
            if self.is_first:
                x = x + self._attend(i, self._norm(f"{i}n", x))
                x = x + self._feed(i, self._norm(f"{i}m", x))
            else:
                x = self._norm(f"{i}n", x + self._attend(i, x))
                x = self._norm(f"{i}m", x + self._feed(i, x))
        return self._layer("head", self._norm("n", x))


def compare(norm: type[nn.Module], is_first: bool, *, in_port: bool, trained: bool, blocks: int) -> Report:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = Network(norm, is_first, blocks)
        for parameter in network.parameters():
            if parameter.ndim == 1 and trained:
                parameter.data += torch.randn_like(parameter) / 3
        ids = torch.randint(0, 11, (2, 5))
    return parity.compare(network, Port(network, in_port), (ids,))


def test_norms_on_the_right_side() -> None:
    report = compare(Scaled, False, in_port=False, trained=True, blocks=1)

    assert report.ok
    assert report.cells["blocks.0.norm_feed"].status == "pass"


@pytest.mark.causes
@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("norm", "is_first", "trained", "blocks"),
    [
        (nn.LayerNorm, True, True, 2),
        (nn.LayerNorm, False, False, 2),
        (Scaled, True, False, 1),
        (Scaled, False, True, 1),
    ],
)
def test_norms_on_the_other_side(norm: type[nn.Module], is_first: bool, trained: bool, blocks: int) -> None:
    report = compare(norm, is_first, in_port=not is_first, trained=trained, blocks=blocks)

    assert report.failing == [f"blocks.{number}" for number in range(blocks)]
    assert report.nothing_in_common == ""
    for path in report.failing:
        (cause,) = report.cells[path].causes
        sides = ("after the residual addition", "before the branch")
        candidate, reference = sides if is_first else sides[::-1]
        assert cause.summary.startswith(f"the norms stand {candidate} in the candidate")
        assert f"{reference} in the reference" in cause.summary
