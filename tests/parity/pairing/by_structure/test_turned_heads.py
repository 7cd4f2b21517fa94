"""Queries and keys that are normed with a gain before they are turned: rows are in order if what is turned agrees."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

WIDTH, HEADS, SIZE, LENGTH = 12, 2, 6, 5
ANGLES = torch.arange(LENGTH)[:, None] * torch.tensor([1.0, 0.3, 0.1])


class Halves(nn.Module):
    """Halves of each head are turned, products are apart."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, HEADS * SIZE, bias=False) for _ in range(3))
        self.q_gain, self.k_gain = (nn.Parameter(torch.ones(SIZE)) for _ in range(2))
        self.out = nn.Linear(HEADS * SIZE, WIDTH, bias=False)

    def turned(self, x: Tensor) -> Tensor:
        first, second = x.chunk(2, -1)
        return x * ANGLES.cos().repeat(1, 2) + torch.cat((-second, first), -1) * ANGLES.sin().repeat(1, 2)

    def products(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.q(x), self.k(x), self.v(x)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (-1, SIZE)).transpose(1, 2) for part in self.products(x))
        q = self.turned(F.rms_norm(q, (SIZE,), self.q_gain, eps=1e-6))
        k = self.turned(F.rms_norm(k, (SIZE,), self.k_gain, eps=1e-6))
        y = F.scaled_dot_product_attention(q, k, v)
        result: Tensor = self.out(y.transpose(1, 2).flatten(2))
        return result


class Pairs(Halves):
    """Neighbours are turned, and one product makes all."""

    def __init__(self) -> None:
        super().__init__()
        del self.q, self.k, self.v
        self.qkv = nn.Linear(WIDTH, 3 * HEADS * SIZE, bias=False)

    def products(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.qkv(x).chunk(3, -1)

    def turned(self, x: Tensor) -> Tensor:
        even, odd = x[..., ::2], x[..., 1::2]
        turned = even * ANGLES.cos() - odd * ANGLES.sin(), odd * ANGLES.cos() + even * ANGLES.sin()
        return torch.stack(turned, -1).flatten(-2)


def in_pairs(weight: Tensor) -> Tensor:
    return weight.unflatten(0, (-1, 2, SIZE // 2)).transpose(1, 2).reshape(weight.shape)


def test_rows_before_a_gain_are_in_the_order_of_the_rotary_embedding() -> None:
    reference, candidate = drawn(Halves(), 1), drawn(Pairs(), 2)
    x = torch.randn(2, LENGTH, WIDTH, generator=torch.Generator().manual_seed(3))
    arrays = load_by_structure(reference, ModulePort(candidate), (x,), {}).arrays
    w = reference.state_dict()
    expected = {name: in_pairs(w[name]) for name in ("q_gain", "k_gain")}
    expected["qkv.weight"] = torch.cat([in_pairs(w["q.weight"]), in_pairs(w["k.weight"]), w["v.weight"]])
    for name, tensor in expected.items():
        torch.testing.assert_close(torch.from_numpy(arrays[name]), tensor, msg=name)
