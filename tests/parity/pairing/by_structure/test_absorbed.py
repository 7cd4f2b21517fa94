"""Attention on latents, with keys and values or with the matrices that make them in another association."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, HEADS, LATENT, HEAD, TURNED, VALUE = 7, 2, 5, 3, 4, 6


def angles(x: Tensor) -> Tensor:
    return torch.arange(x.shape[1], dtype=x.dtype)[:, None] * torch.tensor([1.0, 0.2])


class Attention(nn.Module):
    """Keys and values are computed from latents; a rotary embedding turns pairs of neighbours, and puts them apart."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.down = (nn.Linear(SIZE, n, bias=False) for n in (HEADS * (HEAD + TURNED), LATENT + TURNED))
        self.up = nn.Linear(LATENT, HEADS * (HEAD + VALUE), bias=False)
        self.out = nn.Linear(HEADS * VALUE, SIZE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, q_turned = self.q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2).split([HEAD, TURNED], -1)
        latent, k_turned = self.down(x).split([LATENT, TURNED], -1)
        latent = latent.tanh()
        k, v = self.up(latent).unflatten(-1, (HEADS, -1)).transpose(1, 2).split([HEAD, VALUE], -1)
        k_turned = self.turned(k_turned[:, None], x).expand(-1, HEADS, -1, -1)
        q, k = torch.cat([q, self.turned(q_turned, x)], -1), torch.cat([k, k_turned], -1)
        result: Tensor = self.out(((q @ k.mT).softmax(-1) @ v).transpose(1, 2).flatten(2))
        return result

    def turned(self, x: Tensor, like: Tensor) -> Tensor:
        even, odd, turn = x[..., ::2], x[..., 1::2], angles(like)
        return torch.cat([even * turn.cos() - odd * turn.sin(), odd * turn.cos() + even * turn.sin()], -1)


class Absorbed(nn.Module):
    """Scores and values are taken of latents; pairs of neighbours stay in their places."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.down = (nn.Linear(SIZE, n, bias=False) for n in (HEADS * (HEAD + TURNED), LATENT))
        self.k_turned = nn.Linear(SIZE, TURNED, bias=False)
        self.k_up = nn.Parameter(torch.zeros(HEADS, HEAD, LATENT))
        self.v_up = nn.Parameter(torch.zeros(HEADS, VALUE, LATENT))
        self.out = nn.Linear(HEADS * VALUE, SIZE, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, q_turned = self.q(x).unflatten(-1, (HEADS, -1)).split([HEAD, TURNED], -1)
        latent = self.down(x).tanh()
        scores = torch.einsum("bshc,btc->bsht", torch.einsum("bshd,hdc->bshc", q, self.k_up), latent)
        k_turned = self.turned(self.k_turned(x)[:, :, None]).squeeze(2)
        scores = (scores + torch.einsum("bshr,btr->bsht", self.turned(q_turned), k_turned)).softmax(-1)
        y = torch.einsum("bsht,btc->bshc", scores, latent)
        result: Tensor = self.out(torch.einsum("bshc,hdc->bshd", y, self.v_up).flatten(2))
        return result

    def turned(self, x: Tensor) -> Tensor:
        pairs, turn = x.unflatten(-1, (-1, 2)), angles(x)[:, None]
        first = pairs[..., 0] * turn.cos() - pairs[..., 1] * turn.sin()
        return torch.stack([first, pairs[..., 0] * turn.sin() + pairs[..., 1] * turn.cos()], -1).flatten(-2)


def test_matrices_of_keys_and_values_are_found_where_they_multiply_queries_and_attended_latents() -> None:
    reference, candidate = drawn(Attention(), 0), drawn(Absorbed(), 1)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, 5, SIZE),), {})
    arrays, weights = {name: torch.as_tensor(array) for name, array in loading.arrays.items()}, reference.state_dict()
    up = weights["up.weight"].unflatten(0, (HEADS, -1))
    expected = {
        "q.weight": weights["q.weight"],
        "down.weight": weights["down.weight"][:LATENT],
        "k_turned.weight": weights["down.weight"][LATENT:],
        "k_up": up[:, :HEAD],
        "v_up": up[:, HEAD:],
        "out.weight": weights["out.weight"],
    }
    for name, weight in expected.items():
        assert torch.equal(arrays[name], weight), name
    assert not any("no value of the reference enters" in note for note in loading.notes)


class First(nn.Module):
    """A convolution of all rows but the last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(SIZE, SIZE, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.conv(self.part(x).mT)
        return result

    def part(self, x: Tensor) -> Tensor:
        return x[:, :-1]


class Last(First):
    """A fault: all rows but the first."""

    def part(self, x: Tensor) -> Tensor:
        return x[:, 1:]


def test_a_kernel_of_other_data_is_no_such_matrix() -> None:
    reference, candidate = drawn(First(), 0), drawn(Last(), 1)
    loading = load_by_structure(reference, ModulePort(candidate), (torch.randn(2, 5, SIZE),), {})
    assert torch.equal(torch.as_tensor(loading.arrays["conv.weight"]), reference.state_dict()["conv.weight"])
