"""Matrices that multiply zeros: a decoder's first attention has zeros as its values."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, HEADS, QUERIES = 6, 3, 4


class Decoder(nn.Module):
    """Sequence first, projections in one."""

    def __init__(self) -> None:
        super().__init__()
        self.queries, self.attention = nn.Embedding(QUERIES, SIZE), nn.MultiheadAttention(SIZE, HEADS)
        self.across = nn.MultiheadAttention(SIZE, HEADS)

    def forward(self, image: Tensor) -> Tensor:
        queries = self.queries.weight[:, None].repeat(1, image.shape[1], 1)
        x = torch.zeros_like(queries)
        x = x + self.attention(x + queries, x + queries, x)[0]
        result: Tensor = self.across(x + queries, image, image)[0]
        return result


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(SIZE, SIZE) for _ in range(4))

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        x = (self.q(q), self.k(k), self.v(v))
        parts = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in x)
        result: Tensor = self.out(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(2))
        return result


class Apart(nn.Module):
    """Batch first, projections apart."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = nn.Parameter(torch.zeros(QUERIES, SIZE))
        self.attention, self.across = Attention(), Attention()

    def forward(self, image: Tensor) -> Tensor:
        image = image.transpose(0, 1)
        x = image.new_zeros(len(image), QUERIES, SIZE)
        x = x + self.attention(x + self.queries, x + self.queries, x)
        return self.across(x + self.queries, image, image).transpose(0, 1)


def test_a_matrix_that_multiplies_zeros_follows_its_bias() -> None:
    reference, candidate = drawn(Decoder(), 0), drawn(Apart(), 1)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(5, 2, SIZE),), {})
    for kind in ("weight", "bias"):
        expected = reference.state_dict()[f"attention.in_proj_{kind}"].chunk(3)[2]
        assert torch.equal(torch.as_tensor(loading.arrays[f"attention.v.{kind}"]), expected)
    assert any("by place alone" in note and "attention.v.weight" in note for note in loading.notes)
    assert "by place alone" in loading.text()
