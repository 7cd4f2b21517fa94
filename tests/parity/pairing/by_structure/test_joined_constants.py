"""Tokens that are joined with the patches of an image, with their positions added to them or not."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cellbridge.parity.pairing.by_structure.loading import load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from tests.parity.pairing.by_structure.networks import drawn

SIZE, PATCHES, REGISTERS = 6, 4, 2


class Tokens(nn.Module):
    """Positions are added to the patches and the token before them; registers have none."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.up = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        self.token, self.positions = (nn.Parameter(torch.zeros(1, n, SIZE)) for n in (1, 1 + PATCHES))
        self.registers, self.norm = nn.Parameter(torch.zeros(1, REGISTERS, SIZE)), nn.LayerNorm(SIZE)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.token.expand(len(x), -1, -1), self.patches(x)], 1) + self.positions
        x = torch.cat([x[:, :1], self.registers.expand(len(x), -1, -1), x[:, 1:]], 1)
        result: Tensor = self.up(self.norm(x))
        return result


class Folded(nn.Module):
    """The token has its position in it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.up, self.norm = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE), nn.LayerNorm(SIZE)
        self.first, self.positions = nn.Parameter(torch.zeros(SIZE)), nn.Parameter(torch.zeros(PATCHES, SIZE))
        self.registers = nn.Parameter(torch.zeros(REGISTERS, SIZE))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x) + self.positions
        before = torch.cat([self.first[None], self.registers]).expand(len(x), -1, -1)
        result: Tensor = self.up(self.norm(torch.cat([before, x], 1)))
        return result


def test_a_sum_of_two_stored_tensors_is_loaded_as_one() -> None:
    reference, candidate = drawn(Tokens(), 0), drawn(Folded(), 1)
    x = (torch.randn(2, PATCHES, SIZE),)
    loading = load_by_structure(reference, ModulePort(candidate), x, {})
    arrays, weights = {name: torch.as_tensor(array) for name, array in loading.arrays.items()}, reference.state_dict()
    assert torch.equal(arrays["first"], weights["token"][0, 0] + weights["positions"][0, 0])
    assert torch.equal(arrays["positions"], weights["positions"][0, 1:])
    assert torch.equal(arrays["registers"], weights["registers"][0])
